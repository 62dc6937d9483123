"""TransData: the same tensor in another storage layout."""

from typing import Any

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.ops.common.builder import Array, Builder, OpError, Shape, Site
from softnpu.ops.common.private_formats import PLAIN, cube_width, pack, private, stored_shape, unpack
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.common.traced import Traced

SCHEMA = Schema("TransData", ("src",), ("dst",), {"src_format": REQUIRED, "dst_format": REQUIRED, "groups": 1})


def _words(n: Site) -> tuple[str, str, int]:
    return str(n.need("src_format")), str(n.need("dst_format")), int(n.attr("groups", 1))


def infer(n: Site) -> list[tuple[int, Shape | None]]:
    source, target, groups = _words(n)
    shape = n.shape(0)
    if private(source):
        return [(n.dtype(0), _wanted(n))]
    if private(target):
        return [(n.dtype(0), stored_shape(shape, source, target, cube_width(numpy_name(n.dtype(0))), groups))]
    return [(n.dtype(0), tuple(shape[axis] for axis in _plain(shape, source, target)))]


def lower(b: Builder, n: Site) -> str:
    if int(n.attr("groups", 1)) != 1:
        raise OpError(f"TransData {n.name!r} with groups cannot be part of a model; use it as a single operator")
    if any(dim < 0 for dim in n.shape(0)):
        raise OpError(
            f"TransData {n.name!r} needs fixed dims, not {list(n.shape(0))}; give the model fixed input shapes"
        )
    converted = _convert(n, Traced(b, n.input(0), n.shape(0), n.dtype(0)))
    return str(converted.name)


def compute(n: Site, x: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(_convert(n, x)),)


def _convert(n: Site, x: Any) -> Any:
    source, target, groups = _words(n)
    c0 = cube_width(numpy_name(n.dtype(0)))
    if private(source) and private(target):
        raise OpError(f"TransData {n.name!r} goes from {source} to {target}; go through a plain format")
    if private(source):
        return unpack(x, source, target, _wanted(n), c0, groups)
    if private(target):
        return pack(x, source, target, c0, groups)
    return x.transpose(_plain(x.shape, source, target))


def _wanted(n: Site) -> Shape:
    """The shape of the result cannot be told from a padded one; the graph must say it."""
    shape = n.output_shapes[0] if n.output_shapes else None
    if shape is None or any(dim < 0 for dim in shape):
        raise OpError(
            f"TransData {n.name!r} from {n.attr('src_format')} needs the shape of its output; give it in the output description"
        )
    return shape


def _plain(shape: Shape, source: str, target: str) -> tuple[int, ...]:
    if source == target or "ND" in (source, target):
        return tuple(range(len(shape)))
    if source not in PLAIN or target not in PLAIN or sorted(source) != sorted(target):
        raise OpError(f"TransData knows no way from {source} to {target}; correct src_format and dst_format")
    return tuple(source.index(letter) for letter in target)
