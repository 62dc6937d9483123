"""Bodies of the normalisations: means and variances over axes, in float32 where the input is narrower."""

from collections.abc import Sequence

from softnpu.ops.common.builder import Builder, Site
from softnpu.ops.common.precision import wide, working


def moments(b: Builder, x: str, axes: Sequence[int]) -> tuple[str, str, str]:
    """x less its mean, the mean and the variance over axes (which stay as dims of 1)."""
    mean = b.reduce("Mean", x, axes)
    centred = str(b.op("Sub", x, mean))
    return centred, mean, b.reduce("Mean", str(b.op("Mul", centred, centred)), axes)


def inverse_spread(b: Builder, n: Site, variance: str, epsilon: float) -> str:
    """1 / sqrt(variance + epsilon)."""
    return str(b.op("Reciprocal", b.op("Sqrt", b.op("Add", variance, b.scalar(epsilon, working(n))))))


def scaled(b: Builder, x: str, gamma: str | None, beta: str | None) -> str:
    """x · gamma + beta, where they are given."""
    if gamma is not None:
        x = str(b.op("Mul", x, gamma))
    return x if beta is None else str(b.op("Add", x, beta))


def per_channel(b: Builder, n: Site, index: int, rank: int, axis: int) -> str | None:
    """An optional vector with a value per channel, shaped to be multiplied with a tensor of `rank` dims."""
    if not n.has(index):
        return None
    return b.reshape(wide(b, n, index), [-1 if dim == axis else 1 for dim in range(rank)])


def channel_axis(n: Site, default: str) -> int:
    """Which dim holds the channels, by `data_format` (ND counts as channels first)."""
    layout = str(n.attr("data_format", default))
    return n.rank(0) - 1 if layout in ("NHWC", "NDHWC", "NLC") else 1
