"""Bodies of the activation operators that several types share."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.inputs import number

_TANH_SCALE = 0.7978845608028654  # sqrt(2 / pi)
_CUBIC = 0.044715
_FAST = 1.702
_SQRT_HALF = 0.7071067811865476


def gelu_exact(b: Builder, n: Site, x: str) -> str:
    """x · Φ(x), with the error function."""
    phi = b.op("Add", b.op("Erf", b.op("Mul", x, number(b, n, _SQRT_HALF))), number(b, n, 1.0))
    return str(b.op("Mul", b.op("Mul", x, phi), number(b, n, 0.5)))


def gelu_tanh(b: Builder, n: Site, x: str) -> str:
    """The approximation of x · Φ(x) with tanh."""
    cube = b.op("Mul", b.op("Mul", x, x), x)
    inner = b.op("Add", x, b.op("Mul", cube, number(b, n, _CUBIC)))
    phi = b.op("Add", b.op("Tanh", b.op("Mul", inner, number(b, n, _TANH_SCALE))), number(b, n, 1.0))
    return str(b.op("Mul", b.op("Mul", x, phi), number(b, n, 0.5)))


def swish(b: Builder, n: Site, x: str, scale: float = 1.0) -> str:
    """x · sigmoid(scale · x)."""
    inner = x if scale == 1.0 else b.op("Mul", x, number(b, n, scale))
    return str(b.op("Mul", x, b.op("Sigmoid", inner)))


def gelu_fast(b: Builder, n: Site, x: str) -> str:
    """The approximation x · sigmoid(1.702 x)."""
    return swish(b, n, x, _FAST)


def halves(b: Builder, n: Site, axis: int) -> tuple[str, str]:
    """The two halves of input 0 along an axis whose size is known and even."""
    size = n.shape(0)[axis]
    if size < 0 or size % 2:
        raise OpError(f"{n.type} {n.name!r} halves dim {axis}, which is {size}; it must be known and even")
    left, right = b.split(n.input(0), [size // 2, size // 2], axis % n.rank(0))
    return left, right
