"""Dynamic AIPP at run time: the parameter set that an application fills, the checks before it is attached, the pictures.

A set is what `acl.mdl.create_aipp` hands out. `check_attach` compares it with a model's input, `write_block` makes the bytes
that go into the parameter input, `apply` computes the model's input from pictures and such a block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from softnpu.base.aipp import FORMATS, MAX_FACTOR, MAX_PADDING, MAX_SIDE, YUV400, YUV420SP, AippParams, widest
from softnpu.base.aipp_block import MAX_BATCH, block_bytes, pack
from softnpu.base.dtypes import TensorFormat
from softnpu.base.errors import NpuError, codes
from softnpu.ops import OpError
from softnpu.ops.image.aipp_dynamic import apply as _apply

Array = np.ndarray[Any, Any]
NHWC = TensorFormat.NHWC
_DYNAMIC_FORMATS = (1, 2, 3, 4)  # what the chips accept for dynamic AIPP
_KNOWN_FORMATS = range(1, 15)  # aclAippInputFormat, RAW among them
_MATRIX_LOW, _MATRIX_HIGH = -32677, 32676  # as the manual prints them
_SCALE_LOW, _SCALE_WIDE = 16, 1920


def _refuse(text: str, remedy: str = "") -> NpuError:
    return NpuError(codes.INVALID_PARAM, text, remedy)


def _within(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # NaN is in no range
        raise _refuse(f"{what} {value:g} is not in {low:g} to {high:g}", "pass a value of this range")


def _switch(what: str, value: int) -> bool:
    if value not in (0, 1):
        raise _refuse(f"{what} {value} is neither 0 nor 1", "1 turns it on, 0 turns it off")
    return value == 1


@dataclass
class AippSet:
    """Parameters of dynamic AIPP for a batch: what all pictures share stands in `shared`, the rest per picture."""

    batch: int
    shared: AippParams = field(default_factory=lambda: AippParams(0))
    pictures: list[AippParams] = field(default_factory=list)
    scaled: set[int] = field(default_factory=set)  # pictures that ask for scaling, which no chip here does

    def __post_init__(self) -> None:
        self.pictures = [AippParams(0)] * self.batch

    # ---- setters, named after those of acl.mdl -----------------------------------------------------------------------

    def set_input_format(self, code: int) -> None:
        """Set the format of the source pictures (aclAippInputFormat)."""
        if code not in _KNOWN_FORMATS:
            raise _refuse(
                f"the picture format {code} is unknown", "1 is YUV420SP_U8, 2 XRGB8888_U8, 3 RGB888_U8, 4 YUV400_U8"
            )
        self.shared = replace(self.shared, input_format=code)

    def set_csc(
        self, switch: int, matrix: tuple[int, ...], output_bias: tuple[int, ...], input_bias: tuple[int, ...]
    ) -> None:
        """Set colour conversion; with the switch off the numbers are ignored."""
        if not _switch("csc_switch", switch):
            self.shared = replace(self.shared, csc=False)
            return
        for index, value in enumerate(matrix):
            _within(f"csc_matrix_r{index // 3}c{index % 3}", value, _MATRIX_LOW, _MATRIX_HIGH)
        for side, biases in (("output", output_bias), ("input", input_bias)):
            for index, value in enumerate(biases):
                _within(f"csc_{side}_bias_{index}", value, 0, 255)
        self.shared = replace(self.shared, csc=True, matrix=matrix, output_bias=output_bias, input_bias=input_bias)

    def set_rbuv_swap(self, switch: int) -> None:
        """Set the swap of R and B, or U and V."""
        self.shared = replace(self.shared, rbuv_swap=_switch("rbuv_swap_switch", switch))

    def set_ax_swap(self, switch: int) -> None:
        """Set the move of the first of four channels to the end."""
        self.shared = replace(self.shared, ax_swap=_switch("ax_swap_switch", switch))

    def set_src_image_size(self, width: int, height: int) -> None:
        """Set the size of the source pictures."""
        _within("the width of the source picture", width, 2, MAX_SIDE)
        _within("the height of the source picture", height, 1, MAX_SIDE)
        self.shared = replace(self.shared, src_w=width, src_h=height)

    def set_crop(self, switch: int, start: tuple[int, int], size: tuple[int, int], index: int) -> None:
        """Set the crop rectangle of a picture: (W, H) of its start and of its size."""
        self._check(index)
        on = _switch("crop_switch", switch)
        if on:
            for axis, value in zip("wh", start, strict=True):
                _within(f"crop_start_pos_{axis}", value, 0, MAX_SIDE - 1)
            for axis, value in zip("wh", size, strict=True):
                _within(f"crop_size_{axis}", value, 1, MAX_SIDE)
        places = (
            {"crop_start_w": start[0], "crop_start_h": start[1], "crop_w": size[0], "crop_h": size[1]} if on else {}
        )
        self.pictures[index] = replace(self.pictures[index], crop=on, **places)  # type: ignore[arg-type]

    def set_padding(self, switch: int, sizes: tuple[int, int, int, int], index: int) -> None:
        """Set the zero padding of a picture: top, bottom, left, right."""
        self._check(index)
        on = _switch("padding_switch", switch)
        paddings = dict(zip(("top", "bottom", "left", "right"), sizes, strict=True)) if on else {}
        for side, value in paddings.items():
            _within(f"padding_size_{side}", value, 0, MAX_PADDING)
        self.pictures[index] = replace(self.pictures[index], padding=on, **paddings)  # type: ignore[arg-type]

    def set_mean(self, values: tuple[int, ...], index: int) -> None:
        """Set what is subtracted from each channel of a picture first."""
        self._numbers("dtc_pixel_mean", values, 0, 255, index)
        self.pictures[index] = replace(self.pictures[index], mean=values)

    def set_min(self, values: tuple[float, ...], index: int) -> None:
        """Set what is subtracted from each channel of a picture next; kept as float16."""
        self._numbers("dtc_pixel_min", values, 0, 255, index)
        self.pictures[index] = replace(self.pictures[index], min=values)

    def set_var_reci(self, values: tuple[float, ...], index: int) -> None:
        """Set the factor of each channel of a picture; kept as float16."""
        self._numbers("dtc_pixel_var_reci", values, -MAX_FACTOR, MAX_FACTOR, index)
        self.pictures[index] = replace(self.pictures[index], var_reci=values)

    def set_scf(self, switch: int, source: tuple[int, int], result: tuple[int, int], index: int) -> None:
        """Note that a picture is to be scaled: allowed here, refused when the set is attached."""
        self._check(index)
        if not _switch("scf_switch", switch):
            self.scaled.discard(index)
            return
        for parameter, value in zip(
            ("input_size_w", "input_size_h", "output_size_w", "output_size_h"), (*source, *result), strict=True
        ):
            _within(f"scf_{parameter}", value, _SCALE_LOW, _SCALE_WIDE if parameter == "output_size_w" else MAX_SIDE)
        self.scaled.add(index)

    def _check(self, index: int) -> None:
        if index >= self.batch:
            raise _refuse(
                f"batch index {index} is outside a set of {self.batch} pictures",
                "count from 0; create_aipp sets the number",
            )

    def _numbers(self, what: str, values: tuple[float, ...], low: float, high: float, index: int) -> None:
        self._check(index)
        for channel, value in enumerate(values):
            if not math.isfinite(value):
                raise _refuse(f"{what}_chn{channel} {value} is no number", "pass a finite number")
            _within(f"{what}_chn{channel}", value, low, high)

    def whole(self) -> list[AippParams]:
        """Every picture with what all share."""
        shared = self.shared
        return [
            replace(
                picture,
                input_format=shared.input_format,
                csc=shared.csc,
                rbuv_swap=shared.rbuv_swap,
                ax_swap=shared.ax_swap,
                src_w=shared.src_w,
                src_h=shared.src_h,
                matrix=shared.matrix,
                output_bias=shared.output_bias,
                input_bias=shared.input_bias,
            )
            for picture in self.pictures
        ]


def create(batch: int) -> AippSet:
    """A set for a batch, with all switches off."""
    if not 1 <= batch <= MAX_BATCH:
        raise _refuse(f"a batch of {batch} pictures is not possible", f"pass 1 to {MAX_BATCH}")
    return AippSet(batch)


def data_size(batch: int) -> int:
    """Bytes of the parameter block for a batch."""
    if not 1 <= batch <= MAX_BATCH:
        raise _refuse(f"a batch of {batch} pictures is not possible", f"pass 1 to {MAX_BATCH}")
    return block_bytes(batch)


# ---- attaching -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """The input of a model that a set is attached to: the bytes its pictures may have, the model's own dims there (-1 where
    gears or ranges leave them open), and the family of the chip."""

    max_src_image_size: int
    batch: int
    height: int
    width: int
    channels: int = -1
    family: str = ""


def check_attach(parameters: AippSet, slot: Slot) -> list[AippParams]:
    """Raise unless the set can be used for this input; returns the parameters per picture."""
    pictures = parameters.whole()
    _check_source(parameters, slot)
    for index, picture in enumerate(pictures):
        _check_picture(picture, index, slot)
    sizes = {picture.output_size() for picture in pictures}
    if len(sizes) > 1:
        shown = ", ".join(f"{w} x {h}" for h, w in sorted(sizes))
        raise _refuse(
            f"the pictures of the batch have different sizes after AIPP: {shown}",
            "give all the same crop and padding sizes",
        )
    _check_model(parameters, pictures[0], slot)
    return pictures


def _check_source(parameters: AippSet, slot: Slot) -> None:
    shared = parameters.shared
    if shared.input_format not in _DYNAMIC_FORMATS:
        allowed = ", ".join(f"{code} {FORMATS[code].name}" for code in _DYNAMIC_FORMATS)
        raise _refuse(
            f"the picture format {shared.input_format} is not possible with dynamic AIPP",
            f"set one of {allowed} with set_aipp_input_format",
        )
    if shared.csc and shared.input_format == YUV400:
        raise _refuse("colour conversion is on, but YUV400_U8 has no colour", "turn it off with set_aipp_csc_params")
    if not shared.src_w:
        raise _refuse("the size of the source picture is not set", "call acl.mdl.set_aipp_src_image_size first")
    if shared.input_format == YUV420SP and (shared.src_w | shared.src_h) & 1:
        raise _refuse(
            f"the source picture is {shared.src_w} x {shared.src_h}; YUV420SP_U8 needs even sizes", "set even sizes"
        )
    if parameters.scaled:
        raise _refuse(
            f"picture {min(parameters.scaled)} of the set asks for scaling, which this chip does not do",
            "turn it off with set_aipp_scf_params",
        )
    size = shared.format.source_bytes(parameters.batch, shared.src_h, shared.src_w)
    if size > slot.max_src_image_size:
        raise _refuse(
            f"{parameters.batch} source pictures of {shared.src_w} x {shared.src_h} have {size} bytes, more than max_src_image_size {slot.max_src_image_size} of the model",
            "convert the model with a larger max_src_image_size",
        )


def _check_picture(picture: AippParams, index: int, slot: Slot) -> None:
    if picture.crop:
        for side, start, size, source in (
            ("width", picture.crop_start_w, picture.crop_w, picture.src_w),
            ("height", picture.crop_start_h, picture.crop_h, picture.src_h),
        ):
            if start + size > source:
                raise _refuse(
                    f"the crop of picture {index} ends at {start + size}, beyond the source's {side} {source}",
                    "crop inside the source",
                )
        if picture.input_format == YUV420SP and (picture.crop_start_w | picture.crop_start_h) & 1:
            raise _refuse(
                f"the crop of picture {index} starts at {picture.crop_start_w}, {picture.crop_start_h}; YUV420SP_U8 needs even numbers",
                "start at even numbers",
            )
    width = picture.output_size()[1]
    if width > widest(slot.family):
        raise _refuse(
            f"picture {index} is {width} wide after AIPP, this chip writes at most {widest(slot.family)}",
            "crop narrower or pad less",
        )


def _check_model(parameters: AippSet, picture: AippParams, slot: Slot) -> None:
    height, width = picture.output_size()
    for axis, size, wanted in (
        ("batch", parameters.batch, slot.batch),
        ("height", height, slot.height),
        ("width", width, slot.width),
    ):
        if wanted >= 0 and size != wanted:
            raise _refuse(
                f"the {axis} after AIPP is {size}, the model takes {wanted}", "change the set so that both are equal"
            )
    if slot.channels >= 0 and picture.channels != slot.channels and not (slot.channels == 1 and picture.grey):
        raise _refuse(
            f"AIPP makes {picture.channels} channels of {picture.format.name}, the model takes {slot.channels}",
            "set another picture format, or turn colour conversion on or off",
        )


def write_block(parameters: AippSet) -> bytes:
    """The bytes that go into the parameter input; the set must have passed `check_attach`."""
    return pack(parameters.whole())


def apply(block: bytes, pixels: Array, out_shape: tuple[int, ...], out_dtype: type[np.generic], layout: int) -> Array:
    """The model's input from pictures (flat uint8, one behind the other) and a parameter block. `out_shape` is the model's
    (-1 where it takes any size), `layout` its aclFormat."""
    channel_axis = 3 if layout == NHWC else 1
    try:
        result = _apply("dynamic AIPP", block, pixels.reshape(-1), out_shape[channel_axis], out_dtype, layout)
    except OpError as error:
        raise _refuse(str(error)) from error
    if len(out_shape) != 4 or any(
        wanted not in (-1, size) for wanted, size in zip(out_shape, result.shape, strict=True)
    ):
        raise _refuse(
            f"dynamic AIPP makes {list(result.shape)}, the model takes {list(out_shape)}",
            "set the parameters for the size that the model runs with",
        )
    return result
