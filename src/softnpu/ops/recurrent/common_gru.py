"""CommonGRU: a gated recurrent unit in ONNX's form."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.recurrent._common_recurrent import lower_common

SCHEMA = Schema(
    "CommonGRU", ("x", "w", "r", "b?", "sequence_lens?", "initial_h?"), ("y", "y_h"),
    {"activation_alpha": (), "activation_beta": (), "activations": (), "clip": 0.0, "direction": "forward", "hidden_size": REQUIRED, "linear_before_reset": 0},
)  # fmt: skip


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    return lower_common(b, n, "GRU", 2, linear_before_reset=int(n.attr("linear_before_reset", 0)))
