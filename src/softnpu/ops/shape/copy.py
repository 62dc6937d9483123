"""Copy: the same tensor several times (Caffe's Split)."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("Copy", outputs=("y*",), attrs={"N": REQUIRED})


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    return tuple(str(b.op("Identity", n.input(0))) for _ in range(n.outputs))
