"""HardMax: 1 at the first maximum along an axis, 0 elsewhere."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("HardMax", attrs={"axis": -1})


def lower(b: Builder, n: Site) -> str:
    axis = int(n.attr("axis", -1))
    if b.opset < 13 and axis not in (-1, n.rank(0) - 1):
        raise OpError(
            f"HardMax {n.name!r} along axis {axis} needs ONNX opset 13 or newer; export the model with a newer opset"
        )
    return str(b.op("Hardmax", n.input(0), axis=axis))
