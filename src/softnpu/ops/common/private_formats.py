"""Storage layouts: how a tensor in a private format lies in memory, in NumPy.

Every layout is described against a canonical one (NCHW, NCDHW or a matrix): its shape, the way there and the way back.
What does not fill a block is zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from softnpu.ops.common.builder import Array, OpError, Shape
from softnpu.ops.common.traced import Traced

PLAIN = ("NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "DHWNC")
_N0 = 16


@dataclass(frozen=True)
class Layout:
    """A private layout; `canonical` is the order of letters it is described against, "" for matrices."""

    canonical: str
    shape: Callable[[Shape, int, int], Shape]  # logical shape, C0, groups
    pack: Callable[[Array, int, int], Array]
    unpack: Callable[[Array, Shape, int, int], Array]


def cube_width(dtype: str) -> int:
    """C0: how many elements of a NumPy type stand in a block's row."""
    return 32 if dtype in ("int8", "uint8") else 16


def _up(number: int, block: int) -> int:
    return -(-number // block)


def _pad(x: Any, sizes: dict[int, int]) -> Any:
    widths = [(0, sizes.get(axis, dim) - dim) for axis, dim in enumerate(x.shape)]
    if not any(after for _, after in widths):
        return x
    return x.pad(widths) if isinstance(x, Traced) else np.pad(x, widths)


def _five(x: Array, c0: int, _groups: int) -> Array:
    c1 = _up(x.shape[1], c0)
    x = _pad(x, {1: c1 * c0})
    return x.reshape(x.shape[0], c1, c0, *x.shape[2:]).transpose(0, 1, 3, 4, 2)


def _from_five(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    n, c1, h, w, c0 = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, : shape[1]]


def _six(x: Array, c0: int, _groups: int) -> Array:
    c1 = _up(x.shape[1], c0)
    x = _pad(x, {1: c1 * c0})
    return x.reshape(x.shape[0], c1, c0, *x.shape[2:]).transpose(0, 3, 1, 4, 5, 2)


def _from_six(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    n, d, c1, h, w, c0 = x.shape
    return x.transpose(0, 2, 5, 1, 3, 4).reshape(n, c1 * c0, d, h, w)[:, : shape[1]]


def _last(x: Array, c0: int, _groups: int) -> Array:
    c1 = _up(x.shape[1], c0)
    x = _pad(x, {1: c1 * c0}).transpose(0, 2, 3, 1)
    return x.reshape(*x.shape[:3], c1, c0)


def _from_last(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    return x.reshape(*x.shape[:3], -1).transpose(0, 3, 1, 2)[:, : shape[1]]


def _blocks(shape: Shape, c0: int, groups: int) -> tuple[int, int, int, int, int, int]:
    """Of a filter with groups: outputs and inputs per group, groups per block, blocks, C1 and N1 of a block."""
    outs, ins = shape[0] // groups, shape[1]
    per = min(math.lcm(math.lcm(ins, c0) // ins, math.lcm(outs, _N0) // outs), groups) if groups > 1 else 1
    return outs, ins, per, _up(groups, per), _up(per * ins, c0), _up(per * outs, _N0)


def _filter_shape(shape: Shape, c0: int, groups: int) -> Shape:
    _, _, _, count, c1, n1 = _blocks(shape, c0, groups)
    return (count * c1 * math.prod(shape[2:]), n1, _N0, c0)


def _filter(x: Array, c0: int, groups: int) -> Any:
    outs, ins, per, count, c1, n1 = _blocks(x.shape, c0, groups)
    space = x.shape[2:]
    if groups == 1:
        full = _pad(x, {0: n1 * _N0, 1: c1 * c0})
    else:
        full = np.zeros((count, n1 * _N0, c1 * c0, *space), x.dtype)
        for k in range(groups):
            row, column = (k % per) * outs, (k % per) * ins
            full[k // per, row : row + outs, column : column + ins] = x[k * outs : (k + 1) * outs]
    cut = full.reshape(count, n1, _N0, c1, c0, *space)
    order = (0, 3, 5, 6, 1, 2, 4) if len(space) == 2 else (0, 5, 3, 6, 7, 1, 2, 4)
    return cut.transpose(order).reshape(-1, n1, _N0, c0)


def _from_filter(x: Array, shape: Shape, c0: int, groups: int) -> Array:
    outs, ins, per, count, c1, n1 = _blocks(shape, c0, groups)
    space = shape[2:]
    if len(space) == 2:
        cut = x.reshape(count, c1, *space, n1, _N0, c0).transpose(0, 4, 5, 1, 6, 2, 3)
    else:
        cut = x.reshape(count, space[0], c1, *space[1:], n1, _N0, c0).transpose(0, 5, 6, 2, 7, 1, 3, 4)
    full = cut.reshape(count, n1 * _N0, c1 * c0, *space)
    if groups == 1:
        return full.reshape(n1 * _N0, c1 * c0, *space)[:outs, :ins]
    filters = np.empty(shape, x.dtype)
    for k in range(groups):
        row, column = (k % per) * outs, (k % per) * ins
        filters[k * outs : (k + 1) * outs] = full[k // per, row : row + outs, column : column + ins]
    return filters


def _small_filter_shape(shape: Shape, _c0: int, _groups: int) -> Shape:
    return (_up(4 * shape[2] * shape[3], 16), _up(shape[0], _N0), _N0, 16)


def _small_filter(x: Array, _c0: int, _groups: int) -> Any:
    flat = _pad(x, {1: 4}).transpose(0, 2, 3, 1).reshape(x.shape[0], -1)
    flat = _pad(flat, {0: _up(flat.shape[0], _N0) * _N0, 1: _up(flat.shape[1], 16) * 16})
    return flat.reshape(flat.shape[0] // _N0, _N0, -1, 16).transpose(2, 0, 1, 3)


def _from_small_filter(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    flat = x.transpose(1, 2, 0, 3).reshape(x.shape[1] * _N0, -1)[: shape[0], : 4 * shape[2] * shape[3]]
    return flat.reshape(shape[0], shape[2], shape[3], 4).transpose(0, 3, 1, 2)[:, : shape[1]]


def _matrix(shape: Shape) -> Shape:
    return shape if len(shape) > 1 else (1, *(shape or (1,)))


def _matrix_blocks(x: Array, columns: int) -> Array:
    x = x.reshape(_matrix(x.shape))
    rank = x.ndim
    h1, w1 = _up(x.shape[-2], _N0), _up(x.shape[-1], columns)
    x = _pad(x, {rank - 2: h1 * _N0, rank - 1: w1 * columns})
    return x.reshape(*x.shape[:-2], h1, _N0, w1, columns)


def _nz_shape(shape: Shape, c0: int, _groups: int) -> Shape:
    shape = _matrix(shape)
    return (*shape[:-2], _up(shape[-1], c0), _up(shape[-2], _N0), _N0, c0)


def _nz(x: Array, c0: int, _groups: int) -> Array:
    cut = _matrix_blocks(x, c0)
    lead = cut.ndim - 4
    return cut.transpose(*range(lead), lead + 2, lead, lead + 1, lead + 3)


def _from_nz(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    lead = x.ndim - 4
    wide = x.transpose(*range(lead), lead + 1, lead + 2, lead, lead + 3)
    rows, columns = _matrix(shape)[-2:]
    wide = wide.reshape(*x.shape[:lead], wide.shape[lead] * wide.shape[lead + 1], -1)
    return wide[..., :rows, :columns].reshape(shape)


def _zz_shape(shape: Shape, _c0: int, _groups: int) -> Shape:
    shape = _matrix(shape)
    return (*shape[:-2], _up(shape[-2], _N0), _up(shape[-1], 16), _N0, 16)


def _zz(x: Array, _c0: int, _groups: int) -> Array:
    cut = _matrix_blocks(x, 16)
    lead = cut.ndim - 4
    return cut.transpose(*range(lead), lead, lead + 2, lead + 1, lead + 3)


def _from_zz(x: Array, shape: Shape, _c0: int, _groups: int) -> Array:
    lead = x.ndim - 4
    wide = x.transpose(*range(lead), lead, lead + 2, lead + 1, lead + 3)
    rows, columns = _matrix(shape)[-2:]
    wide = wide.reshape(*x.shape[:lead], wide.shape[lead] * wide.shape[lead + 1], -1)
    return wide[..., :rows, :columns].reshape(shape)


def _small(pack: Callable[[Array, int, int], Array]) -> Callable[[Array, int, int], Array]:
    return lambda x, _c0, groups: pack(x, 4, groups)


_LAYOUTS = {
    "NC1HWC0": Layout("NCHW", lambda s, c0, _: (s[0], _up(s[1], c0), s[2], s[3], c0), _five, _from_five),
    "NC1HWC0_C04": Layout("NCHW", lambda s, _c0, _: (s[0], _up(s[1], 4), s[2], s[3], 4), _small(_five), _from_five),
    "NHWC1C0": Layout("NCHW", lambda s, c0, _: (s[0], s[2], s[3], _up(s[1], c0), c0), _last, _from_last),
    "FRACTAL_Z": Layout("NCHW", _filter_shape, _filter, _from_filter),
    "FRACTAL_Z_G": Layout("NCHW", _filter_shape, _filter, _from_filter),
    "FRACTAL_Z_C04": Layout("NCHW", _small_filter_shape, _small_filter, _from_small_filter),
    "NDC1HWC0": Layout("NCDHW", lambda s, c0, _: (s[0], s[2], _up(s[1], c0), s[3], s[4], c0), _six, _from_six),
    "FRACTAL_Z_3D": Layout("NCDHW", _filter_shape, _filter, _from_filter),
    "FRACTAL_NZ": Layout("", _nz_shape, _nz, _from_nz),
    "FRACTAL_ZZ": Layout("", _zz_shape, _zz, _from_zz),
}


def private(name: str) -> bool:
    """Whether a format is one of the layouts here."""
    return name in _LAYOUTS


def _permute(shape: Shape, source: str, target: str) -> tuple[int, ...]:
    if len(shape) != len(source) or sorted(source) != sorted(target):
        raise OpError(f"a tensor of shape {list(shape)} in {source} cannot become {target}; correct the formats")
    return tuple(source.index(letter) for letter in target)


def _order(source: str, canonical: str, rank: int) -> str:
    """The letters of a plain format; ND stands for the canonical order. Four dims in a layout of five have depth 1."""
    if source in PLAIN and canonical:
        return source
    if source == "ND" or not canonical:
        return canonical
    raise OpError(f"there is no way from {source} with {rank} dims to {canonical or 'a matrix'}; correct the formats")


def stored_shape(shape: Shape, source: str, target: str, c0: int, groups: int = 1) -> Shape:
    """The shape in memory of a logical shape in the format `source`."""
    layout = _layout(target)
    if layout.canonical:
        order = _order(source, layout.canonical, len(shape))
        shape = tuple(shape[axis] for axis in _permute(shape, order, layout.canonical))
    return layout.shape(shape, c0, groups)


def pack(x: Any, source: str, target: str, c0: int, groups: int = 1) -> Any:
    """A tensor in a plain format (an array, or one that is traced), laid out in a private one."""
    layout = _layout(target)
    if layout.canonical:
        x = x.transpose(_permute(x.shape, _order(source, layout.canonical, x.ndim), layout.canonical))
    return layout.pack(x, c0, groups).reshape(layout.shape(x.shape, c0, groups))


def unpack(x: Any, source: str, target: str, shape: Shape, c0: int, groups: int = 1) -> Any:
    """A tensor in a private format, brought to a plain one with a given shape."""
    layout = _layout(source)
    if not layout.canonical:
        return layout.unpack(x, shape, c0, groups)
    order = _order(target, layout.canonical, len(shape))
    logical = tuple(shape[axis] for axis in _permute(shape, order, layout.canonical))
    return layout.unpack(x, logical, c0, groups).transpose(_permute(logical, layout.canonical, order))


def _layout(name: str) -> Layout:
    layout = _LAYOUTS.get(name)
    if layout is None:
        raise OpError(f"the layout {name!r} is not supported; use one of {', '.join(_LAYOUTS)}")
    return layout
