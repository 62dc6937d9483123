"""The body of the random numbers: drawn by the engine, of a shape that is an input."""

from softnpu.base.dtypes import to_onnx
from softnpu.ops.common.builder import Builder, Site

_INT64, _FLOAT, _DOUBLE = 9, 0, 11


def draw(b: Builder, n: Site, word: str, dtype: int) -> str:
    """`word` is RandomNormalLike or RandomUniformLike; a seed of 0 means another draw in every session."""
    shape = n.input(0) if n.dtype(0) == _INT64 else b.cast(n.input(0), _INT64)
    base = b.op("ConstantOfShape", shape)
    seed = int(n.attr("seed", 0)) or int(n.attr("seed2", 0))
    drawn = dtype if dtype == _DOUBLE else _FLOAT  # engines draw in these two types
    made = b.op(word, base, dtype=to_onnx(drawn), seed=float(seed) if seed else None)
    return str(made) if drawn == dtype else b.cast(str(made), dtype)
