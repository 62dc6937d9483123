"""Resize: x at another size, by scales or by sizes."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema(
    "Resize",
    ("x", "roi?", "scales?", "sizes?"),
    attrs={
        "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75, "exclude_outside": 0,
        "extrapolation_value": 0.0, "mode": "nearest", "nearest_mode": "round_prefer_floor",
    },
)  # fmt: skip


def lower(b: Builder, n: Site) -> str:
    if b.opset < 11:
        raise OpError(f"Resize {n.name!r} needs ONNX opset 11 or newer; export the model with a newer opset")
    sizes = None
    if n.has(3):
        sizes = n.input(3) if n.dtype(3) == INT64 else b.cast(n.input(3), INT64)
    elif not n.has(2):
        raise OpError(f"Resize {n.name!r} has neither scales nor sizes; give it one of them")
    attrs = {key: n.attr(key, default) for key, default in SCHEMA.attrs.items()}
    attrs["cubic_coeff_a"] = float(attrs["cubic_coeff_a"])
    attrs["extrapolation_value"] = float(attrs["extrapolation_value"])
    scales = n.inputs[2] if sizes is None else None
    return str(b.op("Resize", n.input(0), n.inputs[1] if len(n.inputs) > 1 else None, scales, sizes, **attrs))
