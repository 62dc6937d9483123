"""Quantize: round(x / scale) + zero point, limited to the type, with scales along an axis."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import FLOAT
from softnpu.ops.common.schema import REQUIRED, Schema
from softnpu.ops.quantisation._quant import as_float

SCHEMA = Schema("Quantize", ("x", "scales", "zero_points?"), attrs={"dtype": REQUIRED, "axis": 1})
_TYPES = {
    "torch.qint8": (2, -128.0, 127.0),
    "torch.quint8": (4, 0.0, 255.0),
    "torch.qint32": (3, -2147483648.0, 2147483520.0),
}


def lower(b: Builder, n: Site) -> str:
    type_name, rank = str(n.need("dtype")), n.rank(0)
    if type_name not in _TYPES:
        raise OpError(f"Quantize {n.name!r} has dtype {type_name!r}; use one of {', '.join(_TYPES)}")
    dtype, low, high = _TYPES[type_name]
    axis = int(n.attr("axis", 1)) % rank

    def along(index: int) -> str:
        value = as_float(b, n, index)
        return (
            value
            if n.shape(index) in ((), (1,))
            else b.reshape(value, [-1 if dim == axis else 1 for dim in range(rank)])
        )

    whole = b.op("Round", b.op("Div", as_float(b, n, 0), along(1)))
    if n.has(2):
        whole = b.op("Add", whole, along(2))
    return b.cast(b.clip(str(whole), low, high, FLOAT), dtype)
