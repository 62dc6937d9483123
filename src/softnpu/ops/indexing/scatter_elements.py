"""ScatterElements: data with elements replaced (or added …) along an axis."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("ScatterElements", ("data", "indices", "updates"), attrs={"axis": 0, "reduction": "none"})


def lower(b: Builder, n: Site) -> str:
    kind = str(n.attr("reduction", "none"))
    if kind != "none" and b.opset < 16:
        raise OpError(
            f"ScatterElements {n.name!r} with reduction {kind!r} needs ONNX opset 16 or newer; export the model with a newer opset"
        )
    reduction = None if kind == "none" else kind
    return str(
        b.op("ScatterElements", n.input(0), n.input(1), n.input(2), axis=int(n.attr("axis", 0)), reduction=reduction)
    )
