"""PadV3: x with a border, of a constant or of its own content."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Schema

SCHEMA = Schema("PadV3", ("x", "paddings", "constant_values?"), attrs={"mode": "constant", "paddings_contiguous": True})
_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "circular": "wrap"}


def lower(b: Builder, n: Site) -> str:
    mode = str(n.attr("mode", "constant"))
    if mode not in _MODES:
        raise OpError(f"PadV3 {n.name!r} has mode {mode!r}; use one of {', '.join(_MODES)}")
    if b.opset < 11:
        raise OpError(f"PadV3 {n.name!r} needs ONNX opset 11 or newer; export the model with a newer opset")
    pads = n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64)
    if n.attr("paddings_contiguous", True):  # pairs (before, after) per dim; ONNX has all befores first
        pads = b.transpose(b.reshape(pads, [-1, 2]), [1, 0])
    fill = b.reshape(n.input(2), []) if n.has(2) and mode == "constant" else None
    return str(b.op("Pad", n.input(0), b.reshape(pads, [-1]), fill, mode=_MODES[mode]))
