"""Dictionaries of picture processing."""

from __future__ import annotations

from typing import Any

from softnpu.base.errors import Raise
from softnpu.media.v2.struct import Struct
from softnpu.media.v2.structs import PIC, POINT, RECT, SCALAR, SIZE

MOST_ITEMS = 100  # lines, covers, mosaics and overlays of a call
MOST_REGIONS = 256

CHANNEL = Struct("channel attributes", attr="i32", pic_width="u32", pic_height="u32")
CONVERT = Struct("convert parameters", alpha="u32", attr="u32[4]")
OPTION = Struct("option", attr_type="i32", len="u32", value="ptr")

CROP = Struct("crop region", top_offset="u32", left_offset="u32", crop_width="u32", crop_height="u32")
RESIZE = Struct("resize info", resize_width="u32", resize_height="u32", interpolation="u32")
_PASTE: dict[str, Any] = {"dest_top_offset": "u32", "dest_left_offset": "u32"}
CROP_ITEM = Struct("crop item", dest_pic_info=PIC, crop_region=CROP)
CROP_RESIZE_ITEM = Struct("crop-resize item", dest_pic_info=PIC, crop_region=CROP, resize_info=RESIZE)
PASTE_ITEM = Struct("paste item", dest_pic_info=PIC, crop_region=CROP, resize_info=RESIZE, **_PASTE)
TWICE_ITEM = Struct(
    "resize-resize-paste item",
    dest_pic_info=PIC,
    crop_region=CROP,
    resize_info1=RESIZE,
    resize_info2=RESIZE,
    **_PASTE,
    reserved="i32[2]",
)
BORDER_ITEM = Struct(
    "border item",
    dest_pic_info=PIC,
    crop_region=CROP,
    resize_info=RESIZE,
    **_PASTE,
    border_type="i32",
    scalar_value=SCALAR,
)
MAKE_BORDER = Struct(
    "make border", top="u32", bottom="u32", left="u32", right="u32", border_type="i32", scalar_value=SCALAR
)
LUT = Struct(
    "lookup table", map_value_y_or_r="u8[256]", map_value_u_or_g="u8[256]", map_value_v_or_b="u8[256]"
)  # fmt: skip

_BLUR = Struct(
    "blur config",
    kernel_size=SIZE,
    anchor=POINT,
    scalar_value=SCALAR,
    morph_shapes="i32",
    iterations="u32",
    border_type="i32",
)
_GAUSSIAN = Struct(
    "gaussian config",
    ("reserved",),
    kernel_size=SIZE,
    sigma_x="f64",
    sigma_y="f64",
    border_type="i32",
    scalar_value=SCALAR,
    reserved="i32[2]",
)
_MEDIAN = Struct("median config", kernel_size="u32")
_FILTER = Struct(
    "filter2d config",
    kernel_size=SIZE,
    anchor=POINT,
    delta="f64",
    border_type="i32",
    scalar_value=SCALAR,
    reserved="i32[2]",
)
BLUR = Struct("blur parameters", src=PIC, dst=PIC, blur_cfg=_BLUR)
GAUSSIAN = Struct("gaussian parameters", src=PIC, dst=PIC, gaussian_blur_cfg=_GAUSSIAN)
MEDIAN = Struct("median parameters", src=PIC, dst=PIC, median_blur_cfg=_MEDIAN)
FILTER = Struct("filter2d parameters", src=PIC, dst=PIC, filter_2d_cfg=_FILTER)
FLIP = Struct("flip parameters", src=PIC, dst=PIC, flip_mode="i32")
ROTATE = Struct("rotate parameters", src=PIC, dst=PIC, angle="i32")

_QUAD = Struct("quad", is_solid="u32", thick="u32", point=[POINT, 4])
_COVER = Struct("cover", type="i32", color="u32", rect=RECT, quad=_QUAD)
_LINE = Struct("line", start_point=POINT, end_point=POINT, thick="u32", color="u32")
_MOSAIC = Struct("mosaic", blk_size="i32", rect=RECT)
_OSD = Struct(
    "osd",
    rect=RECT,
    pixel_format="i32",
    picture_address="ptr",
    stride="u32",
    bg_alpha="u32",
    fg_alpha="u32",
    osd_inverted_color="i32",
)
COVERS = Struct("cover parameters", src=PIC, dst=PIC, count="u32", cover=[_COVER, MOST_ITEMS])
LINES = Struct("line parameters", src=PIC, dst=PIC, count="u32", line=[_LINE, MOST_ITEMS])
MOSAICS = Struct("mosaic parameters", src=PIC, dst=PIC, count="u32", mosaic=[_MOSAIC, MOST_ITEMS])
OSDS = Struct("osd parameters", ("clut",), src=PIC, dst=PIC, count="u32", osd=[_OSD, MOST_ITEMS], clut="u32[16]")

FLOAT_POINT = Struct("point", x="f64", y="f64")
_POINTS: list[Any] = [FLOAT_POINT, 4]
POINT_PAIRS = Struct(
    "point pairs", src_point_count="u32", dest_point_count="u32", src_point=_POINTS, dest_point=_POINTS
)  # fmt: skip
MATRIX = Struct("transform matrix", matrix_type="i32")
_TRANSFORM = Struct("transform config", interpolation="u32", border_type="i32", scalar_value=SCALAR)
TRANSFORM = Struct("transform parameters", src=PIC, dst=PIC, transform_config=_TRANSFORM)
_SIZES: dict[str, Any] = dict.fromkeys(
    ("src_pic_width", "src_pic_height", "dest_pic_width", "dest_pic_height"), "u32"
)  # fmt: skip
REMAP_LUT = Struct("remap table", **_SIZES, lut="ptr", lut_size="u32", reserved="u64")
REMAP_MAP = Struct("remap map", map1="ptr", map2="ptr", map_size="u32", **_SIZES, reserved="u64")
WORKSPACE = Struct(
    "workspace",
    func="i32",
    max_source_pic_width="u32",
    max_source_pic_height="u32",
    max_dest_pic_width="u32",
    max_dest_pic_height="u32",
    reserved="u64",
)


HISTOGRAM = Struct("histogram", histogram_y_or_r="u32[256]", histogram_u_or_g="u32[256]", histogram_v_or_b="u32[256]")


def float_rows(dictionary: Any, key: str, rows: int, columns: int) -> list[list[float]]:
    """A list of lists of floats of exactly this size, which the binding wants."""
    values = dictionary.get(key) if isinstance(dictionary, dict) else None
    if not isinstance(values, list) or not all(isinstance(row, list) for row in values):
        raise Raise(TypeError(f"{key} must be a list of lists of float"))
    if not all(isinstance(value, float) for row in values for value in row):
        raise Raise(TypeError(f"{key} must be a list of lists of float"))
    if len(values) != rows or any(len(row) != columns for row in values):
        raise Raise(TypeError(f"{key} must have {rows} rows of {columns} values"))
    return [list(row) for row in values]


def small_int_rows(kernel: Any) -> list[list[int]] | None:
    """The 5 x 5 filter of `vpc_pyrdown`, or None for the usual one."""
    if kernel is None:
        return None
    if not isinstance(kernel, list) or len(kernel) != 5 or not all(isinstance(row, list) for row in kernel):
        raise Raise(TypeError("the filter must be a list of 5 lists of 5 ints from -128 to 127"))
    values = [value for row in kernel for value in row]
    if any(len(row) != 5 for row in kernel) or not all(isinstance(v, int) and -128 <= v <= 127 for v in values):
        raise Raise(TypeError("the filter must be a list of 5 lists of 5 ints from -128 to 127"))
    return [list(row) for row in kernel]
