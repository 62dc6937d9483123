"""The body of the group normalisations."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.precision import wide
from softnpu.ops.norm._norms import inverse_spread, moments, per_channel, scaled


def normalise(b: Builder, n: Site, epsilon: float) -> tuple[str, str, str, str]:
    """The normalised and scaled value, mean, variance and inverse of the standard deviation; channels are dim 1."""
    groups, rank = int(n.need("num_groups")), n.rank(0)
    if str(n.attr("data_format", "NCHW")) in ("NHWC", "NDHWC"):
        raise OpError(f"{n.type} {n.name!r} has data_format {n.attr('data_format')}; use NCHW")
    x = wide(b, n)
    flat = b.reshape(x, [0, groups, -1])
    centred, mean, variance = moments(b, flat, [2])
    rstd = inverse_spread(b, n, variance, epsilon)
    y = b.op("Reshape", b.op("Mul", centred, rstd), b.op("Shape", x))
    y = scaled(b, str(y), per_channel(b, n, 1, rank, 1), per_channel(b, n, 2, rank, 1))
    return y, b.squeeze(mean, [2]), b.squeeze(variance, [2]), b.squeeze(rstd, [2])
