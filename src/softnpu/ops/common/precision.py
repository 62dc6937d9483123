"""Sums in float32 where the input is narrower, and the way back."""

from softnpu.ops.common.builder import Builder, Site

_FLOAT = 0
_NARROW = (1, 27)  # float16, bfloat16: sums over many elements need more bits


def wide(b: Builder, n: Site, index: int = 0) -> str:
    """An input in float32 where it is narrower."""
    return b.cast(n.input(index), _FLOAT) if n.dtype(index) in _NARROW else n.input(index)


def working(n: Site) -> int:
    """The type in which the sums of input 0 are made."""
    return _FLOAT if n.dtype(0) in _NARROW or n.dtype(0) < 0 else n.dtype(0)


def narrow(b: Builder, n: Site, x: str) -> str:
    """A result in the type of input 0."""
    return b.cast(x, n.dtype(0)) if n.dtype(0) in _NARROW else x
