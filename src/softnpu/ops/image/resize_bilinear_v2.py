"""ResizeBilinearV2: an image of another size, interpolated between the four nearest pixels."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT, FLOATS
from softnpu.ops.common.schema import Schema
from softnpu.ops.image._resize import ATTRS, flags, resize

SCHEMA = Schema("ResizeBilinearV2", ("x", "size"), attrs={**ATTRS, "dtype": 0})


def lower(b: Builder, n: Site) -> str:
    corners, centres = flags(n)
    kind = n.dtype(0) if n.dtype(0) in FLOATS else FLOAT
    result = int(n.attr("dtype", kind))
    if result not in FLOATS:
        raise OpError(f"ResizeBilinearV2 {n.name!r} has the dtype {result}; the result is a float")
    x = n.input(0) if kind == n.dtype(0) else b.cast(n.input(0), kind)
    if kind != FLOAT and result == FLOAT:
        x, kind = b.cast(x, FLOAT), FLOAT
    transform = "align_corners" if corners else "half_pixel" if centres else "asymmetric"
    resized = resize(b, n, x, "linear", transform)
    return resized if kind == result else b.cast(resized, result)
