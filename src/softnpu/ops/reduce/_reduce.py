"""Reductions with their axes as an input or as an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.formats import axes_of
from softnpu.ops.common.inputs import int64, ints, known, shape_of
from softnpu.ops.common.numbers import BOOL, INT32, INT64, SHORTS, SMALL, UINT32
from softnpu.ops.common.schema import REQUIRED, Lower, Schema

_VIA: dict[str, Mapping[int, int]] = {
    "Sum": SMALL,
    "Mean": SMALL,
    "Prod": SMALL,
    "Max": {**SHORTS, UINT32: INT64},
    "Min": {**SHORTS, UINT32: INT64},
}
_LOGIC = {"All": "Min", "Any": "Max"}


def schema(kind: str) -> Schema:
    """The schema of a reduction by an input."""
    return Schema(f"Reduce{kind}", ("x", "axes"), attrs={"keep_dims": False, "noop_with_empty_axes": True})


def schema_d(kind: str) -> Schema:
    """The schema of a reduction by an attribute."""
    return Schema(f"Reduce{kind}D", attrs={"axes": REQUIRED, "keep_dims": False, "noop_with_empty_axes": True})


def by_input(kind: str) -> Lower:
    """A reduction whose second input has the axes."""

    def lower(b: Builder, n: Site) -> str:
        if known(n, 1) is None:
            return _computed(b, n, kind)
        return _known(b, n, kind, ints(n, 1))

    return lower


def by_attribute(kind: str) -> Lower:
    """A reduction whose attribute has the axes."""

    def lower(b: Builder, n: Site) -> str:
        axes = n.need("axes")
        return _known(b, n, kind, [axes] if isinstance(axes, int) else list(axes))

    return lower


def _known(b: Builder, n: Site, kind: str, listed: list[int]) -> str:
    keep = bool(n.attr("keep_dims", False))
    axes: list[int] | None = listed
    if n.input_shapes[0] is not None:
        axes = axes_of(n, listed, n.rank(0))
    if not axes:
        if n.attr("noop_with_empty_axes", True):
            return str(b.op("Identity", n.input(0)))
        axes = None
    if kind in _LOGIC:
        return b.cast(b.reduce(_LOGIC[kind], b.cast(n.input(0), INT32), axes, keep), BOOL)
    return through(b, n, 1, _VIA[kind], lambda x: b.reduce(kind, x, axes, keep))


def _computed(b: Builder, n: Site, kind: str) -> str:
    """Axes that are known at run time only."""
    attrs: dict[str, Any] = {
        "keepdims": int(bool(n.attr("keep_dims", False))),
        "noop_with_empty_axes": int(bool(n.attr("noop_with_empty_axes", True))),
    }
    axes = int64(b, n, 1)
    if shape_of(n, 1) == ():
        axes = b.unsqueeze(axes, [0])
    if kind in _LOGIC:
        return b.cast(str(b.op(f"Reduce{_LOGIC[kind]}", b.cast(n.input(0), INT32), axes, **attrs)), BOOL)
    return through(b, n, 1, _VIA[kind], lambda x: str(b.op(f"Reduce{kind}", x, axes, **attrs)))
