"""SoftmaxCrossEntropyLoss: the loss of scores against labels, and the log probabilities."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "SoftmaxCrossEntropyLoss",
    ("scores", "labels", "weights?"),
    ("loss", "log_prop"),
    {"ignore_index": None, "reduction": "mean"},
)


def lower(b: Builder, n: Site) -> tuple[str, str]:
    ignored = n.attr("ignore_index")
    weights = n.inputs[2] if len(n.inputs) > 2 else None
    loss, log = b.op(
        "SoftmaxCrossEntropyLoss", n.input(0), n.input(1), weights, outputs=2,
        ignore_index=None if ignored is None else int(ignored), reduction=str(n.attr("reduction", "mean")),
    )  # fmt: skip
    return loss, log
