"""HardSigmoid: alpha · x + beta, limited to 0 … 1."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("HardSigmoid", ("input_x",), ("output_y",), {"alpha": 0.16666666, "beta": 0.5})


def lower(b: Builder, n: Site) -> str:
    return str(
        b.op("HardSigmoid", n.input(0), alpha=float(n.attr("alpha", 0.16666666)), beta=float(n.attr("beta", 0.5)))
    )
