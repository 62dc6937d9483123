"""Calls of picture processing that cut, scale, paste, frame and convert."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softnpu.media import rules
from softnpu.media.pixels import convert
from softnpu.media.pixels.formats import NV12, NV21
from softnpu.media.pixels.picture import MAX_SIDE, Pixels, Region
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.structs import picture
from softnpu.media.v2.vpc import limits
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.media.v2.vpc.pictures import (
    check_border,
    cut,
    illegal,
    in_turn,
    interpolation,
    like_source,
    pixels,
    source,
    start,
    target,
)
from softnpu.media.v2.vpc.structs import MOST_REGIONS
from softnpu.media.vpc import checks, compose, histogram, pyramid
from softnpu.runtime.process import process

Work = Callable[[], object]
_MIDDLE_SIDE = 16384


def resize(channel: VpcChannel, src: Fields, dst: Fields, fx: float, fy: float, way: int, ms: int) -> int:
    """`vpc_resize`: to the destination's size, or by fx and fy when that is 0."""
    inside, how = source(src, "vpc_resize"), interpolation(way)
    described = picture(dst)
    if described.width == 0 and described.height == 0:
        width, height = _scaled(inside.width, fx, "fx"), _scaled(inside.height, fy, "fy")
        described = replace(described, width=width, height=height).with_strides()
    out, csc = pixels(described, "out", "vpc_resize"), channel.csc
    if inside.width > rules.WIDE or out.width > rules.WIDE:
        rules.check_wide_resize((inside.width, inside.height), (out.width, out.height))
    return start(channel, ms, lambda: compose.transfer(inside, out, how, csc), inside, out)


def _scaled(side: int, factor: float, name: str) -> int:
    if not math.isfinite(factor) or not 1 <= round(side * factor) <= MAX_SIDE:
        raise illegal(
            f"the destination has no size and {name} is {factor}",
            "give the destination picture a width and a height, or fx and fy more than 0",
        )
    return round(side * factor)


def _check_count(regions: Sequence[Any]) -> None:
    if not 1 <= len(regions) <= MOST_REGIONS:
        raise illegal(f"the call has {len(regions)} regions", f"pass 1 to {MOST_REGIONS}")


Step = Callable[[VpcChannel, Pixels, Fields], tuple[Work, Pixels]]


def regions(channel: VpcChannel, src: Fields, items: list[Fields], step: Step, ms: int) -> int:
    """A call that does the same with each region of a picture."""
    return batch(channel, [src], items, [len(items)], step, ms)


def batch(
    channel: VpcChannel, sources: list[Fields], items: list[Fields], counts: list[int], step: Step, ms: int
) -> int:
    """The same over several pictures; `counts` tells how many regions belong to each."""
    _check_count(items)
    if len(counts) != len(sources) or sum(counts) != len(items) or not sources:
        raise illegal(
            f"{len(sources)} pictures, counts {counts} and {len(items)} regions do not fit together",
            "give a count for each picture; together they are the number of regions",
        )
    works: list[Work] = []
    touched: list[Pixels] = []
    rest = iter(items)
    for info, count in zip(sources, counts, strict=True):
        inside = source(info, step.__name__)
        for _ in range(count):
            work, out = step(channel, inside, next(rest))
            works.append(work)
            touched.append(out)
        touched.append(inside)
    return start(channel, ms, in_turn(works), *touched)


def vpc_crop(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """A region into a picture of its own; scaled when the sizes differ."""
    out, csc = target(item.dest_pic_info, "vpc_crop"), channel.csc
    part = cut(src, item.crop_region, out.width, out.height)
    return lambda: compose.transfer(part, out, "bilinear", csc), out


def vpc_crop_resize(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """A region scaled to the size of its destination."""
    wanted = item.resize_info
    part, how, csc = _cut(src, item, wanted), interpolation(wanted.interpolation), channel.csc
    out = target(item.dest_pic_info, "vpc_crop_resize")
    if (wanted.resize_width, wanted.resize_height) != (item.dest_pic_info.picture_width, item.dest_pic_info.picture_height):  # fmt: skip
        raise illegal(
            f"resize_info says {wanted.resize_width}x{wanted.resize_height}, the destination is {out.width}x{out.height}",
            "both must be the same; vpc_crop_resize_paste writes a part of a larger picture",
        )
    return lambda: compose.transfer(part, out, how, csc), out


def _cut(src: Pixels, item: Fields, size: Fields) -> Pixels:
    return cut(src, item.crop_region, size.resize_width, size.resize_height)


def _place(out: Pixels, item: Fields, size: Fields) -> Region:
    where = Region(item.dest_left_offset, item.dest_top_offset, size.resize_width, size.resize_height)
    where.check_inside(out.width, out.height, "pasted area")
    rules.check("vpc", "out", None, paste=where, version=2)
    return where


def _part(out: Pixels, where: Region) -> Pixels:
    return out.crop(where.left, where.top, where.width, where.height)


def vpc_crop_resize_paste(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """A scaled region pasted into a destination; nothing else of that is written."""
    size = item.resize_info
    part, how, csc = _cut(src, item, size), interpolation(size.interpolation), channel.csc
    whole = target(item.dest_pic_info, "vpc_crop_resize_paste")
    where = _place(whole, item, size)
    out = _part(whole, where)
    return lambda: compose.transfer(part, out, how, csc), out


def vpc_crop_resize_resize_paste(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """A region scaled twice, then pasted."""
    first, second = item.resize_info1, item.resize_info2
    part, csc = _cut(src, item, first), channel.csc
    how = interpolation(first.interpolation), interpolation(second.interpolation)
    whole = target(item.dest_pic_info, "vpc_crop_resize_resize_paste")
    where = _place(whole, item, second)
    if not (0 < first.resize_width <= _MIDDLE_SIDE and 0 < first.resize_height <= _MIDDLE_SIDE):
        raise illegal(f"resize_info1 says {first.resize_width}x{first.resize_height}", "give the first size")
    out = _part(whole, where)

    def work() -> None:
        middle = Pixels.empty(out.format, first.resize_width, first.resize_height)
        compose.transfer(part, middle, how[0], csc)
        compose.transfer(middle, out, how[1], csc)

    return work, out


def vpc_crop_resize_make_border(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """A scaled region pasted, and the rest of the destination filled from the border."""
    check_border(item.border_type)
    limits.check_kind(item.border_type, "vpc_crop_resize_make_border")
    size = item.resize_info
    part, how, csc = _cut(src, item, size), interpolation(size.interpolation), channel.csc
    whole = target(item.dest_pic_info, "vpc_crop_resize_make_border")
    where = _place(whole, item, size)
    out, value = _part(whole, where), item.scalar_value.val

    def work() -> None:
        compose.transfer(part, out, how, csc)
        _frame(src, whole, where, item.border_type, value, csc)

    return work, whole


def vpc_batch_crop_resize_make_border(channel: VpcChannel, src: Pixels, item: Fields) -> tuple[Work, Pixels]:
    """The same for several pictures, which the chip does with a constant border only."""
    check_border(item.border_type)
    limits.check_kind(item.border_type, "vpc_batch_crop_resize_make_border", (checks.CONSTANT,))
    return vpc_crop_resize_make_border(channel, src, item)


def _frame(src: Pixels, whole: Pixels, where: Region, kind: int, value: list[float], csc: Any) -> None:
    """Fill around what was written. The colour is R, G, B if either picture is RGB, else Y, U, V."""
    compose.make_border(whole, where, kind, value, csc if src.format.space == "rgb" else None)


def convert_color(channel: VpcChannel, src: Fields, dst: Fields, ms: int, function: str, alpha: int = 255) -> int:
    """`vpc_convert_color` and its variants: another format, the same size."""
    inside = source(src, function)
    out = like_source(dst, inside, function)
    if function == "vpc_convert_color_to_yuv420" and out.format.value not in (NV12, NV21):
        raise illegal(f"the destination is {out.format.name}", "this call writes YUV 4:2:0 semi-planar: format 1 or 2")
    if alpha > 255:
        raise illegal(f"alpha is {alpha}", "use 0 to 255")
    csc = channel.csc
    return start(channel, ms, lambda: convert.convert(inside, out.format, csc, out, alpha), inside, out)


def copy_make_border(channel: VpcChannel, src: Fields, dst: Fields, border: Fields, ms: int) -> int:
    """`vpc_copy_make_border`: the picture with a frame around it."""
    check_border(border.border_type)
    rules.check_border(border.border_type, border.top, border.bottom, border.left, border.right)
    inside, whole = source(src, "vpc_copy_make_border"), target(dst, "vpc_copy_make_border")
    wanted = inside.width + border.left + border.right, inside.height + border.top + border.bottom
    if wanted != (whole.width, whole.height):
        raise illegal(
            f"{inside.width}x{inside.height} with its borders is {wanted[0]}x{wanted[1]}, the destination {whole.width}x{whole.height}",
            "the destination is as wide as left + source + right, and as high as top + source + bottom",
        )
    where = Region(border.left, border.top, inside.width, inside.height)
    out, csc = _part(whole, where), channel.csc
    value = border.scalar_value.val

    def work() -> None:
        compose.transfer(inside, out, "bilinear", csc)
        _frame(inside, whole, where, border.border_type, value, csc)

    return start(channel, ms, work, inside, whole)


def pyrdown(
    channel: VpcChannel, src: Fields, dst: list[Fields], levels: int, kernel: list[list[int]] | None, divisor: int, border: Fields, ms: int
) -> int:  # fmt: skip
    """`vpc_pyrdown`: each level half as large as the one before. With the usual kernel a divisor of 0 stands for its sum, 256."""
    if len(dst) != levels:
        raise illegal(f"{levels} levels are asked for and {len(dst)} destinations given", "give one for each level")
    inside = source(src, "vpc_pyrdown")
    limits.check_pyramid(border, divisor)
    divisor = divisor or (pyramid.BINOMIAL_DIVISOR if kernel is None else 0)
    pyramid.limits(inside.width, inside.height, levels, divisor)
    checks.border_code(border.border_type, checks.REFLECT)
    outs = [target(level, "vpc_pyrdown") for level in dst]
    weights, value = None if kernel is None else np.array(kernel), border.scalar_value.val
    run = lambda: pyramid.pyrdown(inside, outs, weights, divisor, border.border_type, value)  # noqa: E731
    return start(channel, ms, run, inside, *outs)


def calc_hist(channel: VpcChannel, src: Fields, address: int, ms: int) -> int:
    """`vpc_calc_hist_v2`: how often each value occurs, three rows of 256 uint32."""
    inside, memory = source(src, "vpc_calc_hist_v2"), process().memory
    if address == 0:
        raise himpi_error("vpc", "NULL_PTR", "the histogram has no memory (0)", "allocate 3072 bytes for it")
    memory.reach(address, 3072, True)
    rules.check_memory("vpc", "out", address, 2)

    def work() -> None:
        memory.view(address, (3, 256), np.dtype(np.uint32))[:] = histogram.histogram(inside)

    return start(channel, ms, work, inside)


def equalize_hist(channel: VpcChannel, src: Fields, dst: Fields, lut: Fields, ms: int) -> int:
    """`vpc_equalize_hist`: each value replaced by that of a table."""
    inside = source(src, "vpc_equalize_hist")
    out = like_source(dst, inside, "vpc_equalize_hist")
    limits.check_pictures("vpc_equalize_hist", inside, out)
    rows = np.array([lut.map_value_y_or_r, lut.map_value_u_or_g, lut.map_value_v_or_b], np.uint8)
    return start(channel, ms, lambda: histogram.equalize(inside, out, rows), inside, out)
