"""Tables of ONNX's messages, and the small conversions between them and Python values.

The engines take ONNX, so this is also the form in which an `.om` holds what they run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.dtypes import element_size, from_numpy, from_onnx, to_onnx
from softnpu.graph.ir import Constant, Shape
from softnpu.graph.wire import Message

FLOAT, INT, STRING, TENSOR_KIND, GRAPH_KIND, FLOATS, INTS, STRINGS, TENSORS, GRAPHS, SPARSE_KIND = range(1, 12)
EXTERNAL = 1

_ENTRY = Message("StringStringEntryProto").add(key=(1, "string"), value=(2, "string"))
OPSET = Message("OperatorSetIdProto").add(domain=(1, "string"), version=(2, "int64"))
TENSOR = Message("TensorProto").add(
    dims=(1, "int64", True),
    data_type=(2, "int32"),
    float_data=(4, "float", True),
    int32_data=(5, "int32", True),
    string_data=(6, "bytes", True),
    int64_data=(7, "int64", True),
    name=(8, "string"),
    raw_data=(9, "bytes"),
    double_data=(10, "double", True),
    uint64_data=(11, "uint64", True),
    external_data=(13, _ENTRY, True),
    data_location=(14, "enum"),
)
SPARSE = Message("SparseTensorProto").add(values=(1, TENSOR), indices=(2, TENSOR), dims=(3, "int64", True))
_DIM = Message("Dimension").add(dim_value=(1, "int64"), dim_param=(2, "string"))
_SHAPE = Message("TensorShapeProto").add(dim=(1, _DIM, True))
_TENSOR_TYPE = Message("Tensor").add(elem_type=(1, "int32"), shape=(2, _SHAPE))
TYPE = Message("TypeProto")
_SEQUENCE_TYPE = Message("Sequence").add(elem_type=(1, TYPE))
_MAP_TYPE = Message("Map").add(key_type=(1, "int32"), value_type=(2, TYPE))
TYPE.add(
    tensor_type=(1, _TENSOR_TYPE),
    sequence_type=(4, _SEQUENCE_TYPE),
    map_type=(5, _MAP_TYPE),
    sparse_tensor_type=(8, _TENSOR_TYPE),
    optional_type=(9, _SEQUENCE_TYPE),
)
VALUE_INFO = Message("ValueInfoProto").add(name=(1, "string"), type=(2, TYPE))
GRAPH = Message("GraphProto")
ATTRIBUTE = Message("AttributeProto").add(
    name=(1, "string"),
    f=(2, "float"),
    i=(3, "int64"),
    s=(4, "bytes"),
    t=(5, TENSOR),
    g=(6, GRAPH),
    floats=(7, "float", True),
    ints=(8, "int64", True),
    strings=(9, "bytes", True),
    tensors=(10, TENSOR, True),
    graphs=(11, GRAPH, True),
    tp=(14, TYPE),
    type_protos=(15, TYPE, True),
    type=(20, "enum"),
    ref_attr_name=(21, "string"),
    sparse_tensor=(22, SPARSE),
    sparse_tensors=(23, SPARSE, True),
)
NODE = Message("NodeProto").add(
    input=(1, "string", True),
    output=(2, "string", True),
    name=(3, "string"),
    op_type=(4, "string"),
    attribute=(5, ATTRIBUTE, True),
    doc_string=(6, "string"),  # in programs: the node of the graph that the operator belongs to, where names differ
    domain=(7, "string"),
    overload=(8, "string"),
)
GRAPH.add(
    node=(1, NODE, True),
    name=(2, "string"),
    initializer=(5, TENSOR, True),
    input=(11, VALUE_INFO, True),
    output=(12, VALUE_INFO, True),
    value_info=(13, VALUE_INFO, True),
    sparse_initializer=(15, SPARSE, True),
)
FUNCTION = Message("FunctionProto").add(
    name=(1, "string"),
    input=(4, "string", True),
    output=(5, "string", True),
    attribute=(6, "string", True),
    node=(7, NODE, True),
    opset_import=(9, OPSET, True),
    domain=(10, "string"),
    attribute_proto=(11, ATTRIBUTE, True),
    value_info=(12, VALUE_INFO, True),
    overload=(13, "string"),
)
MODEL = Message("ModelProto").add(
    ir_version=(1, "int64"),
    producer_name=(2, "string"),
    producer_version=(3, "string"),
    graph=(7, GRAPH),
    opset_import=(8, OPSET, True),
    functions=(25, FUNCTION, True),
)
# The same with the graph left as bytes: what a loader needs.
RAW_MODEL = Message("ModelProto").add(
    ir_version=(1, "int64"),
    producer_name=(2, "string"),
    graph=(7, "bytes"),
    opset_import=(8, OPSET, True),
    functions=(25, FUNCTION, True),
)

_FIELDS = {
    FLOAT: "f", INT: "i", STRING: "s", TENSOR_KIND: "t", GRAPH_KIND: "g", FLOATS: "floats", INTS: "ints", STRINGS: "strings",
    TENSORS: "tensors", GRAPHS: "graphs", SPARSE_KIND: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
_EMPTY = {FLOAT: 0.0, INT: 0, STRING: b""}


def attribute_kind(attribute: dict[str, Any]) -> int:
    """The type of an attribute; files of before 2018 leave it out."""
    kind = attribute.get("type", 0)
    return kind or next((number for number, field in _FIELDS.items() if field in attribute), 0)


def attribute_value(attribute: dict[str, Any]) -> Any:
    """The value of an attribute as it stands in the message (strings are bytes)."""
    kind = attribute_kind(attribute)
    field = _FIELDS.get(kind)
    if field is None:
        return None
    return attribute.get(field, _EMPTY.get(kind, []))


def attributes_of(node: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a NodeProto by name."""
    return {attribute.get("name", ""): attribute_value(attribute) for attribute in node.get("attribute", ())}


def make_attribute(name: str, value: Any) -> dict[str, Any]:
    """An attribute from a Python value: bool and int, float, str or bytes, lists of them, a NumPy array."""
    if isinstance(value, np.ndarray):
        return {"name": name, "t": make_tensor("", Constant.of(value)), "type": TENSOR_KIND}
    if isinstance(value, bool | int | np.integer):
        return {"name": name, "i": int(value), "type": INT}
    if isinstance(value, float | np.floating):
        return {"name": name, "f": float(value), "type": FLOAT}
    if isinstance(value, str | bytes):
        return {"name": name, "s": value.encode() if isinstance(value, str) else value, "type": STRING}
    values = list(value)
    if values and isinstance(values[0], str | bytes):
        return {"name": name, "strings": [v.encode() if isinstance(v, str) else v for v in values], "type": STRINGS}
    if any(isinstance(item, float | np.floating) for item in values):
        return {"name": name, "floats": [float(item) for item in values], "type": FLOATS}
    return {"name": name, "ints": [int(item) for item in values], "type": INTS}


def make_tensor(name: str, constant: Constant) -> dict[str, Any]:
    """A TensorProto that holds its content."""
    return {"dims": list(constant.shape), "data_type": to_onnx(constant.dtype), "name": name, "raw_data": constant.data}


_TYPED = {
    1: ("float_data", "<f4"), 2: ("int32_data", "u1"), 3: ("int32_data", "i1"), 4: ("int32_data", "<u2"), 5: ("int32_data", "<i2"),
    6: ("int32_data", "<i4"), 7: ("int64_data", "<i8"), 9: ("int32_data", "?"), 10: ("int32_data", "<u2"), 11: ("double_data", "<f8"),
    12: ("uint64_data", "<u4"), 13: ("uint64_data", "<u8"), 14: ("float_data", "<f4"), 15: ("double_data", "<f8"), 16: ("int32_data", "<u2"),
    17: ("int32_data", "u1"), 18: ("int32_data", "u1"), 19: ("int32_data", "u1"), 20: ("int32_data", "u1"), 24: ("int32_data", "u1"),
}  # fmt: skip
NIBBLES = frozenset({21, 22, 23})  # uint4, int4, float4: two elements a byte
QUARTERS = frozenset({25, 26})  # uint2, int2: four elements a byte


def tensor_bytes(tensor: dict[str, Any]) -> int | None:
    """How many bytes the content of a TensorProto must have; None for strings."""
    count = 1
    for dim in tensor.get("dims", ()):
        if dim < 0:
            raise ValueError(f"a tensor has the dim {dim}")
        count *= dim
    number = tensor.get("data_type", 0)
    if number == 8:
        return None
    if number in NIBBLES:
        return (count + 1) // 2
    if number in QUARTERS:
        return (count + 3) // 4
    width = {18: 1, 20: 1}.get(number) or element_size(from_onnx(number))
    if from_onnx(number) < 0:
        raise ValueError("a tensor has no type")
    return count * width


def tensor_constant(tensor: dict[str, Any]) -> Constant:
    """The content of a TensorProto that holds it itself; raises ValueError when its length is not what its dims say."""
    number = tensor.get("data_type", 0)
    shape: Shape = tuple(tensor.get("dims", ()))
    wanted = tensor_bytes(tensor)
    if wanted is None:
        raise ValueError("a tensor of strings has no bytes")
    data: bytes | memoryview
    if "raw_data" in tensor:
        data = tensor["raw_data"]
    elif number in _TYPED:
        field, kind = _TYPED[number]
        values = tensor.get(field, [])
        if number in (1, 11, 14, 15):
            data = np.array(values, kind).tobytes()
        else:
            data = np.array(values, np.int64 if number != 13 else np.uint64).astype(kind).tobytes()
    elif number in NIBBLES or number in QUARTERS:
        data = np.array(tensor.get("int32_data", []), np.int64).astype("u1").tobytes()
    else:
        raise ValueError(f"a tensor has the unknown type {number}")
    if len(data) != wanted:
        raise ValueError(f"a tensor of dims {list(shape)} holds {len(data)} bytes instead of {wanted}")
    return Constant(from_onnx(number), shape, data)


def make_value_info(name: str, dtype: int, shape: Shape | None, words: tuple[str, ...] = ()) -> dict[str, Any]:
    """A ValueInfoProto; `words` names the unknown dims (equal words are equal dims)."""
    tensor: dict[str, Any] = {"elem_type": to_onnx(dtype)}
    if shape is not None:
        dims: list[dict[str, Any]] = []
        for index, dim in enumerate(shape):
            if dim >= 0:
                dims.append({"dim_value": dim})
            else:
                symbol = words[index] if index < len(words) else ""
                dims.append({"dim_param": symbol} if symbol else {})
        tensor["shape"] = {"dim": dims}
    return {"name": name, "type": {"tensor_type": tensor}}


def value_info_type(info: dict[str, Any]) -> tuple[int, Shape | None] | None:
    """Type and shape of a ValueInfoProto; None when it is no tensor."""
    kind = info.get("type", {})
    if "tensor_type" not in kind:
        return None if kind else (-1, None)
    tensor = kind["tensor_type"]
    shape: Shape | None = None
    if "shape" in tensor:
        shape = tuple(_dim(dim) for dim in tensor["shape"].get("dim", ()))
    return from_onnx(tensor.get("elem_type", 0)), shape


def _dim(dim: dict[str, Any]) -> int:
    value: int = dim.get("dim_value", -1)
    return value if value >= 0 else -1


def dtype_of(array: np.ndarray[Any, Any]) -> int:
    """The aclDataType of an array."""
    return from_numpy(array.dtype.name)
