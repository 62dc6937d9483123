"""UniqueWithCountsAndSorting: the distinct elements in order, the place of each element among them, how often each occurs."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "UniqueWithCountsAndSorting",
    ("x",),
    ("y", "idx", "count"),
    {"return_inverse": False, "return_counts": False, "sorted": True},
)


def lower(b: Builder, n: Site) -> tuple[str, str, str]:
    flat = b.reshape(n.input(0), [-1])
    y, _, inverse, count = b.op("Unique", flat, outputs=4, sorted=int(bool(n.attr("sorted", True))))
    return y, str(b.op("Reshape", inverse, b.op("Shape", n.input(0)))), count
