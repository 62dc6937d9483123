"""Calls of picture processing that filter, turn and draw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softnpu import constants
from softnpu.media.pixels.picture import MAX_SIDE, Pixels, Region
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.vpc import limits
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.media.v2.vpc.pictures import illegal, same_format, same_size, source, start, target
from softnpu.media.vpc import checks, compose, draw, filters, osd
from softnpu.runtime.process import process

_ANCHORS = ((-1, -1), (0, 0))  # the centre; 0, 0 is what a program leaves that does not set it
_BLOCKS = {constants.HI_BLK_SIZE_8: 8, constants.HI_BLK_SIZE_16: 16, constants.HI_BLK_SIZE_32: 32}
_BYTE = np.dtype(np.uint8)


def _pair(param: Fields, function: str) -> tuple[Pixels, Pixels]:
    src, out = source(param.src, function), target(param.dst, function)
    checks.check_same(src, out, function)
    checks.check_type(src.format, function)
    return src, out


def _check_config(config: Fields, iterations: int = 1, most: int = 1) -> tuple[int, int]:
    """The kernel's size, after the checks of what the filters have in common."""
    size = config.kernel_size.width, config.kernel_size.height
    filters.limits(size, iterations, most)
    checks.border_code(config.border_type)
    limits.check_kind(config.border_type, "a filter")
    checks.finite("border value", *config.scalar_value.val)
    anchor = getattr(config, "anchor", None)
    if anchor is not None and (anchor.x, anchor.y) not in _ANCHORS:
        raise illegal(f"the anchor is ({anchor.x}, {anchor.y})", "use (-1, -1), the centre")
    if anchor is not None:
        limits.check_anchor(anchor)
    return size


def blur(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_blur`: the mean. It runs once, so iterations left at 0 are 1."""
    config = param.blur_cfg
    src, out = _pair(param, "vpc_blur")
    size = _check_config(config, config.iterations or 1)
    run = lambda: filters.blur(src, out, size, config.border_type, config.scalar_value.val)  # noqa: E731
    return start(channel, ms, run, src, out)


def morph(channel: VpcChannel, param: Fields, ms: int, name: str) -> int:
    """`vpc_erode` and `vpc_dilate`."""
    config = param.blur_cfg
    src, out = _pair(param, f"vpc_{name}")
    size = _check_config(config, config.iterations, 100)
    if config.morph_shapes != 0:
        raise illegal(f"the shape of the kernel is {config.morph_shapes}", "use 0, a rectangle")
    function: Callable[..., None] = getattr(filters, name)
    run = lambda: function(src, out, size, config.iterations, config.border_type, config.scalar_value.val)  # noqa: E731
    return start(channel, ms, run, src, out)


def gaussian_blur(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_gaussian_blur`."""
    config = param.gaussian_blur_cfg
    src, out = _pair(param, "vpc_gaussian_blur")
    size = _check_config(config)
    sigmas, value = (config.sigma_x, config.sigma_y), config.scalar_value.val
    checks.finite("sigma", *sigmas)
    run = lambda: filters.gaussian(src, out, size, *sigmas, config.border_type, value)  # noqa: E731
    return start(channel, ms, run, src, out)


def median_blur(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_median_blur`."""
    side = param.median_blur_cfg.kernel_size
    src, out = _pair(param, "vpc_median_blur")
    filters.limits((side, side))
    return start(channel, ms, lambda: filters.median(src, out, side), src, out)


def filter2d(channel: VpcChannel, param: Fields, kernel: list[list[float]], ms: int) -> int:
    """`vpc_filter2d`: a kernel of the program."""
    config = param.filter_2d_cfg
    src, out = _pair(param, "vpc_filter2d")
    _check_config(config)
    checks.finite("delta", config.delta)
    weights, value = np.array(kernel), config.scalar_value.val
    checks.finite("kernel", *weights.ravel().tolist())
    run = lambda: filters.filter2d(src, out, weights, config.delta, config.border_type, value)  # noqa: E731
    return start(channel, ms, run, src, out)


def flip(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_flip`."""
    src, out = source(param.src, "vpc_flip"), target(param.dst, "vpc_flip")
    checks.check_same(src, out, "vpc_flip")
    if not 0 <= param.flip_mode <= 2:
        raise illegal(f"flip mode {param.flip_mode} is not known", "use 0 (horizontal), 1 (vertical) or 2 (both)")
    return start(channel, ms, lambda: filters.flip(src, out, param.flip_mode), src, out)


def rotate(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_rotate`."""
    src, out = source(param.src, "vpc_rotate"), target(param.dst, "vpc_rotate")
    same_format(src, out)
    if not 0 <= param.angle <= 2:
        raise illegal(f"rotation {param.angle} is not known", "use 0 (90 degrees), 1 (180) or 2 (270)")
    turned = (src.width, src.height) if param.angle == 1 else (src.height, src.width)
    if turned != (out.width, out.height):
        raise illegal(
            f"{src.width}x{src.height} turned is {turned[0]}x{turned[1]}, the destination is {out.width}x{out.height}",
            "swap width and height of the destination for 90 and 270 degrees",
        )
    return start(channel, ms, lambda: filters.rotate(src, out, param.angle), src, out)


# ---- drawing ---------------------------------------------------------------------------------------------------------


def _draw(channel: VpcChannel, param: Fields, ms: int, function: str, draw_on: Callable[[Pixels], None]) -> int:
    """Copy the source unless it is drawn on itself, then draw."""
    src, out = source(param.src, function), target(param.dst, function)
    same_format(src, out)
    same_size(src, out)
    checks.check_type(src.format, function, frozenset({"uint8"}))
    is_same = param.src.picture_address == param.dst.picture_address

    def work() -> None:
        if not is_same:
            compose.transfer(src, out)
        draw_on(out)

    return start(channel, ms, work, src, out)


def _region(rect: Fields) -> Region:
    return Region(rect.x, rect.y, rect.width, rect.height)


def _point(point: Fields) -> tuple[int, int]:
    return point.x, point.y


def draw_mosaic(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_draw_mosaic`."""
    for item in param.mosaic:
        if item.blk_size not in _BLOCKS:
            raise illegal(f"block size {item.blk_size} is not for a mosaic", f"use {list(_BLOCKS)}: 8, 16 or 32 pixels")
    items = [draw.Mosaic(_region(item.rect), _BLOCKS[item.blk_size]) for item in param.mosaic]
    return _draw(channel, param, ms, "vpc_draw_mosaic", lambda out: draw.mosaic(out, items))


def draw_cover(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_draw_cover`."""
    items = [_cover(item) for item in param.cover]
    return _draw(channel, param, ms, "vpc_draw_cover", lambda out: draw.cover(out, items))


def _cover(item: Fields) -> draw.RectCover | draw.QuadCover:
    if item.type == constants.HI_COVER_RECT:
        return draw.RectCover(_region(item.rect), item.color)
    if item.type != constants.HI_COVER_QUAD:
        raise illegal(f"cover type {item.type} is not known", "use 0 (rectangle) or 1 (quadrilateral)")
    limits.check_cover(item.quad.is_solid)
    points = [_point(point) for point in item.quad.point]
    return draw.QuadCover(points, item.color, bool(item.quad.is_solid), item.quad.thick)


def draw_line(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_draw_line`."""
    items = [draw.Line(_point(item.start_point), _point(item.end_point), item.thick, item.color) for item in param.line]
    limits.check_points(param.dst.picture_format, [point for item in items for point in (item.start, item.end)])
    return _draw(channel, param, ms, "vpc_draw_line", lambda out: draw.line(out, items))


def draw_osd(channel: VpcChannel, param: Fields, ms: int) -> int:
    """`vpc_draw_osd`."""
    items = [_osd(item) for item in param.osd]
    return _draw(channel, param, ms, "vpc_draw_osd", lambda out: osd.osd(out, items, param.clut))


def _osd(item: Fields) -> osd.Osd:
    if item.picture_address == 0:
        raise himpi_error("vpc", "NULL_PTR", "an overlay has no memory (picture_address 0)", "use dvpp_malloc")
    if not (0 < item.rect.height <= MAX_SIDE and item.stride):
        raise illegal(f"an overlay has {item.rect.height} rows with the stride {item.stride}", "give both")
    data = process().memory.view(item.picture_address, (item.rect.height, item.stride), _BYTE)
    return osd.Osd(
        _region(item.rect), item.pixel_format, data, item.bg_alpha, item.fg_alpha, item.osd_inverted_color
    )  # fmt: skip
