"""SPP: spatial pyramid pooling, a row of fixed length for images of any size."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.pooling._caffe_pool import plan, pool

SCHEMA = Schema(
    "SPP", attrs={"pyramid_height": REQUIRED, "pool_method": 0}, note="pool_method is 0 (max) or 1 (average)"
)


def lower(b: Builder, n: Site) -> str:
    height, method = int(n.need("pyramid_height")), int(n.attr("pool_method", 0))
    if n.rank() != 4 or height < 1 or method not in (0, 1):
        raise OpError(
            f"SPP {n.name!r} has {height} levels, method {method} and {n.rank()} dims; give a level, 0 or 1, and 4 dims"
        )
    parts = []
    for level in range(height):
        bins, axes = 2**level, []
        for size in n.shape()[2:]:
            kernel = -(-size // bins)
            pad = (kernel * bins - size + 1) // 2
            axes.append(plan(n, size, kernel, kernel, (pad, pad), True))
        parts.append(b.op("Flatten", pool(b, n.input(0), axes[0], axes[1], bool(method), n.dtype()), axis=1))
    return str(parts[0] if height == 1 else b.op("Concat", *parts, axis=1))
