"""Bodies of `acl.himpi`: picture processing."""

from __future__ import annotations

import warnings
from typing import Any

from acl._bodies._common import on_failure, refuses
from softnpu.base.errors import Raise
from softnpu.media import rules
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import read_all, same_count
from softnpu.media.v2.structs import PIC
from softnpu.media.v2.sys.system import need_system
from softnpu.media.v2.vpc import calls, effects, structs, warp
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.runtime.process import process

Dict = dict[str, Any]


def _channel(number: int, function: str) -> VpcChannel:
    channel = need_system("vpc").vpc.get(number)
    rules.supports_function(function)
    return channel


# ---- channels --------------------------------------------------------------------------------------------------------


def vpc_create_chn(chn: int, attr: Dict) -> None:
    structs.CHANNEL.read(attr)
    system = need_system("vpc")
    rules.supports("vpc", 2)
    device = process().current().device
    system.vpc.open(chn, lambda: VpcChannel(chn, device))


def vpc_sys_create_chn(attr: Dict) -> int:
    structs.CHANNEL.read(attr)
    system = need_system("vpc")
    rules.supports("vpc", 2)
    device = process().current().device
    return system.vpc.open_free(lambda number: VpcChannel(number, device)).number


def vpc_destroy_chn(chn: int) -> None:
    need_system("vpc").vpc.take(chn).close()


def vpc_get_process_result(chn: int, task_id: int, ms: int) -> None:
    _channel(chn, "vpc_get_process_result").result(task_id, ms)


def vpc_set_chn_workspace(chn: int, cfg: list[Dict], n: int) -> None:
    same_count(n, cfg, "workspaces")
    _channel(chn, "vpc_set_chn_workspace").set_workspace(read_all(structs.WORKSPACE, cfg))


@refuses
def vpc_set_chn_opt_attr(chn: int, attr: Dict) -> None:
    structs.OPTION.read(attr)
    _channel(chn, "vpc_set_chn_opt_attr")
    raise himpi_error("vpc", "NOT_SUPPORT", "no chip has extra attributes of VPC channels", "leave the call out")


# ---- cut, scale, paste, convert --------------------------------------------------------------------------------------


def vpc_resize(chn: int, src: Dict, dst: Dict, fx: float, fy: float, interpolation: int, ms: int) -> int:
    source, target = PIC.read(src), PIC.read(dst)
    return calls.resize(_channel(chn, "vpc_resize"), source, target, fx, fy, interpolation, ms)


def vpc_crop(chn: int, src: Dict, regions: list[Dict], count: int, ms: int) -> int:
    same_count(count, regions, "regions")
    source, items = PIC.read(src), read_all(structs.CROP_ITEM, regions)
    return calls.regions(_channel(chn, "vpc_crop"), source, items, calls.vpc_crop, ms)


def vpc_crop_resize(chn: int, src: Dict, regions: list[Dict], count: int, ms: int) -> int:
    same_count(count, regions, "regions")
    source, items = PIC.read(src), read_all(structs.CROP_RESIZE_ITEM, regions)
    return calls.regions(_channel(chn, "vpc_crop_resize"), source, items, calls.vpc_crop_resize, ms)


def vpc_crop_resize_paste(chn: int, src: Dict, regions: list[Dict], count: int, ms: int) -> int:
    same_count(count, regions, "regions")
    source, items = PIC.read(src), read_all(structs.PASTE_ITEM, regions)
    return calls.regions(_channel(chn, "vpc_crop_resize_paste"), source, items, calls.vpc_crop_resize_paste, ms)


def vpc_crop_resize_resize_paste(chn: int, src: Dict, regions: list[Dict], count: int, ms: int) -> int:
    same_count(count, regions, "regions")
    source, items = PIC.read(src), read_all(structs.TWICE_ITEM, regions)
    channel = _channel(chn, "vpc_crop_resize_resize_paste")
    return calls.regions(channel, source, items, calls.vpc_crop_resize_resize_paste, ms)


def vpc_crop_resize_make_border(chn: int, src: Dict, regions: list[Dict], count: int, ms: int) -> int:
    same_count(count, regions, "regions")
    source, items = PIC.read(src), read_all(structs.BORDER_ITEM, regions)
    channel = _channel(chn, "vpc_crop_resize_make_border")
    return calls.regions(channel, source, items, calls.vpc_crop_resize_make_border, ms)


def vpc_batch_crop_resize_paste(
    chn: int, src: list[Dict], pic_num: int, regions: list[Dict], counts: list[int], ms: int
) -> int:
    same_count(pic_num, src, "pictures")
    sources, items = read_all(PIC, src), read_all(structs.PASTE_ITEM, regions)
    channel = _channel(chn, "vpc_batch_crop_resize_paste")
    return calls.batch(channel, sources, items, counts, calls.vpc_crop_resize_paste, ms)


def vpc_batch_crop_resize_make_border(
    chn: int, src: list[Dict], pic_num: int, regions: list[Dict], counts: list[int], ms: int
) -> int:
    same_count(pic_num, src, "pictures")
    sources, items = read_all(PIC, src), read_all(structs.BORDER_ITEM, regions)
    channel = _channel(chn, "vpc_batch_crop_resize_make_border")
    return calls.batch(channel, sources, items, counts, calls.vpc_batch_crop_resize_make_border, ms)


def _convert(function: str, chn: int, src: Dict, dst: Dict, ms: int, alpha: int = 255) -> int:
    source, target = PIC.read(src), PIC.read(dst)
    return calls.convert_color(_channel(chn, function), source, target, ms, function, alpha)


def vpc_convert_color(chn: int, src: Dict, dst: Dict, ms: int) -> int:
    return _convert("vpc_convert_color", chn, src, dst, ms)


def vpc_convert_color_v2(chn: int, src: Dict, dst: Dict, param: Dict, ms: int) -> int:
    return _convert("vpc_convert_color_v2", chn, src, dst, ms, structs.CONVERT.read(param).alpha)


def vpc_convert_color_to_yuv420(chn: int, src: Dict, dst: Dict, ms: int) -> int:
    return _convert("vpc_convert_color_to_yuv420", chn, src, dst, ms)


def vpc_copy_make_border(chn: int, src: Dict, dst: Dict, border: Dict, ms: int) -> int:
    source, target, frame = PIC.read(src), PIC.read(dst), structs.MAKE_BORDER.read(border)
    return calls.copy_make_border(_channel(chn, "vpc_copy_make_border"), source, target, frame, ms)


def vpc_pyrdown(
    chn: int, src: Dict, dst: list[Dict], level: int, filter: object, divisor: int, border: Dict, ms: int
) -> int:
    source, levels, frame = PIC.read(src), read_all(PIC, dst), structs.MAKE_BORDER.read(border)
    kernel = structs.small_int_rows(filter)
    return calls.pyrdown(_channel(chn, "vpc_pyrdown"), source, levels, level, kernel, divisor, frame, ms)


def vpc_calc_hist(chn: int, src: Dict, ms: int) -> tuple[Dict, int]:
    try:
        warnings.warn("acl.himpi.vpc_calc_hist does nothing; use vpc_calc_hist_v2", Warning, stacklevel=3)
    except Warning as error:  # the program turns warnings into exceptions
        raise Raise(error) from None
    PIC.read(src)
    return structs.HISTOGRAM.zeros(), 0


def vpc_calc_hist_v2(chn: int, src: Dict, ms: int, hist_ptr: int) -> int:
    source = PIC.read(src)
    return calls.calc_hist(_channel(chn, "vpc_calc_hist_v2"), source, hist_ptr, ms)


def vpc_equalize_hist(chn: int, src: Dict, dst: Dict, lut: Dict, ms: int) -> int:
    source, target, table = PIC.read(src), PIC.read(dst), structs.LUT.read(lut)
    return calls.equalize_hist(_channel(chn, "vpc_equalize_hist"), source, target, table, ms)


# ---- filters, turns --------------------------------------------------------------------------------------------------


def vpc_dilate(chn: int, param: Dict, ms: int) -> int:
    values = structs.BLUR.read(param)
    return effects.morph(_channel(chn, "vpc_dilate"), values, ms, "dilate")


def vpc_erode(chn: int, param: Dict, ms: int) -> int:
    values = structs.BLUR.read(param)
    return effects.morph(_channel(chn, "vpc_erode"), values, ms, "erode")


def vpc_blur(chn: int, param: Dict, ms: int) -> int:
    values = structs.BLUR.read(param)
    return effects.blur(_channel(chn, "vpc_blur"), values, ms)


def vpc_gaussian_blur(chn: int, param: Dict, ms: int) -> int:
    values = structs.GAUSSIAN.read(param)
    return effects.gaussian_blur(_channel(chn, "vpc_gaussian_blur"), values, ms)


def vpc_median_blur(chn: int, param: Dict, ms: int) -> int:
    values = structs.MEDIAN.read(param)
    return effects.median_blur(_channel(chn, "vpc_median_blur"), values, ms)


def vpc_filter2d(chn: int, param: Dict, ms: int) -> int:
    values = structs.FILTER.read(param)
    size = values.filter_2d_cfg.kernel_size
    kernel = structs.float_rows(param.get("filter_2d_cfg"), "filter", size.height, size.width)
    return effects.filter2d(_channel(chn, "vpc_filter2d"), values, kernel, ms)


def vpc_flip(chn: int, param: Dict, ms: int) -> int:
    values = structs.FLIP.read(param)
    return effects.flip(_channel(chn, "vpc_flip"), values, ms)


def vpc_rotate(chn: int, param: Dict, ms: int) -> int:
    values = structs.ROTATE.read(param)
    return effects.rotate(_channel(chn, "vpc_rotate"), values, ms)


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _check_items(count: int, items: list[Any], plural: str) -> None:
    if not 1 <= count <= structs.MOST_ITEMS:
        raise Raise(TypeError(f"count is {count}, it must be 1 to {structs.MOST_ITEMS}"))
    same_count(count, items, plural)


def vpc_draw_cover(chn: int, param: Dict, ms: int) -> int:
    values = structs.COVERS.read(param)
    _check_items(values.count, values.cover, "covers")
    return effects.draw_cover(_channel(chn, "vpc_draw_cover"), values, ms)


def vpc_draw_line(chn: int, param: Dict, ms: int) -> int:
    values = structs.LINES.read(param)
    _check_items(values.count, values.line, "lines")
    return effects.draw_line(_channel(chn, "vpc_draw_line"), values, ms)


def vpc_draw_mosaic(chn: int, param: Dict, ms: int) -> int:
    values = structs.MOSAICS.read(param)
    _check_items(values.count, values.mosaic, "mosaics")
    return effects.draw_mosaic(_channel(chn, "vpc_draw_mosaic"), values, ms)


def vpc_draw_osd(chn: int, param: Dict, ms: int) -> int:
    values = structs.OSDS.read(param)
    _check_items(values.count, values.osd, "overlays")
    return effects.draw_osd(_channel(chn, "vpc_draw_osd"), values, ms)


# ---- warps -----------------------------------------------------------------------------------------------------------


def _pairs(points: Dict) -> Any:
    pairs = structs.POINT_PAIRS.read(points)
    same_count(pairs.src_point_count, pairs.src_point, "source points")
    same_count(pairs.dest_point_count, pairs.dest_point, "destination points")
    return pairs


def vpc_get_affine_transform(points: Dict) -> Dict:
    pairs = _pairs(points)
    rules.supports_function("vpc_get_affine_transform")
    with on_failure(lambda: (warp.no_matrix(),)):
        return warp.affine_transform(pairs)


def vpc_get_rotation_matrix(center: Dict, angle: float, scale: float) -> Dict:
    point = structs.FLOAT_POINT.read(center)
    rules.supports_function("vpc_get_rotation_matrix")
    with on_failure(lambda: (warp.no_matrix(),)):
        return warp.rotation_matrix(point, angle, scale)


def vpc_warp_affine(chn: int, matrix: Dict, param: Dict, ms: int) -> int:
    kind, cells = structs.MATRIX.read(matrix).matrix_type, structs.float_rows(matrix, "matrix", 3, 4)
    values = structs.TRANSFORM.read(param)
    return warp.warp_affine(_channel(chn, "vpc_warp_affine"), kind, cells, values, ms)


def vpc_get_lut_mem_size(width: int, height: int) -> int:
    rules.supports_function("vpc_get_lut_mem_size")
    return warp.lut_size(width, height)


def vpc_get_affine_lut(points: Dict, interpolation: int, lut: Dict) -> Dict:
    pairs, table = _pairs(points), structs.REMAP_LUT.read(lut)
    return _table("vpc_get_affine_lut", table, lambda: warp.affine_lut(pairs, interpolation, table))


def vpc_get_perspective_lut(points: Dict, interpolation: int, lut: Dict) -> Dict:
    pairs, table = _pairs(points), structs.REMAP_LUT.read(lut)
    return _table("vpc_get_perspective_lut", table, lambda: warp.perspective_lut(pairs, interpolation, table))


def vpc_get_remap_lut(map: Dict, interpolation: Any, lut: Dict | None) -> Dict:
    """The last argument is the table; the interpolation that some pages put before it has no effect on positions."""
    maps, table = structs.REMAP_MAP.read(map), structs.REMAP_LUT.read(interpolation if lut is None else lut)
    return _table("vpc_get_remap_lut", table, lambda: warp.remap_lut(maps, table))


def _table(function: str, table: Any, fill: Any) -> Dict:
    """A table dictionary comes back as it was given, filled or not: its memory is the program's."""
    with on_failure(lambda: (structs.REMAP_LUT.write(table),)):
        rules.supports_function(function)
        fill()
    return structs.REMAP_LUT.write(table)


def vpc_lut_remap(chn: int, param: Dict, lut: Dict, ms: int) -> int:
    values, table = structs.TRANSFORM.read(param), structs.REMAP_LUT.read(lut)
    return warp.lut_remap(_channel(chn, "vpc_lut_remap"), values, table, ms)
