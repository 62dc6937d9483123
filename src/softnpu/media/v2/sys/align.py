"""`sys_get_image_align_info`: strides that all listed engines take, so that one buffer can travel between them."""

from __future__ import annotations

from softnpu import constants
from softnpu.base.units import align_up
from softnpu.media import rules
from softnpu.media.pixels.formats import pixel_format
from softnpu.media.pixels.picture import MAX_SIDE
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import IMAGE_ALIGN

_ENGINES = {
    constants.HI_MODULE_TYPE_VPC: "vpc",
    constants.HI_MODULE_TYPE_VENC: "venc",
    constants.HI_MODULE_TYPE_VDEC: "vdec",
    constants.HI_MODULE_TYPE_JPEGE: "jpege",
    constants.HI_MODULE_TYPE_JPEGD: "jpegd",
    constants.HI_MODULE_TYPE_PNGD: "pngd",
}


def align_info(modules: list[int], base: Fields) -> Fields:
    """The smallest strides, and the bytes of a picture with them."""
    engines = _engines(modules)
    if not (0 < base.width <= MAX_SIDE and 0 < base.height <= MAX_SIDE):
        raise himpi_error(
            "sys", "ILLEGAL_PARAM", f"the picture is {base.width}x{base.height}", f"use sides from 1 to {MAX_SIDE}"
        )
    form = pixel_format(base.pixel_format)
    limits = [rules.row(engine) for engine in engines]
    columns = max(row.get("width_align", 1) for row in limits)
    rows = max([2 if form.chroma[1] > 1 else 1, *(row.get("height_align", 1) for row in limits)])
    least = max(row.get("stride", (0, 0))[0] for row in limits)
    values = IMAGE_ALIGN.blank()
    values.width_stride = form.row_bytes(align_up(max(base.width, least), columns))
    values.height_stride = align_up(base.height, rows)
    values.img_buf_size = form.size(values.width_stride, values.height_stride)
    return values


def _engines(modules: list[int]) -> list[str]:
    if constants.HI_MODULE_TYPE_ALL in modules:
        return list(_ENGINES.values())
    unknown = [number for number in modules if number not in _ENGINES]
    if unknown or not modules:
        raise himpi_error(
            "sys", "ILLEGAL_PARAM", f"the modules are {modules}", f"list some of {list(_ENGINES)}, or 100 for all"
        )
    return [_ENGINES[number] for number in modules]
