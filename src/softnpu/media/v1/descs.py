"""Descriptions of `acl.media`: plain values that a program fills in and an engine reads."""

from __future__ import annotations

from dataclasses import dataclass, field

from softnpu.base.errors import NpuError, codes
from softnpu.media.pixels.picture import Picture, Region
from softnpu.runtime.process import process

MOST_PICTURES = 256
_LEVELS = range(101)
_INTERPOLATIONS = range(6)
_BORDER_TYPES = range(4)


@dataclass
class PicDesc:
    """A picture as a program describes it. `batch` is the handle of the batch it belongs to, 0 when it stands alone."""

    data: int = 0
    size: int = 0
    format: int = 0
    width: int = 0
    height: int = 0
    width_stride: int = 0
    height_stride: int = 0
    ret_code: int = 0
    batch: int = 0

    def picture(self) -> Picture:
        """The place in memory: a copy, so that the program may change or destroy the description afterwards."""
        return Picture(
            self.data, self.size, self.width, self.height, self.width_stride, self.height_stride, self.format
        )


@dataclass
class StreamDesc:
    """A packet of coded data. `lent`: the system's, shown to a callback of VENC."""

    data: int = 0
    size: int = 0
    format: int = 0
    timestamp: int = 0
    ret_code: int = 0
    eos: int = 0
    lent: bool = False


@dataclass
class BatchPicDesc:
    """Handles of picture descriptions that come and go together."""

    handle: int = 0
    pictures: list[int] = field(default_factory=list)

    def at(self, index: int) -> int:
        """The handle of one picture description."""
        if index >= len(self.pictures):
            raise NpuError(
                codes.INVALID_PARAM,
                f"picture {index} of a batch of {len(self.pictures)} was asked for",
                f"use an index from 0 to {len(self.pictures) - 1}",
            )
        return self.pictures[index]

    def descs(self) -> list[PicDesc]:
        """The descriptions themselves."""
        handles = process().handles
        return [handles.get("pic_desc", handle) for handle in self.pictures]


def create_batch(count: int) -> BatchPicDesc:
    """A batch of empty picture descriptions."""
    if not 0 < count <= MOST_PICTURES:
        raise NpuError(
            codes.INVALID_PARAM, f"a batch of {count} pictures was asked for", f"ask for 1 to {MOST_PICTURES}"
        )
    handles = process().handles
    batch = BatchPicDesc()
    batch.handle = handles.add("batch_pic_desc", batch)
    batch.pictures = [handles.add("pic_desc", PicDesc(batch=batch.handle)) for _ in range(count)]
    return batch


def destroy_batch(handle: int) -> None:
    """Release a batch with its picture descriptions."""
    handles = process().handles
    for picture in handles.remove("batch_pic_desc", handle).pictures:
        handles.discard(picture)


def destroy_picture(handle: int) -> None:
    """Release a picture description that stands alone."""
    handles = process().handles
    batch = handles.get("pic_desc", handle).batch
    if batch:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the picture description {handle:#x} belongs to the batch {batch:#x}",
            "destroy the batch with dvpp_destroy_batch_pic_desc; its descriptions go with it",
        )
    handles.remove("pic_desc", handle)


def destroy_stream(handle: int) -> None:
    """Release a packet description of the program's own."""
    handles = process().handles
    if handles.get("stream_desc", handle).lent:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the packet description {handle:#x} came with a callback of VENC and belongs to the system",
            "do not destroy it: it goes when the callback returns",
        )
    handles.remove("stream_desc", handle)


@dataclass
class RoiConfig:
    """A region whose bounds all lie inside it."""

    left: int
    right: int
    top: int
    bottom: int

    def region(self) -> Region:
        """The same with a size; one without any is noticed where it is used."""
        return Region(self.left, self.top, self.right - self.left + 1, self.bottom - self.top + 1)


@dataclass
class ResizeConfig:
    """How pictures are scaled; 0 is the default of the chip."""

    interpolation: int = 0

    def set_interpolation(self, interpolation: int) -> None:
        """Choose by number."""
        if interpolation not in _INTERPOLATIONS:
            raise NpuError(
                codes.INVALID_PARAM,
                f"interpolation {interpolation} is not known",
                "use 0 (default), 1 (bilinear), 2 (nearest), 3 or 4 (the same as TensorFlow does it) or 5 (high order)",
            )
        self.interpolation = interpolation


@dataclass
class BorderConfig:
    """A frame: how wide it is, and with what it is filled."""

    border_type: int = 0
    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0
    values: list[float] = field(default_factory=lambda: [0.0] * 4)

    def set_border_type(self, border_type: int) -> None:
        """Choose by number."""
        if border_type not in _BORDER_TYPES:
            raise NpuError(
                codes.INVALID_PARAM,
                f"border type {border_type} is not known",
                "use 0 (constant), 1 (replicate), 2 (reflect) or 3 (reflect 101)",
            )
        self.border_type = border_type

    def index(self, index: int) -> int:
        """The index of a fill value, checked."""
        if index >= len(self.values):
            raise NpuError(
                codes.INVALID_PARAM,
                f"border value {index} does not exist",
                f"use an index from 0 to {len(self.values) - 1}",
            )
        return index

    def copy(self) -> BorderConfig:
        """As it is now."""
        return BorderConfig(self.border_type, self.top, self.bottom, self.left, self.right, list(self.values))

    def inner(self, width: int, height: int) -> Region:
        """What the frame leaves of a picture of this size."""
        inner = Region(self.left, self.top, width - self.left - self.right, height - self.top - self.bottom)
        if inner.width <= 0 or inner.height <= 0:
            raise NpuError(
                codes.INVALID_PARAM,
                f"a border of {self.left}, {self.right} columns and {self.top}, {self.bottom} rows leaves nothing of the {width}x{height} output",
                "make the output larger or the border smaller",
            )
        return inner


@dataclass
class JpegeConfig:
    """The quality of a JPEG."""

    level: int = 100

    def set_level(self, level: int) -> None:
        """Choose the quality; 0 acts as 100."""
        if level not in _LEVELS:
            raise NpuError(codes.INVALID_PARAM, f"JPEG level {level} is not known", "use 1 (worst) to 100 (best)")
        self.level = level

    @property
    def quality(self) -> int:
        """As encoders count it: 1 to 100."""
        return self.level or 100
