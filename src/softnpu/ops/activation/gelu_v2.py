"""GeluV2: x · Φ(x), exact or in the tanh approximation."""

from softnpu.ops.activation._activations import gelu_exact, gelu_tanh
from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GeluV2", attrs={"approximate": "none"})


def lower(b: Builder, n: Site) -> str:
    mode = n.attr("approximate", "none")
    if mode not in ("none", "tanh"):
        raise OpError(f"GeluV2 {n.name!r} has approximate {mode!r}; use 'none' or 'tanh'")
    return gelu_exact(b, n, n.input(0)) if mode == "none" else gelu_tanh(b, n, n.input(0))
