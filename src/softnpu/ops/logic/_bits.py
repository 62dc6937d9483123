"""Bodies of the operators on bits."""

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.numbers import INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64
from softnpu.ops.common.schema import Lower

_SIGNED = (INT8, INT16, INT32, INT64)
_UNSIGNED: dict[int, int] = {  # the unsigned type in which a shift is done
    **dict.fromkeys((INT8, INT16, INT32, UINT8, UINT16, UINT32), UINT32),
    **dict.fromkeys((INT64, UINT64), UINT64),
}


def bitwise(onnx_type: str) -> Lower:
    """One of ONNX's bitwise operators, which came with opset 18."""

    def lower(b: Builder, n: Site) -> str:
        if b.opset < 18:
            raise OpError(f"{n.type} {n.name!r} needs ONNX opset 18 or newer; export the model with a newer opset")
        return str(b.op(onnx_type, *n.inputs))

    return lower


def shift(direction: str) -> Lower:
    """Shift x by y bits; right shifts of negative numbers keep the sign."""

    def lower(b: Builder, n: Site) -> str:
        dtype = n.dtype(0)
        if dtype not in _UNSIGNED:
            raise OpError(f"{n.type} {n.name!r} takes integers, not aclDataType {dtype}; cast the input")
        wide = _UNSIGNED[dtype]
        x, count = n.input(0), b.cast(n.input(1), wide)
        if direction == "LEFT" or dtype not in _SIGNED:
            return b.cast(str(b.op("BitShift", b.cast(x, wide), count, direction=direction)), dtype)
        signed = INT64 if dtype == INT64 else INT32  # engines choose between values of these types only
        x = x if dtype == signed else b.cast(x, signed)
        negative = b.op("Less", x, b.scalar(0, signed))
        flipped = b.op("Sub", b.scalar(-1, signed), x)
        moved = b.op("BitShift", b.cast(str(b.op("Where", negative, flipped, x)), wide), count, direction=direction)
        moved = b.cast(str(moved), signed)
        shifted = str(b.op("Where", negative, b.op("Sub", b.scalar(-1, signed), moved), moved))
        return shifted if dtype == signed else b.cast(shifted, dtype)

    return lower
