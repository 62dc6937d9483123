"""PNG decoding of `acl.himpi`: channels, and what a header says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu import constants
from softnpu.base.errors import NpuError
from softnpu.media import rules
from softnpu.media.codecs import png
from softnpu.media.pixels.formats import UNKNOWN, pixel_format
from softnpu.media.pixels.picture import Picture
from softnpu.media.v2.coder import Coder
from softnpu.media.v2.errors import failure, himpi_error
from softnpu.media.v2.struct import Fields, Struct
from softnpu.media.v2.structs import IMAGE_INFO, IMAGE_STREAM, PIC, image, picture
from softnpu.runtime.process import process

ATTRIBUTES = Struct("pngd channel attributes", stream_que_cnt="u32", reserved="u32[4]")
_DEFAULT_QUEUE = 64
_MOST_QUEUE = 1024
_BYTE = np.dtype(np.uint8)


@dataclass
class Job:
    """A sent stream with its output, and how it ended."""

    stream: Fields
    target: Picture
    error: NpuError | None = None

    def values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Both dictionaries, for the program to give its memory back."""
        return PIC.write(_pic_info(self.target)), IMAGE_STREAM.write(self.stream)


def _pic_info(target: Picture) -> Fields:
    info = PIC.blank()
    info.picture_address, info.picture_buffer_size = target.address, target.size
    info.picture_width, info.picture_height = target.width, target.height
    info.picture_width_stride, info.picture_height_stride = target.width_stride, target.height_stride
    info.picture_format = target.format
    return info


class PngdChannel(Coder):
    """A PNG channel: results come in the order of the streams."""

    module = "pngd"

    def __init__(self, number: int, attributes: Fields) -> None:
        super().__init__(number)
        self.most = attributes.stream_que_cnt or _DEFAULT_QUEUE
        if self.most > _MOST_QUEUE:
            raise self.error("ILLEGAL_PARAM", f"stream_que_cnt is {self.most}", f"use 1 to {_MOST_QUEUE}")

    def send(self, stream: Fields, info: Fields, ms: int) -> None:
        """`pngd_send_stream`. The memory of the stream stays the program's, and is read until the result is fetched."""
        target = picture(info)
        check_stream(stream)
        if target.address == 0:
            raise himpi_error("pngd", "NULL_PTR", "the output has no memory (picture_address 0)", "use dvpp_malloc")
        self.memory.reach(stream.addr, stream.len, False)
        with self.changed:
            self.need_open()
            if not self.wait_until(lambda: self._inside() < self.most, ms):
                raise self.error(
                    "TIMEOUT" if ms else "BUF_FULL",
                    f"{self.most} streams are under way (stream_que_cnt)",
                    "fetch results with pngd_get_image_data",
                )
            self.put(Job(stream, target))

    def _inside(self) -> int:
        return len(self.waiting) + self.working + len(self.results)

    def get(self, ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """`pngd_get_image_data`: the next result; a picture that could not be decoded comes with its memory, too."""
        with self.changed:
            self.need_open()
            if not self.wait_until(lambda: bool(self.results), ms):
                raise self.error("BUF_EMPTY", "no picture is ready", "call again, or wait longer")
            job = self.results.popleft()
            self.settle()
        if job.error is not None:
            raise NpuError(job.error.code, job.error.text, job.error.remedy, values=job.values())
        return job.values()  # type: ignore[no-any-return]

    def work(self, item: Job) -> list[Job]:
        """Decode one stream."""
        data = self.memory.view(item.stream.addr, (item.stream.len,), _BYTE)
        info = png.parse(data)
        item.target = _resolved(item.target, info)
        rules.check("pngd", "out", item.target, version=2)
        png.decode(data, info, item.target.pixels(self.memory, True, "output"))
        return [item]

    def failed(self, item: Job, error: Exception) -> list[Job]:
        """The stream with what went wrong."""
        item.error = failure("pngd", error)
        return [item]

    def finish(self) -> None:
        """Nothing is held."""


def _resolved(described: Picture, info: png.PngInfo) -> Picture:
    """The output with what the program left open: format, size, strides."""
    form, size = (
        pixel_format(png.outputs(info)[0] if described.format == UNKNOWN else described.format),
        (info.width, info.height),
    )
    return described.decoded(form, size, png.output_strides(size, form))


def check_stream(stream: Fields) -> None:
    """Raise unless it describes a PNG in memory."""
    if stream.type not in (0, constants.HI_PT_PNG):
        raise himpi_error(
            "pngd", "ILLEGAL_PARAM", f"the stream has the type {stream.type}", f"use {constants.HI_PT_PNG} (HI_PT_PNG)"
        )
    if stream.addr == 0:
        raise himpi_error("pngd", "NULL_PTR", "the stream has no memory (addr 0)", "pass the address of the PNG")
    if stream.len == 0:
        raise himpi_error("pngd", "ILLEGAL_PARAM", "the stream has no bytes (len 0)", "pass the size of the PNG")


def image_info(stream: Fields) -> dict[str, Any]:
    """`png_get_image_info`: size, colour type, and what the output takes in the format of the source."""
    check_stream(stream)
    return IMAGE_INFO.write(png_info(process().memory.view(stream.addr, (stream.len,), _BYTE)))


def png_info(data: object) -> Fields:
    """What the header of a PNG says."""
    info = png.parse(data)
    form, size = pixel_format(png.outputs(info)[0]), (info.width, info.height)
    return image(size, png.output_strides(size, form), form, info.colour_type)
