"""The body of the random numbers: drawn by the engine, of a shape that is an input."""

from softnpu.base.dtypes import to_onnx
from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import DOUBLE, FLOAT, INT64


def draw(b: Builder, n: Site, onnx_type: str, dtype: int) -> str:
    """`onnx_type` is RandomNormalLike or RandomUniformLike; a seed of 0 means another draw in every session."""
    shape = n.input(0) if n.dtype(0) == INT64 else b.cast(n.input(0), INT64)
    base = b.op("ConstantOfShape", shape)
    seed = int(n.attr("seed", 0)) or int(n.attr("seed2", 0))
    drawn = dtype if dtype == DOUBLE else FLOAT  # engines draw in these two types
    drawn_values = b.op(onnx_type, base, dtype=to_onnx(drawn), seed=float(seed) if seed else None)
    return str(drawn_values) if drawn == dtype else b.cast(str(drawn_values), dtype)
