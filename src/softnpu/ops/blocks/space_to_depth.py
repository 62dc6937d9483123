"""SpaceToDepth: blocks of pixels become channels."""

from softnpu.ops.blocks._blocks import depth
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("SpaceToDepth", attrs={"block_size": REQUIRED, "data_format": "NHWC"})


def lower(b: Builder, n: Site) -> str:
    return depth(b, n, "SpaceToDepth")
