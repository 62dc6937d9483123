"""Calls of picture processing that move pixels: affine and perspective changes, and remapping by tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from softnpu.media.pixels.picture import MAX_SIDE, Pixels
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.vpc import limits
from softnpu.media.v2.vpc.channel import VpcChannel
from softnpu.media.v2.vpc.pictures import illegal, interpolation, source, start, target
from softnpu.media.vpc import checks, warp
from softnpu.runtime.process import process

Array = np.ndarray[Any, Any]
_SHAPES = {0: (2, 3), 1: (3, 3)}
_BYTE = np.dtype(np.uint8)
_SINGLE = np.dtype(np.float32)


def _points(points: list[Fields]) -> list[tuple[float, float]]:
    return [(point.x, point.y) for point in points]


def _written(matrix: Array) -> dict[str, Any]:
    """A 2x3 matrix in the 3x4 cells of the dictionary."""
    cells = np.zeros((3, 4))
    cells[:2, :3] = matrix
    return {"matrix_type": 0, "matrix": cells.tolist()}


def no_matrix() -> dict[str, Any]:
    """What a failed call hands out."""
    return _written(np.zeros((2, 3)))


def affine_transform(pairs: Fields) -> dict[str, Any]:
    """`vpc_get_affine_transform`: the matrix that moves three points to three others."""
    return _written(warp.affine_transform(_points(pairs.src_point), _points(pairs.dest_point)))


def rotation_matrix(center: Fields, angle: float, scale: float) -> dict[str, Any]:
    """`vpc_get_rotation_matrix`: turn against the clock about a point, and scale."""
    return _written(warp.rotation_matrix((center.x, center.y), angle, scale))


def _pictures(param: Fields, function: str) -> tuple[Pixels, Pixels, str]:
    """The pictures and the interpolation of a transform, checked."""
    config = param.transform_config
    src, out, how = source(param.src, function), target(param.dst, function), interpolation(config.interpolation)
    checks.check_formats(src, out, function)
    checks.check_type(src.format, function)
    limits.check_pictures(function, src, out)
    checks.border_code(config.border_type, checks.WRAP)
    checks.finite("border value", *config.scalar_value.val)
    if how not in ("bilinear", "nearest"):
        raise illegal(f"interpolation {config.interpolation} is not for warps", "0 is bilinear, 1 is nearest")
    return src, out, how


def warp_affine(channel: VpcChannel, kind: int, cells: list[list[float]], param: Fields, ms: int) -> int:
    """`vpc_warp_affine`."""
    if kind not in _SHAPES:
        raise illegal(f"matrix type {kind} is not for this call", "0 is a matrix of 2x3, 1 one of 3x3")
    rows, columns = _SHAPES[kind]
    matrix = np.array(cells)[:rows, :columns]
    if not np.isfinite(matrix).all() or math.isclose(np.linalg.det(matrix[:2, :2]), 0, abs_tol=1e-300):
        raise illegal(f"the matrix {matrix.tolist()} cannot be inverted", "use that of vpc_get_affine_transform")
    src, out, how = _pictures(param, "vpc_warp_affine")
    config = param.transform_config
    run = lambda: warp.warp_affine(src, out, matrix, how, config.border_type, config.scalar_value.val)  # noqa: E731
    return start(channel, ms, run, src, out)


def lut_size(width: int, height: int) -> int:
    """`vpc_get_lut_mem_size`."""
    size = warp.lut_size(width, height)
    limits.check_lut(width, height)
    return size


def _table_memory(lut: Fields) -> Array:
    """The memory of a table, checked for its size."""
    if lut.lut == 0:
        raise himpi_error("vpc", "NULL_PTR", "the table has no memory (lut 0)", "allocate it with dvpp_malloc")
    size = lut_size(lut.dest_pic_width, lut.dest_pic_height)
    if lut.lut_size < size:
        raise himpi_error(
            "vpc",
            "ILLEGAL_PARAM",
            f"lut_size is {lut.lut_size}, a table for {lut.dest_pic_width}x{lut.dest_pic_height} takes {size}",
            "ask vpc_get_lut_mem_size",
        )
    view: Array = process().memory.view(lut.lut, (size,), _BYTE)
    return view


def _fill(lut: Fields, make: Callable[[], Array]) -> None:
    memory = process().memory
    view = _table_memory(lut)
    memory.reach(lut.lut, view.size, True)
    warp.write_lut(view, make())


def affine_lut(pairs: Fields, way: int, lut: Fields) -> None:
    """`vpc_get_affine_lut`. The table holds positions: the interpolation only matters when it is used."""
    interpolation(way)
    ends = _points(pairs.src_point), _points(pairs.dest_point)
    _fill(lut, lambda: warp.affine_lut(*ends, lut.dest_pic_width, lut.dest_pic_height))


def perspective_lut(pairs: Fields, way: int, lut: Fields) -> None:
    """`vpc_get_perspective_lut`."""
    interpolation(way)
    ends = _points(pairs.src_point), _points(pairs.dest_point)
    _fill(lut, lambda: warp.perspective_lut(*ends, lut.dest_pic_width, lut.dest_pic_height))


def remap_lut(maps: Fields, lut: Fields) -> None:
    """`vpc_get_remap_lut`: a table from a program's own maps, float32 x and y of the source for each output pixel."""
    width, height = maps.dest_pic_width, maps.dest_pic_height
    if (width, height) != (lut.dest_pic_width, lut.dest_pic_height):
        raise illegal(f"the maps are for {width}x{height}, the table is for {lut.dest_pic_width}x{lut.dest_pic_height}")
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE) or maps.map_size < width * height * 4:
        raise illegal(
            f"the maps for {width}x{height} have {maps.map_size} bytes", "each has a float32 for each output pixel"
        )
    if 0 in (maps.map1, maps.map2):
        raise himpi_error("vpc", "NULL_PTR", "a map has no memory (0)", "pass the addresses of map1 and map2")
    x, y = (process().memory.view(address, (height, width), _SINGLE) for address in (maps.map1, maps.map2))
    _fill(lut, lambda: warp.remap_lut(x, y))


def lut_remap(channel: VpcChannel, param: Fields, lut: Fields, ms: int) -> int:
    """`vpc_lut_remap`."""
    src, out, how = _pictures(param, "vpc_lut_remap")
    for side, picture in (("src", src), ("dest", out)):
        size = getattr(lut, f"{side}_pic_width"), getattr(lut, f"{side}_pic_height")
        if size != (picture.width, picture.height):
            raise illegal(
                f"the table is for a {side} picture of {size[0]}x{size[1]}, this one is {picture.width}x{picture.height}",
                "make a table for these sizes",
            )
    table = warp.read_lut(_table_memory(lut), out.width, out.height)
    config = param.transform_config
    run = lambda: warp.lut_remap(src, out, table, how, config.border_type, config.scalar_value.val)  # noqa: E731
    return start(channel, ms, run, src, out)
