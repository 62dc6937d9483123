"""Looking at models: as JSON (modes 1 and 5 of atc) and as a few lines about versions and sizes (mode 6).

Messages become JSON by the tables they are decoded with: enums as their names, maps as lists of key and value, bytes as
text where they are printable. Weights are left out.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from softnpu.base.errors import NpuError
from softnpu.compiler.frontends.caffe.proto import NET
from softnpu.compiler.messages import error
from softnpu.graph import container, model_def, onnx_def
from softnpu.graph.om import Om
from softnpu.graph.text import TextError
from softnpu.graph.text import parse as parse_text
from softnpu.graph.wire import Field, Message, WireError, decode

CAFFE, TENSORFLOW, ONNX = 0, 3, 5


def _words(text: str) -> list[str]:
    return text.split()


# Fields that the real tool leaves out of the JSON of a compiled model.
_OMIT = frozenset(
    _words("output data_offset data workspace workspace_bytes memory_size weight_size size bt quantize_factor")
)
_WEIGHTS = frozenset(
    _words("raw_data float_data int32_data string_data int64_data double_data uint64_data")  # ONNX
    + _words("blobs data diff double_diff")  # Caffe
    + _words("tensor_content")  # TensorFlow
)
_TYPES = _words(
    "UNDEFINED FLOAT FLOAT16 INT8 UINT8 INT16 UINT16 INT32 INT64 UINT32 UINT64 BOOL DOUBLE STRING DUAL_SUB_INT8 DUAL_SUB_UINT8"
    " COMPLEX64 COMPLEX128 QINT8 QINT16 QINT32 QUINT8 QUINT16 RESOURCE STRING_REF DUAL VARIANT BF16 INT4 UINT1 INT2 UINT2"
    " COMPLEX32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0"
)
_LISTS = _words("NONE STRING INT FLOAT BOOL BYTES TENSOR_DESC TENSOR GRAPH NAMED_ATTRS DATA_TYPE")
_KINDS = _words(
    "UNDEFINED FLOAT INT STRING TENSOR GRAPH FLOATS INTS STRINGS TENSORS GRAPHS SPARSE_TENSOR SPARSE_TENSORS TYPE_PROTO"
    " TYPE_PROTOS"
)
_TF_TYPES = _words(
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 BFLOAT16 QINT16 QUINT16 UINT16"
    " COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64"
)
_WORDS = {
    ("TensorDescriptor", "dtype"): {f"DT_{name}": number for number, name in enumerate(_TYPES)},
    ("ListValue", "val_type"): {f"VT_LIST_{name}": number for number, name in enumerate(_LISTS)},
    ("AttributeProto", "type"): {name: number for number, name in enumerate(_KINDS)},
    ("TensorProto", "data_location"): {"DEFAULT": 0, "EXTERNAL": 1},
}
_TF_WORDS = {f"DT_{name}": number for number, name in enumerate(_TF_TYPES)}
_START = "============ Display Model Info start ============"
_END = "============ Display Model Info end   ============"


# ---- tables ----------------------------------------------------------------------------------------------------------


def _spelled(table: Message, done: dict[int, Message]) -> Message:
    """A copy of a table in which maps are lists of entries and enums have names."""
    if id(table) in done:
        return done[id(table)]
    copy = done[id(table)] = Message(table.name)
    for number, known in table.fields.items():
        spelled = known
        if known.kind == "map":
            assert known.message is not None
            entry = Message(f"{known.name} entry").add(key=(1, "string"), value=(2, _spelled(known.message, done)))
            spelled = Field(number, known.name, "message", True, entry)
        elif known.message is not None:
            spelled = replace(known, message=_spelled(known.message, done))
        elif known.kind == "enum" and known.words is None:
            spelled = replace(known, words=_WORDS.get((table.name, known.name)))
        copy.fields[number] = copy.by_name[known.name] = spelled
    return copy


@functools.cache
def _table(kind: str) -> Message:
    if kind == "om":
        return _spelled(model_def.MODEL, {})
    if kind == "onnx":
        return _spelled(onnx_def.MODEL, {})
    if kind == "caffe":
        return _spelled(NET, {})
    return _spelled(_tensorflow(), {})


def _tensorflow() -> Message:
    """The table of a GraphDef as far as a reader wants to see it: nodes and attributes, no weights."""
    dim = Message("Dim").add(size=(1, "int64"), name=(2, "string"))
    shape = Message("TensorShapeProto").add(dim=(2, dim, True), unknown_rank=(3, "bool"))
    tensor = Message("TensorProto").add(dtype=(1, _TF_WORDS), tensor_shape=(2, shape), tensor_content=(4, "bytes"))
    attr = Message("AttrValue")
    function = Message("NameAttrList").add(name=(1, "string"), attr=(2, "map", attr))
    scalars = {"s": (2, "bytes"), "i": (3, "int64"), "f": (4, "float"), "b": (5, "bool"), "type": (6, _TF_WORDS)}
    messages = {"shape": (7, shape), "tensor": (8, tensor)}
    several = {name: (*known, True) for name, known in {**scalars, **messages}.items()}
    values = Message("ListValue").add(**several, func=(9, function, True))
    attr.add(list=(1, values), **scalars, **messages, placeholder=(9, "string"), func=(10, function))
    node = Message("NodeDef").add(
        name=(1, "string"), op=(2, "string"), input=(3, "string", True), device=(4, "string"), attr=(5, "map", attr)
    )
    versions = Message("VersionDef").add(producer=(1, "int32"), min_consumer=(2, "int32"))
    return Message("GraphDef").add(node=(1, node, True), versions=(4, versions))


def _plain(table: Message, message: Mapping[str, Any], omit: frozenset[str]) -> dict[str, Any]:
    """A decoded message as something that JSON can hold."""
    plain: dict[str, Any] = {}
    for name, value in message.items():
        if name in omit:
            continue
        known = table.by_name[name]
        plain[name] = [_field(known, item, omit) for item in value] if known.repeated else _field(known, value, omit)
    return plain


def _field(known: Field, value: Any, omit: frozenset[str]) -> Any:
    if known.message is not None:
        return _plain(known.message, value, omit)
    if known.kind == "bytes":
        return _readable(bytes(value))
    if known.kind in ("float", "double") and not math.isfinite(value):
        return str(value)
    if known.kind == "enum" and known.words is not None:
        return next((name for name, number in known.words.items() if number == value), value)
    return value


def _readable(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii")
    return (
        text if all(char.isprintable() or char in "\t\r\n" for char in text) else base64.b64encode(data).decode("ascii")
    )


# ---- JSON ------------------------------------------------------------------------------------------------------------


def to_json(path: Path, framework: int | None = None, shapes: bool = False) -> dict[str, Any]:
    """A model as JSON: an `.om`, or with a framework an original model; `shapes` infers those of an ONNX model."""
    try:
        if framework is None:
            table = _table("om")
            return _plain(table, decode(table, Om.open(path).partitions[container.MODEL_DEF]), _OMIT)
        if framework == CAFFE:
            table = _table("caffe")
            return _plain(table, parse_text(table, path.read_text(encoding="utf-8"), skip_unknown=True), _WEIGHTS)
        table = _table("onnx" if framework == ONNX else "tensorflow")
        data = path.read_bytes()
        message = decode(table, _with_shapes(data) if shapes and framework == ONNX else data)
        if not message:
            raise WireError("it holds no model")
        return _plain(table, message, _WEIGHTS)
    except (NpuError, WireError, TextError, OSError, UnicodeDecodeError) as problem:
        raise error("E10041", value=path, reason=_reason(problem)) from problem


def dump_to_json(path: Path) -> dict[str, Any]:
    """A graph that was dumped as text (`ge_proto_*.txt`) as JSON."""
    try:
        table = _table("om")
        message = parse_text(table, path.read_text(encoding="utf-8"), skip_unknown=True)
        if not message:
            raise TextError("it holds no graph")
    except (TextError, OSError, UnicodeDecodeError) as problem:
        raise error("E10041", value=path, reason=_reason(problem)) from problem
    return _plain(table, message, _OMIT)


def _reason(problem: Exception) -> str:
    if isinstance(problem, NpuError):
        return problem.text
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return str(problem)


def _with_shapes(data: bytes) -> bytes:
    import onnx.shape_inference

    try:
        inferred: bytes = onnx.shape_inference.infer_shapes(data).SerializeToString()
    except Exception as problem:  # onnx raises what protobuf, its checker and its C++ part raise
        raise WireError(f"shapes cannot be inferred: {str(problem).strip().partition(chr(10))[0]}") from problem
    return inferred


def write_json(path: Path, content: Mapping[str, Any], option: str) -> None:
    """Write JSON under a temporary name and rename it; `option` is what the user gave the path by."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(part, "w", encoding="utf-8", errors="backslashreplace") as file:
                json.dump(content, file, indent=2, ensure_ascii=False)
                file.write("\n")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as problem:
        reason = f"it cannot be written ({problem.strerror})"
        raise error("E10001", parameter=option, value=path, reason=reason) from problem


# ---- information -----------------------------------------------------------------------------------------------------


def information(path: Path) -> str:
    """Versions and sizes of a compiled model, as atc shows them."""
    try:
        om = Om.open(path)
        head = om.head()
    except NpuError as problem:
        raise error("E10041", value=path, reason=problem.text) from problem
    sizes = _sizes(om, _attribute(head, "om_info_list", []))
    words = {
        name: _attribute(head, name, "") for name in ("atc_cmdline", "atc_version", "soc_version", "framework_type")
    }
    counts = {name: _attribute(head, name, 0) for name in ("memory_size", "weight_size", "stream_num", "event_num")}
    return "\n".join(
        (
            _START,
            f"Original Atc command line: {words['atc_cmdline']}",
            f"system   info: atc_version[{words['atc_version']}], soc_version[{words['soc_version']}],"
            f" framework_type[{words['framework_type']}].",
            f"resource info: memory_size[{counts['memory_size']} B], weight_size[{counts['weight_size']} B],"
            f" stream_num[{counts['stream_num']}], event_num[{counts['event_num']}].",
            f"om       info: modeldef_size[{sizes[0]} B], weight_data_size[{sizes[1]} B], tbe_kernels_size[{sizes[2]} B],"
            f" cust_aicpu_kernel_store_size[{sizes[3]} B], task_info_size[{sizes[4]} B], so_store_size[{sizes[5]} B].",
            _END,
        )
    )


def _attribute(head: Mapping[str, Any], name: str, default: Any) -> Any:
    """An attribute, under its name or with the prefix of some releases."""
    value = head.get(name, head.get(f"_{name}"))
    return value if isinstance(value, type(default)) else default


def _sizes(om: Om, listed: list[Any]) -> list[int]:
    """Sizes of the parts; those that the model does not list are taken from the file."""
    kinds = (container.WEIGHTS_DATA, container.TBE_KERNELS, container.CUST_AICPU_KERNELS, container.TASK_INFO, 5)
    measured = [len(om.partitions.get(kind, b"")) for kind in kinds]
    known = [size for size in listed if isinstance(size, int)][: len(kinds)]
    return [len(om.partitions[container.MODEL_DEF]), *known, *measured[len(known) :]]
