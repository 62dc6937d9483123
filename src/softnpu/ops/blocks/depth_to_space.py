"""DepthToSpace: channels become blocks of pixels."""

from softnpu.ops.blocks._blocks import depth
from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema

SCHEMA = Schema("DepthToSpace", attrs={"block_size": REQUIRED, "mode": "DCR", "data_format": "NHWC"})


def lower(b: Builder, n: Site) -> str:
    mode = n.attr("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise OpError(f"DepthToSpace {n.name!r} has the mode {mode!r}; use DCR or CRD")
    return depth(b, n, "DepthToSpace", mode=mode if mode != "DCR" else None)
