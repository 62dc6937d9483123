"""TileD: x repeated so often per dim, as an attribute."""

import numpy as np

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("TileD", attrs={"multiples": REQUIRED})


def lower(b: Builder, n: Site) -> str:
    return str(b.op("Tile", n.input(0), b.const(np.array(n.need("multiples"), np.int64))))
