"""AscendQuant: round(x · scale + offset) in 8 bits; sqrt_mode applies the scale twice."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOAT
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.quantisation._quant import as_float, rounded

SCHEMA = Schema(
    "AscendQuant",
    attrs={"scale": REQUIRED, "offset": REQUIRED, "sqrt_mode": False, "round_mode": "Round", "dst_type": 2},
)


def lower(b: Builder, n: Site) -> str:
    scale = float(n.need("scale"))
    factor = scale * scale if n.attr("sqrt_mode", False) else scale
    moved = b.op(
        "Add", b.op("Mul", as_float(b, n, 0), b.scalar(factor, FLOAT)), b.scalar(float(n.need("offset")), FLOAT)
    )
    return rounded(b, n, str(moved), str(n.attr("round_mode", "Round")), int(n.attr("dst_type", 2)))
