"""Tables of TensorFlow's messages, and constants out of its TensorProto."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softnpu.base.dtypes import DType, element_size, numpy_name
from softnpu.compiler.frontends import check_rank
from softnpu.graph.ir import Constant, Shape
from softnpu.graph.wire import Message

_DIM = Message("Dim").add(size=(1, "int64"), name=(2, "string"))
SHAPE = Message("TensorShapeProto").add(dim=(2, _DIM, True), unknown_rank=(3, "bool"))
TENSOR = Message("TensorProto").add(
    dtype=(1, "enum"),
    tensor_shape=(2, SHAPE),
    tensor_content=(4, "bytes"),
    float_val=(5, "float", True),
    double_val=(6, "double", True),
    int_val=(7, "int32", True),
    string_val=(8, "bytes", True),
    int64_val=(10, "int64", True),
    bool_val=(11, "bool", True),
    half_val=(13, "int32", True),
    uint32_val=(16, "uint32", True),
    uint64_val=(17, "uint64", True),
)
ATTR = Message("AttrValue")
FUNC = Message("NameAttrList").add(name=(1, "string"), attr=(2, "map", ATTR))
_LIST = Message("ListValue").add(
    s=(2, "bytes", True),
    i=(3, "int64", True),
    f=(4, "float", True),
    b=(5, "bool", True),
    type=(6, "enum", True),
    shape=(7, SHAPE, True),
    tensor=(8, TENSOR, True),
    func=(9, FUNC, True),
)
ATTR.add(
    list=(1, _LIST),
    s=(2, "bytes"),
    i=(3, "int64"),
    f=(4, "float"),
    b=(5, "bool"),
    type=(6, "enum"),
    shape=(7, SHAPE),
    tensor=(8, TENSOR),
    placeholder=(9, "string"),
    func=(10, FUNC),
)
NODE = Message("NodeDef").add(
    name=(1, "string"), op=(2, "string"), input=(3, "string", True), device=(4, "string"), attr=(5, "map", ATTR)
)
_SIGNATURE = Message("OpDef").add(name=(1, "string"))
_FUNCTION = Message("FunctionDef").add(signature=(1, _SIGNATURE))
_LIBRARY = Message("FunctionDefLibrary").add(function=(1, _FUNCTION, True))
_VERSIONS = Message("VersionDef").add(producer=(1, "int32"), min_consumer=(2, "int32"))
GRAPH = Message("GraphDef").add(node=(1, NODE, True), library=(2, _LIBRARY), versions=(4, _VERSIONS))

STRING = 7
_REF = 100  # a type as a reference to a variable is numbered so much higher
_DTYPES = {
    1: 0, 2: 11, 3: 3, 4: 4, 5: 6, 6: 2, 7: 13, 9: 9, 10: 12, 11: 2, 12: 4, 13: 3, 14: 27, 15: 6, 16: 7, 17: 7, 19: 1, 22: 8, 23: 10,
}  # TensorFlow's DataType → aclDataType; the quantised ones are plain integers here  # fmt: skip
_FIELDS = {
    0: "float_val", 11: "double_val", 3: "int_val", 4: "int_val", 6: "int_val", 2: "int_val", 7: "int_val", 9: "int64_val",
    12: "bool_val", 1: "half_val", 27: "half_val", 8: "uint32_val", 10: "uint64_val",
}  # fmt: skip
_MAX_FILLED = 1 << 30  # bytes that one value of a file may be spread to


def dtype_of(number: int) -> int:
    """The aclDataType of TensorFlow's DataType; raises ValueError for those that ACL lacks."""
    dtype = _DTYPES.get(number - _REF if number > _REF else number)
    if dtype is None:
        raise ValueError(
            f"the TensorFlow data type {number} has no counterpart; use float, half, double, bool or an integer type"
        )
    return dtype


def shape_of(shape: dict[str, Any]) -> Shape | None:
    """The dims of a TensorShapeProto, -1 for an unknown one; None where the rank is unknown."""
    if shape.get("unknown_rank", False):
        return None
    return tuple(size if size >= 0 else -1 for size in (dim.get("size", 0) for dim in shape.get("dim", ())))


def constant_of(tensor: dict[str, Any]) -> Constant:
    """The content of a TensorProto: raw bytes as a view, or typed values, of which the last one fills what is missing."""
    dtype = dtype_of(tensor.get("dtype", 0))
    shape = shape_of(tensor.get("tensor_shape", {}))
    if shape is None or min(shape, default=0) < 0:
        raise ValueError("a constant has unknown dims")
    check_rank(shape)
    if dtype == DType.STRING:
        raise ValueError("strings cannot be computed with")
    count = math.prod(shape)
    size = count * element_size(dtype)
    if "tensor_content" in tensor:
        content = tensor["tensor_content"]
        if len(content) != size:
            raise ValueError(f"a constant of shape {list(shape)} holds {len(content)} bytes instead of {size}")
        return Constant(dtype, shape, content)
    values = tensor.get(_FIELDS[dtype], [])
    if size > _MAX_FILLED and len(values) < count:
        raise ValueError(f"a constant of shape {list(shape)} would have {size} bytes and holds {len(values)} values")
    if len(values) > count:
        raise ValueError(f"a constant of shape {list(shape)} holds {len(values)} values instead of {count}")
    return Constant(dtype, shape, _filled(values, dtype, count).tobytes())


def _filled(values: list[Any], dtype: int, count: int) -> np.ndarray[Any, Any]:
    if dtype in (DType.FLOAT16, DType.BF16):  # the bits of a half stand in an integer
        listed = np.array(values, np.int64).astype(np.uint16)
    elif dtype in (DType.FLOAT, DType.DOUBLE):
        listed = np.array(values, numpy_name(dtype))
    else:
        listed = np.array(values, np.uint64 if dtype == DType.UINT64 else np.int64).astype(numpy_name(dtype))
    if len(listed) == count:
        return listed
    filled = np.zeros(count, listed.dtype)
    if len(listed):
        filled[: len(listed)] = listed
        filled[len(listed) :] = listed[-1]
    return filled
