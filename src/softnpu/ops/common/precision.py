"""Sums in float32 where the input is narrower, and the way back."""

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.numbers import BFLOAT16, FLOAT, HALF

_NARROW = (HALF, BFLOAT16)  # sums over many elements need more bits


def wide(b: Builder, n: Site, index: int = 0) -> str:
    """An input in float32 where it is narrower."""
    return b.cast(n.input(index), FLOAT) if n.dtype(index) in _NARROW else n.input(index)


def working(n: Site) -> int:
    """The type in which the sums of input 0 are made."""
    return FLOAT if n.dtype(0) in _NARROW or n.dtype(0) < 0 else n.dtype(0)


def narrow(b: Builder, n: Site, x: str) -> str:
    """A result in the type of input 0."""
    return b.cast(x, n.dtype(0)) if n.dtype(0) in _NARROW else x
