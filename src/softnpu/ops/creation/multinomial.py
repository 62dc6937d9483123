"""Multinomial: random classes, by unnormalised log probabilities."""

from softnpu.base.dtypes import to_onnx
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import FLOAT, INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Multinomial", ("logits", "num_samples"), attrs={"dtype": 9, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    count, seed = int(n.constant(1).reshape(-1)[0]), int(n.attr("seed", 0)) or int(n.attr("seed2", 0))
    drawn = b.op(
        "Multinomial",
        b.cast(n.input(0), FLOAT),
        sample_size=count,
        dtype=to_onnx(INT64),
        seed=float(seed) if seed else None,
    )
    dtype = int(n.attr("dtype", INT64))
    return str(drawn) if dtype == INT64 else b.cast(str(drawn), dtype)
