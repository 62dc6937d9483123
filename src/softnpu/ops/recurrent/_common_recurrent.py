"""What the recurrent operators share: CANN's common forms, which are ONNX's."""

from typing import Any

from softnpu.ops.common.builder import Builder, Site

LISTS = ("activation_alpha", "activation_beta", "activations")


def lower_common(b: Builder, n: Site, onnx_type: str, outputs: int, **attrs: Any) -> tuple[str, ...]:
    """ONNX's LSTM or GRU; empty lists are left out."""
    options: dict[str, Any] = {key: list(n.attr(key)) for key in LISTS if n.attr(key)}
    if float(n.attr("clip", 0.0)) > 0:
        options["clip"] = float(n.attr("clip"))
    results = b.op(
        onnx_type,
        *n.inputs,
        outputs=outputs,
        direction=str(n.attr("direction", "forward")),
        hidden_size=int(n.need("hidden_size")),
        **options,
        **attrs,
    )
    return tuple(results)
