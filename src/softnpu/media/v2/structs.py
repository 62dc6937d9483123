"""Dictionaries that several engines of `acl.himpi` share."""

from __future__ import annotations

from typing import Any

from softnpu.media.pixels.formats import PixelFormat
from softnpu.media.pixels.picture import Picture
from softnpu.media.v2.struct import Fields, Struct

PIC = Struct(
    "pic info",
    picture_address="ptr",
    picture_buffer_size="u32",
    picture_width="u32",
    picture_height="u32",
    picture_width_stride="u32",
    picture_height_stride="u32",
    picture_format="i32",
)
IMAGE_BASE = Struct("image base info", ("reserved",), width="u32", height="u32", pixel_format="i32", reserved="i32[2]")
IMAGE_ALIGN = Struct("image align info", width_stride="u32", height_stride="u32", img_buf_size="u64", reserved="u32[2]")
IMAGE_INFO = Struct(
    "image info",
    width="u32",
    height="u32",
    width_stride="u32",
    height_stride="u32",
    img_buf_size="u32",
    pixel_format="i32",
    reserved="i32[4]",
)
IMAGE_STREAM = Struct("image stream", type="i32", addr="ptr", len="u32", pts="u64", reserved="i32[2]")
EPOLL_EVENT = Struct("epoll event", events="u32", data="u64")

_CELLS = tuple(f"csc_matrix_r{row}_c{column}" for row in range(3) for column in range(3))
_BIASES = tuple(f"csc_bias_r{row}" for row in range(3))
_NUMBERS: dict[str, Any] = dict.fromkeys(_CELLS + _BIASES, "f64")
COEFFICIENTS = Struct("coefficients", **_NUMBERS)
CSC = Struct("csc coefficients", yuv_to_rgb_coefficient=COEFFICIENTS, rgb_to_yuv_coefficient=COEFFICIENTS)

RECT = Struct("rect", x="i32", y="i32", width="u32", height="u32")
POINT = Struct("point", x="i32", y="i32")
SIZE = Struct("size", width="u32", height="u32")
SCALAR = Struct("scalar", val="f64[4]")

_SUPPLEMENTS = ("misc_info", "jpeg_dcf", "isp_info", "low_delay", "bnr", "motion_data", "frame_dng")
_PHYSICAL: dict[str, Any] = {f"{'bnr_rnt' if name == 'bnr' else name}_phys_addr": "u64" for name in _SUPPLEMENTS}
_VIRTUAL: dict[str, Any] = {f"{'bnr_mot' if name == 'bnr' else name}_virt_addr": "ptr" for name in _SUPPLEMENTS}

V_FRAME = Struct(
    "v_frame",
    width="u32",
    height="u32",
    field="i32",
    pixel_format="i32",
    video_format="i32",
    compress_mode="i32",
    dynamic_range="i32",
    color_gamut="i32",
    header_stride="u32[3]",
    width_stride="u32[3]",
    height_stride="u32[3]",
    header_phys_addr="u64[3]",
    phys_addr="u64[3]",
    header_virt_addr="ptr[3]",
    virt_addr="ptr[3]",
    time_ref="u32",
    pts="u64",
    user_data="u64[2]",
    frame_flag="u32",
    supplement=Struct("supplement", **_PHYSICAL, **_VIRTUAL),
)
FRAME_INFO = Struct("frame info", v_frame=V_FRAME, pool_id="u32", mod_id="i32")


def picture(info: Fields) -> Picture:
    """The picture that a pic info describes."""
    return Picture(
        info.picture_address,
        info.picture_buffer_size,
        info.picture_width,
        info.picture_height,
        info.picture_width_stride,
        info.picture_height_stride,
        info.picture_format,
    )


def image(size: tuple[int, int], strides: tuple[int, int], form: PixelFormat, value: int) -> Fields:
    """What a header says of a picture: its size, and what it takes in a format; `value` is the format as the call names it."""
    info = IMAGE_INFO.blank()
    info.width, info.height = size
    info.width_stride, info.height_stride = strides
    info.img_buf_size = form.size(*strides)
    info.pixel_format = value
    return info


def coefficients(values: Fields) -> list[float]:
    """Nine cells in rows and three biases, as `csc.user` takes them."""
    return [getattr(values, key) for key in _CELLS + _BIASES]


def fill_coefficients(values: Fields, numbers: list[float]) -> None:
    """Set the cells and biases of a dictionary."""
    for key, number in zip(_CELLS + _BIASES, numbers, strict=True):
        setattr(values, key, number)
