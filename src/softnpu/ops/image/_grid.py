"""The body of the grid samplers."""

from softnpu.ops.common.builder import Builder, OpError, Site

_ONNX_MODES = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}


def lower_grid(b: Builder, n: Site) -> str:
    """x read at the places that grid names."""
    mode = str(n.attr("interpolation_mode", "bilinear"))
    if mode not in _ONNX_MODES or b.opset < 16:
        raise OpError(
            f"{n.type} {n.name!r} has interpolation_mode {mode!r} at opset {b.opset}; use bilinear, nearest or bicubic and opset 16"
        )
    onnx_mode = _ONNX_MODES[mode] if b.opset >= 20 else mode
    padding, align = str(n.attr("padding_mode", "zeros")), int(bool(n.attr("align_corners", False)))
    return str(b.op("GridSample", n.input(0), n.input(1), mode=onnx_mode, padding_mode=padding, align_corners=align))
