"""AIPP, the picture preprocessing inside a model: formats of source pictures and the parameters that describe the work.

Compiler, operators and executor share these words. A source picture has rows without padding between them; a size of 0
means the size of the model's input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

MAX_SIDE = 4096
MAX_PADDING = 32
MAX_FACTOR = 65504.0  # the largest float16
_NARROW = frozenset({"310", "310P", "910"})  # families of chips whose AIPP writes at most 1080 pixels a row
_NARROW_WIDTH = 1080


@dataclass(frozen=True, slots=True)
class Format:
    """A format of source pictures. `code` is aclAippInputFormat (and the number in a configuration file), `block` the
    number in the parameter block of dynamic AIPP."""

    code: int
    name: str
    block: int
    channels: int  # of a pixel, before colour conversion
    halves: int  # bytes per pixel times two
    step: tuple[int, int] = (1, 1)  # how many rows and columns share one chroma pair
    yuv: bool = False
    planar: bool = False  # luma first, then pairs of chroma

    def memory_dims(self, n: int, h: int, w: int) -> tuple[int, ...]:
        """How the bytes of n pictures lie in memory; an unknown size (-1) stays unknown."""
        if self.planar:
            return n, h if h < 0 else h * self.halves // 2, w, 1
        return n, h, w, self.halves // 2

    def source_bytes(self, n: int, h: int, w: int) -> int:
        """Bytes of n pictures."""
        return n * (h * w * self.halves // 2)

    def source_height(self, rows: int) -> int:
        """The height of a picture with this many rows in memory."""
        return rows * 2 // self.halves if self.planar and rows >= 0 else rows


FORMATS = {
    format.code: format
    for format in (
        Format(1, "YUV420SP_U8", 1, 3, 3, (2, 2), yuv=True, planar=True),
        Format(2, "XRGB8888_U8", 2, 4, 8),
        Format(3, "RGB888_U8", 5, 3, 6),
        Format(4, "YUV400_U8", 10, 1, 2, yuv=True),
        Format(7, "ARGB8888_U8", 6, 4, 8),
        Format(8, "YUYV_U8", 7, 3, 4, (1, 2), yuv=True),
        Format(9, "YUV422SP_U8", 8, 3, 4, (1, 2), yuv=True, planar=True),
        Format(10, "AYUV444_U8", 9, 4, 8, yuv=True),
    )
}
YUV420SP, YUV400 = 1, 4
FROM_BLOCK = {format.block: format for format in FORMATS.values()}
FORMAT_NAMES = {
    **{format.name: format.code for format in FORMATS.values()},
    "NC1HWC0DI_FP16": 5, "NC1HWC0DI_S8": 6, "RAW10": 11, "RAW12": 12, "RAW16": 13, "RAW24": 14, "RGB16": 15, "RGB20": 16,
    "RGB24": 17, "RGB8_IR": 18, "RGB16_IR": 19, "RGB24_IR": 20,
}  # fmt: skip
# What colour conversion uses where a configuration gives no number: (matrix, input biases, output biases).
_TO_BGR = ((298, 516, 0, 298, -100, -208, 298, 0, 409), (16, 128, 128), (0, 0, 0))
_TO_YUV = ((66, 129, 25, -38, -74, 112, 112, -94, -18), (0, 0, 0), (16, 128, 128))


def csc_defaults(input_format: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Matrix, input biases and output biases of colour conversion for a format, where nothing else is said."""
    return _TO_BGR if FORMATS[input_format].yuv else _TO_YUV


def widest(family: str) -> int:
    """The widest row that AIPP of a family of chips writes."""
    return _NARROW_WIDTH if family in _NARROW else MAX_SIDE


def half(value: float) -> float:
    """A number as AIPP's registers hold it: rounded to float16."""
    return float(np.float16(value))


@dataclass(frozen=True)
class AippParams:
    """What AIPP does to a picture. `min` and `var_reci` are held as float16, so they are rounded when given."""

    input_format: int
    csc: bool = False
    rbuv_swap: bool = False
    ax_swap: bool = False
    single_line: bool = False
    src_w: int = 0
    src_h: int = 0
    crop: bool = False
    crop_start_w: int = 0
    crop_start_h: int = 0
    crop_w: int = 0
    crop_h: int = 0
    padding: bool = False
    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0
    padding_value: float = 0.0
    matrix: tuple[int, ...] = (0,) * 9  # row by row
    output_bias: tuple[int, ...] = (0, 0, 0)
    input_bias: tuple[int, ...] = (0, 0, 0)
    mean: tuple[int, ...] = (0,) * 4
    min: tuple[float, ...] = (0.0,) * 4
    var_reci: tuple[float, ...] = (1.0,) * 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "min", tuple(half(value) for value in self.min))
        object.__setattr__(self, "var_reci", tuple(half(value) for value in self.var_reci))
        object.__setattr__(self, "padding_value", float(np.float32(self.padding_value)))

    @property
    def format(self) -> Format:
        """The row of the source format."""
        return FORMATS[self.input_format]

    @property
    def channels(self) -> int:
        """Channels of the result; a model with one channel takes the first one of a conversion to grey."""
        return 3 if self.csc else self.format.channels

    @property
    def grey(self) -> bool:
        """Whether colour conversion fills the first channel only."""
        return self.csc and not any(self.matrix[3:]) and (self.format.yuv or not any(self.output_bias[1:]))

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Left, right, top, bottom as they are used."""
        return (self.left, self.right, self.top, self.bottom) if self.padding else (0, 0, 0, 0)

    def resolved(self, h: int, w: int) -> AippParams:
        """The same with the sizes that were left open (0) taken from the model's height and width, where those are known."""
        params = self
        if not params.src_w or not params.src_h:
            params = replace(params, src_w=max(w, 0), src_h=max(h, 0))
        if params.crop:
            params = replace(params, crop_w=params.crop_w or max(w, 0), crop_h=params.crop_h or max(h, 0))
        return params

    def output_size(self, h: int = 0, w: int = 0) -> tuple[int, int]:
        """Height and width of the result; h and w are the source's where the parameters leave it open (-1 unknown)."""
        left, right, top, bottom = self.pads
        height, width = (self.crop_h, self.crop_w) if self.crop else (self.src_h or h, self.src_w or w)
        return (height if height < 0 else height + top + bottom), (width if width < 0 else width + left + right)

    def to_json(self) -> dict[str, Any]:
        """As a plain dictionary, with the keys that acl.mdl.get_first_aipp_info answers and `paddingValue`."""
        content: dict[str, Any] = {key: int(getattr(self, name)) for key, name in _KEYS.items()}
        content |= {"resizeSwitch": 0, "resizeOutputW": 0, "resizeOutputH": 0, "paddingValue": self.padding_value}
        content |= {f"matrixR{i // 3}C{i % 3}": self.matrix[i] for i in range(9)}
        for key, values in (("outputBias", self.output_bias), ("inputBias", self.input_bias)):
            content |= {f"{key}{i}": values[i] for i in range(3)}
        for key, numbers in (("meanChn", self.mean), ("minChn", self.min), ("varReciChn", self.var_reci)):
            content |= {f"{key}{i}": numbers[i] for i in range(4)}
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> AippParams:
        """From such a dictionary; raises ValueError when it makes no sense (it may come from a file)."""
        try:
            plain: dict[str, Any] = {name: int(content[key]) for key, name in _KEYS.items()}
            for name in _SWITCHES:
                plain[name] = bool(plain[name])
            params = cls(
                **plain,
                padding_value=float(content.get("paddingValue", 0.0)),
                matrix=tuple(int(content[f"matrixR{i // 3}C{i % 3}"]) for i in range(9)),
                output_bias=tuple(int(content[f"outputBias{i}"]) for i in range(3)),
                input_bias=tuple(int(content[f"inputBias{i}"]) for i in range(3)),
                mean=tuple(int(content[f"meanChn{i}"]) for i in range(4)),
                min=tuple(float(content[f"minChn{i}"]) for i in range(4)),
                var_reci=tuple(float(content[f"varReciChn{i}"]) for i in range(4)),
            )
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"the AIPP parameters are damaged: {type(error).__name__} {error}") from error
        problem = params.problem()
        if problem:
            raise ValueError(f"the AIPP parameters are damaged: {problem}")
        return params

    def problem(self) -> str:
        """What is wrong with the numbers, field and value named, or ""."""
        if self.input_format not in FORMATS:
            return f"input_format {self.input_format} is not one of {', '.join(format.name for format in FORMATS.values())}"
        return self._range_problem() or self._size_problem()

    def _range_problem(self) -> str:
        ranged: list[tuple[str, tuple[float, ...], float, float]] = [
            ("matrix", self.matrix, -32768, 32767),
            ("output_bias", self.output_bias, 0, 255),
            ("input_bias", self.input_bias, 0, 255),
            ("mean_chn", self.mean, 0, 255),
            ("min_chn", self.min, 0, 255),
            ("var_reci_chn", self.var_reci, -MAX_FACTOR, MAX_FACTOR),
            ("padding_value", (self.padding_value,), -MAX_FACTOR, MAX_FACTOR),
            ("left/right/top/bottom_padding_size", (self.left, self.right, self.top, self.bottom), 0, MAX_PADDING),
            ("src_image_size", (self.src_w, self.src_h), 0, MAX_SIDE),
            ("crop_size", (self.crop_w, self.crop_h), 0, MAX_SIDE),
            ("load_start_pos", (self.crop_start_w, self.crop_start_h), 0, MAX_SIDE - 1),
        ]
        for name, values, low, high in ranged:
            wrong = [value for value in values if not low <= value <= high]  # NaN is in no range
            if wrong:
                return f"{name} is {wrong[0]:g}, allowed is {low:g} to {high:g}"
        return ""

    def _size_problem(self) -> str:
        if self.csc and self.input_format == YUV400:
            return "csc_switch is true, but YUV400_U8 has no colour to convert"
        if bool(self.src_w) != bool(self.src_h):
            return f"src_image_size is {self.src_w} x {self.src_h}; give both or none"
        if self.src_w == 1:
            return f"src_image_size_w is 1, allowed is 2 to {MAX_SIDE}, or 0 for the model's own"
        rows, columns = self.format.step
        if self.src_w % columns or self.src_h % rows:
            return f"src_image_size is {self.src_w} x {self.src_h}; {self.format.name} needs an even {'size' if rows == 2 else 'width'}"
        if self.crop and self.src_w:
            for axis, start, size, whole in (
                ("w", self.crop_start_w, self.crop_w, self.src_w),
                ("h", self.crop_start_h, self.crop_h, self.src_h),
            ):
                if start + size > whole:
                    return f"load_start_pos_{axis} {start} + crop_size_{axis} {size} is beyond src_image_size_{axis} {whole}"
        return ""


_KEYS = {
    "inputFormat": "input_format", "cscSwitch": "csc", "rbuvSwapSwitch": "rbuv_swap", "axSwapSwitch": "ax_swap",
    "singleLineMode": "single_line", "srcImageSizeW": "src_w", "srcImageSizeH": "src_h", "cropSwitch": "crop",
    "loadStartPosW": "crop_start_w", "loadStartPosH": "crop_start_h", "cropSizeW": "crop_w", "cropSizeH": "crop_h",
    "paddingSwitch": "padding", "leftPaddingSize": "left", "rightPaddingSize": "right", "topPaddingSize": "top",
    "bottomPaddingSize": "bottom",
}  # fmt: skip
_SWITCHES = ("csc", "rbuv_swap", "ax_swap", "single_line", "crop", "padding")
