"""Trilu: the upper or lower triangle of matrices, 0 elsewhere."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Trilu", ("x", "k?"), attrs={"upper": 1})


def lower(b: Builder, n: Site) -> str:
    if b.opset < 14:
        raise OpError(f"Trilu {n.name!r} needs ONNX opset 14 or newer; export the model with a newer opset")
    k = None
    if n.has(1):
        k = b.reshape(n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64), [])
    return str(b.op("Trilu", n.input(0), k, upper=int(n.attr("upper", 1))))
