"""Reductions whose axes are an input."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import INT64
from softnpu.ops.common.schema import Lower


def reduce_by_input(kind: str) -> Lower:
    """ONNX's Reduce<kind> over the axes of input 1, with the attribute `keep_dims`."""

    def lower(b: Builder, n: Site) -> str:
        keep = bool(n.attr("keep_dims", False))
        if b.opset >= 18 and n.constants[1] is None:
            axes_input = n.input(1) if n.dtype(1) == INT64 else b.cast(n.input(1), INT64)
            return str(b.op(f"Reduce{kind}", n.input(0), b.reshape(axes_input, [-1]), keepdims=int(keep)))
        axes = [int(axis) for axis in n.constant(1).reshape(-1)]
        return b.reduce(kind, n.input(0), axes or None, keep)

    return lower
