"""L2Normalize: x divided by its L2 norm over some axes, which counts as at least eps."""

from softnpu.ops._layout import axes_of
from softnpu.ops._lower import Builder, Site
from softnpu.ops._schema import Schema

SCHEMA = Schema("L2Normalize", attrs={"axis": [1], "eps": 1e-4})


def lower(b: Builder, n: Site) -> str:
    given = n.attr("axis", [1])
    axes = axes_of(n, [given] if isinstance(given, int) else given, n.rank())
    norm = b.reduce("L2", n.input(0), axes)
    return str(b.op("Div", n.input(0), b.op("Max", norm, b.scalar(float(n.attr("eps", 1e-4)), max(n.dtype(), 0)))))
