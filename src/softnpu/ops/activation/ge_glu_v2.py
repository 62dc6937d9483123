"""GeGluV2: gelu of one half of a dim, times the other half; the second output is the gelu."""

from softnpu.ops.activation._activations import gelu_exact, gelu_tanh, halves
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("GeGluV2", outputs=("y", "gelu"), attrs={"dim": -1, "approximate": 1, "activate_left": False})


def lower(b: Builder, n: Site) -> tuple[str, str]:
    left, right = halves(b, n, int(n.attr("dim", -1)))
    active, other = (left, right) if n.attr("activate_left", False) else (right, left)
    gelu = gelu_tanh(b, n, active) if int(n.attr("approximate", 1)) == 1 else gelu_exact(b, n, active)
    return str(b.op("Mul", other, gelu)), gelu
