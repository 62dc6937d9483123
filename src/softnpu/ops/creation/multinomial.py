"""Multinomial: random classes, by unnormalised log probabilities."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("Multinomial", ("logits", "num_samples"), attrs={"dtype": 9, "seed": 0, "seed2": 0})


def lower(b: Builder, n: Site) -> str:
    count, seed = int(n.constant(1).reshape(-1)[0]), int(n.attr("seed", 0)) or int(n.attr("seed2", 0))
    drawn = b.op("Multinomial", b.cast(n.input(0), 0), sample_size=count, dtype=7, seed=float(seed) if seed else None)
    dtype = int(n.attr("dtype", 9))
    return str(drawn) if dtype == 9 else b.cast(str(drawn), dtype)
