"""LeakyRelu: x where positive, negative_slope·x where not."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("LeakyRelu", attrs={"negative_slope": 0.0})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("LeakyRelu", n.input(0), alpha=float(n.attr("negative_slope", 0.0))))
