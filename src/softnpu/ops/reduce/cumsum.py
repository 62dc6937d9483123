"""Cumsum: running sums along an axis."""

from typing import Any

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.inputs import shape_of
from softnpu.ops.common.numbers import SMALL
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Cumsum", ("x", "axis"), attrs={"exclusive": False, "reverse": False})


def lower(b: Builder, n: Site) -> str:
    attrs: dict[str, Any] = {attribute: int(bool(n.attr(attribute, False))) for attribute in ("exclusive", "reverse")}
    axis = n.input(1) if shape_of(n, 1) == () else b.reshape(n.input(1), [])
    return through(b, n, 1, SMALL, lambda x: str(b.op("CumSum", x, axis, **attrs)))
