"""CommonLSTM: a long short-term memory in ONNX's form."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.recurrent._common_recurrent import lower_common

SCHEMA = Schema(
    "CommonLSTM", ("x", "w", "r", "b?", "sequence_lens?", "initial_h?", "initial_c?", "p?"), ("y", "y_h", "y_c"),
    {"activation_alpha": (), "activation_beta": (), "activations": (), "clip": 0.0, "direction": "forward", "hidden_size": REQUIRED, "input_forget": 0},
)  # fmt: skip


def lower(b: Builder, n: Site) -> tuple[str, ...]:
    return lower_common(b, n, "LSTM", 3, input_forget=int(n.attr("input_forget", 0)))
