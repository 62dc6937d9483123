"""What the quantising operators share."""

import numpy as np

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT, INT8, INT64, UINT8, UINT64

_LIMITS: dict[int, tuple[int, int]] = {INT8: (-128, 127), UINT8: (0, 255)}
_ROUND = {"round": "Round", "floor": "Floor", "ceil": "Ceil", "ceiling": "Ceil"}


def as_float(b: Builder, n: Site, index: int) -> str:
    """An input in float32."""
    return n.input(index) if n.dtype(index) == FLOAT else b.cast(n.input(index), FLOAT)


def rounded(b: Builder, n: Site, x: str, mode: str, dtype: int) -> str:
    """x rounded, limited and cast to an 8-bit type."""
    if dtype not in _LIMITS:
        raise OpError(f"{n.type} {n.name!r} has dst_type {dtype}; 2 (int8) and 4 (uint8) are supported")
    onnx_type = _ROUND.get(mode.lower())
    if onnx_type is None and mode.lower() != "trunc":
        raise OpError(f"{n.type} {n.name!r} has round_mode {mode!r}; use Round, Floor, Ceil or Trunc")
    whole = b.op(onnx_type, x) if onnx_type else b.op("Mul", b.op("Sign", x), b.op("Floor", b.op("Abs", x)))
    low, high = _LIMITS[dtype]
    return b.cast(b.clip(str(whole), low, high), dtype)


def scale_of(b: Builder, n: Site, index: int) -> str:
    """A scale in float32. In uint64 and int64 the low 32 bits are those of a float32; that needs a constant."""
    if n.dtype(index) not in (UINT64, INT64):
        return as_float(b, n, index)
    if n.constants[index] is None:
        raise OpError(
            f"{n.type} {n.name!r} takes a scale of 64-bit words as a constant only; give it as Const or as float32"
        )
    words = np.ascontiguousarray(n.constant(index)).astype(np.uint64)
    bits = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return b.const(bits.view(np.float32))


def flip_last(b: Builder, x: str, rank: int) -> str:
    """The last two dims exchanged."""
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2])
