"""What an `.om` file holds: the graph as a GE ModelDef, weights, the description of inputs and outputs, and the program.

The program is what an engine runs: an ONNX graph whose large weights are named by their place in the weight partition. It
stands in the kernel partition as an item called `softnpu.onnx`, so that loading builds nothing anew. `write` makes the
file, `Om` reads it; everything is a view of the mapped file until somebody needs it.
"""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softnpu.base.dtypes import element_size, to_ge, to_onnx
from softnpu.base.errors import NpuError, codes
from softnpu.graph import container
from softnpu.graph.ir import Constant, Graph, Node, Value
from softnpu.graph.model_def import MODEL
from softnpu.graph.onnx_def import GRAPH, RAW_MODEL, TENSOR
from softnpu.graph.wire import Message, WireError, decode, encode

ALIGN = 64
INLINE_BYTES = 1024  # smaller constants stand in the program itself
KERNEL_MAGIC = 0x5D776EFD
PROGRAM = "softnpu.onnx"
WEIGHTS = "softnpu.weights"
HEAD = Message("ModelDef").add(name=(1, "string"), version=(2, "uint32"), attr=(11, "map", MODEL.by_name["attr"].message))
_FORMATS = {0: "NCHW", 1: "NHWC", 2: "ND", 3: "NC1HWC0", 4: "FRACTAL_Z", 16: "HWCN", 27: "NDHWC", 29: "FRACTAL_NZ", 30: "NCDHW"}
_LIST_KINDS = {"s": 1, "i": 2, "f": 3, "b": 4, "bt": 5, "td": 6, "t": 7, "g": 8, "na": 9, "dt": 10}


@dataclass
class TensorInfo:
    """An input or output as programs see it."""

    name: str
    dtype: int
    format: int
    dims: list[int]
    size: int  # bytes, of the largest gear; 0 for a shape range
    dims_v2: list[int] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    real_name: str = ""


@dataclass
class ModelInfo:
    """What a program can ask about a model, and what running it needs beside the operators."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    gears: list[list[int]] = field(default_factory=list)
    gear_kind: str = ""  # "batch", "hw", "dims" or none
    gear_outputs: list[list[list[int]]] = field(default_factory=list)  # per gear the dims of every output
    gear_inputs: list[list[int]] = field(default_factory=list)  # per gear the dims of all inputs, one behind the other
    extra: dict[str, Any] = field(default_factory=dict)  # AIPP, names of the engine's tensors and the like
    memory_size: int = 0
    weight_size: int = 0


# ---- attributes ------------------------------------------------------------------------------------------------------


def to_attr(value: Any) -> dict[str, Any] | None:
    """A Python value as an AttrDef; None for what has no form there."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": value.encode()}
    if isinstance(value, bytes | memoryview):
        return {"s": bytes(value)}
    if isinstance(value, Constant):
        return {"t": {"desc": _tensor_desc(value.dtype, value.shape, 2), "data": value.data}}
    if isinstance(value, dict):
        inner = {key: attr for key, one in value.items() if isinstance(key, str) and (attr := to_attr(one)) is not None}
        return {"func": {"name": "", "attr": inner}}
    if isinstance(value, list | tuple):
        return _list_attr(list(value))
    return None


def _list_attr(values: list[Any]) -> dict[str, Any] | None:
    if not values:
        return {"list": {"val_type": 0}}
    first = values[0]
    if isinstance(first, list | tuple):
        return {"list_list_int": {"list_list_i": [{"list_i": [int(one) for one in inner]} for inner in values]}}
    if any(isinstance(one, float) for one in values):
        return {"list": {"f": [float(one) for one in values], "val_type": 3}}
    if isinstance(first, bool):
        return {"list": {"b": values, "val_type": 4}}
    if isinstance(first, int):
        return {"list": {"i": values, "val_type": 2}}
    if isinstance(first, str | bytes | memoryview):
        return {"list": {"s": [one.encode() if isinstance(one, str) else bytes(one) for one in values], "val_type": 1}}
    return None


def attr_value(attr: dict[str, Any]) -> Any:
    """The Python value of an AttrDef."""
    for key in ("s", "i", "f", "b", "bt", "dt"):
        if key in attr:
            return str(attr[key], "utf-8", "replace") if key in ("s", "bt") else attr[key]
    if "list" in attr:
        word = next((key for key in _LIST_KINDS if key in attr["list"]), "")
        values = attr["list"].get(word, [])
        return [str(one, "utf-8", "replace") for one in values] if word in ("s", "bt") else values
    if "list_list_int" in attr:
        return [one.get("list_i", []) for one in attr["list_list_int"].get("list_list_i", ())]
    if "func" in attr:
        return {key: attr_value(one) for key, one in attr["func"].get("attr", {}).items()}
    return None


# ---- writing ---------------------------------------------------------------------------------------------------------


@dataclass
class Weights:
    """The weight partition as pieces, and where each constant stands in it."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    size: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def add(self, constant: Constant) -> int:
        """Put a constant in; the same constant is stored once."""
        place = self.places.get(id(constant))
        if place is None:
            gap = -self.size % ALIGN
            if gap:
                self.pieces.append(bytes(gap))
            place = self.places[id(constant)] = self.size + gap
            self.pieces.append(constant.data)
            self.size = place + len(constant.data)
        return place


@dataclass
class Program:
    """The lowered graph: ONNX operators, what goes in and out, and its constants by name."""

    nodes: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    constants: dict[str, Constant]
    opsets: dict[str, int]
    functions: list[dict[str, Any]]
    ir_version: int
    name: str = ""


def _tensor_desc(dtype: int, shape: Sequence[int] | None, format: int) -> dict[str, Any]:  # noqa: A002
    layout = _FORMATS.get(format, "ND")
    dims = list(shape) if shape is not None else [-2]
    return {
        "dtype": to_ge(dtype) if to_ge(dtype) < 32 else 0,
        "shape": {"dim": dims},
        "layout": layout,
        "attr": {"origin_format": {"s": layout.encode()}, "origin_shape": {"list": {"i": dims, "val_type": 2}}},
        "size": _size(dtype, shape),
        "device_type": "NPU",
    }


def _size(dtype: int, shape: Sequence[int] | None) -> int:
    if shape is None or any(dim < 0 for dim in shape):
        return 0
    count = 1
    for dim in shape:
        count *= dim
    return count * element_size(dtype) if dtype < 1000 else count


def _op_def(node: Node, index: int, weights: Weights, places: dict[int, tuple[Node, int]]) -> dict[str, Any]:
    inputs, sources, numbers, const, descs = [], [], [], [], []
    for value in node.inputs:
        if value is None:
            inputs.append("")
            const.append(False)
            descs.append(_tensor_desc(-1, (), 2))
            continue
        producer, port = places[id(value)]
        inputs.append(f"{producer.name}:{port}")
        sources.append(producer.name)
        numbers.append(port)
        const.append(producer.type == "Const")
        descs.append(_value_desc(value))
    attrs = {key: attr for key, value in node.attrs.items() if (attr := to_attr(value)) is not None}
    if node.data is not None:
        attrs["value"] = {"t": _const_def(node.data, weights)}
    if node.origin and node.origin != [node.name]:
        attrs["_datadump_original_op_names"] = _list_attr(list(node.origin)) or {}
    return {
        "name": node.name,
        "type": node.type,
        "input": inputs,
        "attr": attrs,
        "id": index,
        "input_name": node.input_names[: len(inputs)],
        "src_name": sources,
        "src_index": numbers,
        "is_input_const": const,
        "input_desc": descs,
        "output_desc": [_value_desc(value) for value in node.outputs],
    }


def _value_desc(value: Value) -> dict[str, Any]:
    return _tensor_desc(value.dtype, value.shape, value.format)


def _const_def(constant: Constant, weights: Weights) -> dict[str, Any]:
    desc = _tensor_desc(constant.dtype, constant.shape, 2)
    if constant.dtype != 13:
        desc["data_offset"] = weights.add(constant)
        desc["weight_size"] = len(constant.data)
    return {"desc": desc}


def graph_def(graph: Graph, weights: Weights) -> dict[str, Any]:
    """The graph as a GraphDef, with a NetOutput at its end."""
    places = {id(value): (node, port) for node in graph.nodes for port, value in enumerate(node.outputs)}
    result = [_op_def(node, index, weights, places) for index, node in enumerate(graph.nodes)]
    end = Node("Node_Output", "NetOutput", [output.value for output in graph.outputs])
    result.append(_op_def(end, len(result), weights, places))
    names = [f"{places[id(output.value)][0].name}:{places[id(output.value)][1]}" for output in graph.outputs]
    return {"name": graph.name or "graph", "input": [node.name for node in graph.inputs], "output": names, "op": result}


def _program_bytes(program: Program, weights: Weights) -> bytes:
    small, large = [], []
    for name, constant in program.constants.items():
        if constant.dtype == 13:
            small.append({**decode(TENSOR, constant.data), "name": name})
        elif len(constant.data) <= INLINE_BYTES or constant.dtype >= 1000:
            small.append({"dims": list(constant.shape), "data_type": to_onnx(constant.dtype), "name": name, "raw_data": constant.data})
        else:
            place = weights.add(constant)
            large.append([name, to_onnx(constant.dtype), list(constant.shape), place, len(constant.data)])
    graph = encode(GRAPH, {"node": program.nodes, "name": program.name or "graph", "initializer": small, "input": program.inputs, "output": program.outputs})
    opsets = [{"domain": domain, "version": version} for domain, version in program.opsets.items()]
    model = encode(RAW_MODEL, {"ir_version": program.ir_version, "producer_name": "softnpu", "opset_import": opsets, "functions": program.functions})
    table = json.dumps(large, separators=(",", ":")).encode()
    return struct.pack("<QQQ", len(model), len(graph), len(table)) + model + graph + table


def kernel_item(name: str, binary: bytes) -> list[bytes]:
    """One item of the kernel store."""
    word = name.encode()
    return [struct.pack("<III", KERNEL_MAGIC, len(word), len(binary)), word, binary]


def write(
    path: Path, graph: Graph, programs: Sequence[Program], info: ModelInfo, attrs: dict[str, Any], platform: str, weights_file: Path | None = None
) -> None:
    """Write a model; with `weights_file` the weights go there and the `.om` only names their places."""
    weights = Weights()
    definition = graph_def(graph, weights)
    kernels = [part for index, one in enumerate(programs) for part in kernel_item(f"{PROGRAM}.{index}", _program_bytes(one, weights))]
    info.weight_size = weights.size
    sizes = {"memory_size": info.memory_size, "weight_size": info.weight_size, "om_info_list": [weights.size, sum(map(len, kernels)), 0, 0, 0]}
    more = {"softnpu": json.dumps(_runtime_dict(info), separators=(",", ":"))}
    if weights_file is not None:
        more["softnpu_weight_file"] = weights_file.name
    model = {
        "name": graph.name or path.stem,
        "version": 1,
        "graph": [definition],
        "attr": {key: attr for key, value in {**attrs, **sizes, **more}.items() if (attr := to_attr(value)) is not None},
    }
    dynamic = any(one.ranges for one in info.inputs)
    inside: list[bytes | memoryview] = weights.pieces
    if weights_file is not None:
        container.write_pieces(weights_file, weights.pieces)
        inside = []
    partitions = [
        (container.MODEL_INOUT_INFO, [_inout_bytes(info)]),
        (container.MODEL_DEF, [encode(MODEL, model)]),
        (container.WEIGHTS_DATA, inside),
        (container.TBE_KERNELS, kernels),
        (container.CUST_AICPU_KERNELS, []),
        (container.TASK_INFO, []),
    ]
    container.write(path, graph.name or path.stem, platform, dynamic, partitions)


def _runtime_dict(info: ModelInfo) -> dict[str, Any]:
    return {
        "gear_kind": info.gear_kind,
        "gear_outputs": info.gear_outputs,
        "gear_inputs": info.gear_inputs,
        "extra": info.extra,
    }


# ---- the description of inputs and outputs ---------------------------------------------------------------------------


def _record(kind: int, value: bytes) -> bytes:
    return struct.pack("<II", kind, len(value)) + value


def _inout_bytes(info: ModelInfo) -> bytes:
    parts = [_record(0, _descriptions(info.inputs)), _record(1, _descriptions(info.outputs))]
    if info.gear_kind == "batch":
        flat = [gear[0] for gear in info.gears]
        parts.append(_record(2, struct.pack(f"<I{len(flat)}Q", len(flat), *flat)))
    elif info.gear_kind:
        lengths = [len(gear) for gear in info.gears]
        flat = [one for gear in info.gears for one in gear]
        value = struct.pack(f"<I{len(lengths)}I{len(flat)}Q", len(lengths), *lengths, *flat)
        parts.append(_record(3 if info.gear_kind == "hw" else 4, value))
    if info.gear_outputs:
        words = [json.dumps(one, separators=(",", ":")).encode() for one in info.gear_outputs]
        parts.append(_record(5, struct.pack(f"<I{len(words)}I", len(words), *map(len, words)) + b"".join(words)))
    return b"".join(parts)


def _descriptions(tensors: list[TensorInfo]) -> bytes:
    parts = [struct.pack("<I", len(tensors))]
    for one in tensors:
        name = one.name.encode()
        pairs = [bound for pair in one.ranges for bound in pair]
        parts.append(struct.pack("<QiiIIII", one.size, one.format, one.dtype, len(name), 8 * len(one.dims), 8 * len(one.dims_v2), 8 * len(pairs)))
        parts.append(name)
        parts.append(struct.pack(f"<{len(one.dims) + len(one.dims_v2) + len(pairs)}q", *one.dims, *one.dims_v2, *pairs))
    return b"".join(parts)


class _Cursor:
    """Reads the records one after the other and never past their end."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        if size > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += size
        return found

    def bytes(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, length: int, letter: str = "q") -> list[int]:
        width = struct.calcsize("<" + letter)
        if length % width or length > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        return list(self.take(f"{length // width}{letter}"))


def _read_descriptions(data: memoryview) -> list[TensorInfo]:
    cursor = _Cursor(data)
    (count,) = cursor.take("I")
    if count > len(data) // 32:
        raise damaged(f"it claims {count} inputs or outputs")
    found = []
    for _ in range(count):
        size, form, dtype, name_length, dims_length, v2_length, range_length = cursor.take("QiiIIII")
        name = str(cursor.bytes(name_length), "utf-8", "replace")
        dims, v2, flat = cursor.numbers(dims_length), cursor.numbers(v2_length), cursor.numbers(range_length)
        pairs = list(zip(flat[::2], flat[1::2], strict=False))
        if any(dim < -2 for dim in dims):
            raise damaged(f"the dims {dims} of {name!r} are impossible")
        found.append(TensorInfo(name, dtype, form, dims, size, v2, pairs, name))
    return found


def damaged(what: str) -> NpuError:
    """The error of a file that is not what it should be."""
    return NpuError(codes.GE_EXEC_MODEL_DATA_SIZE_INVALID, f"the model data are damaged: {what}", "convert the model again with atc")


# ---- reading ---------------------------------------------------------------------------------------------------------


class Om:
    """An open `.om`. Parts are read when asked for."""

    def __init__(self, data: bytes | bytearray | memoryview, path: Path | None = None) -> None:
        self.data = memoryview(data).cast("B")
        self.path = path
        self.header, self.partitions = container.read(self.data)

    @classmethod
    def open(cls, path: Path) -> Om:
        """Map a file; a missing, unreadable or empty one is code 145002."""
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is empty"
            raise NpuError(codes.GE_EXEC_MODEL_PATH_INVALID, f"the model file {str(path)!r} cannot be read: {reason}", "check the path; atc writes <output>.om") from error
        return cls(memoryview(mapped), path)

    @staticmethod
    def map(path: Path) -> memoryview:
        """The bytes of a weight file beside a model."""
        try:
            with open(path, "rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise NpuError(
                codes.GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED, f"the weight file {str(path)!r} of the model cannot be read", "keep the folder weight/ beside the .om"
            ) from error

    def head(self) -> dict[str, Any]:
        """Name and attributes of the model, without its graph."""
        try:
            found = decode(HEAD, self.partitions[container.MODEL_DEF])
        except WireError as error:
            raise damaged(f"the model partition cannot be read ({error})") from error
        return {"name": found.get("name", ""), **{key: attr_value(one) for key, one in found.get("attr", {}).items()}}

    def model_def(self) -> dict[str, Any]:
        """The whole ModelDef, decoded."""
        try:
            return decode(MODEL, self.partitions[container.MODEL_DEF])
        except WireError as error:
            raise damaged(f"the model partition cannot be read ({error})") from error

    def info(self) -> ModelInfo:
        """Inputs, outputs, gears and what running needs."""
        if container.MODEL_INOUT_INFO not in self.partitions:
            raise damaged("there is no description of inputs and outputs; it was not written by this atc")
        cursor = _Cursor(self.partitions[container.MODEL_INOUT_INFO])
        info = ModelInfo([], [])
        while cursor.at < len(cursor.data):
            kind, length = cursor.take("II")
            self._take_record(info, kind, cursor.bytes(length))
        head = self.head()
        info.memory_size, info.weight_size = _count(head.get("memory_size")), _count(head.get("weight_size"))
        self._take_runtime(info, head.get("softnpu", "{}"))
        return info

    def _take_record(self, info: ModelInfo, kind: int, data: memoryview) -> None:
        cursor = _Cursor(data)
        if kind == 0:
            info.inputs = _read_descriptions(data)
        elif kind == 1:
            info.outputs = _read_descriptions(data)
        elif kind == 2:
            (count,) = cursor.take("I")
            info.gear_kind = "batch"
            info.gears = [[one] for one in cursor.numbers(8 * count, "Q")]
        elif kind in (3, 4):
            (count,) = cursor.take("I")
            info.gear_kind = "hw" if kind == 3 else "dims"
            info.gears = [cursor.numbers(8 * one, "Q") for one in cursor.numbers(4 * count, "I")]

    def _take_runtime(self, info: ModelInfo, text: Any) -> None:
        try:
            found = json.loads(text)
            info.gear_outputs = [[[int(dim) for dim in dims] for dims in gear] for gear in found.get("gear_outputs", [])]
            info.gear_inputs = [[int(dim) for dim in gear] for gear in found.get("gear_inputs", [])]
            extra = found.get("extra", {})
            if not isinstance(extra, dict):
                raise TypeError("extra is no object")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(f"its run-time attribute cannot be read ({error})") from error
        info.extra = extra
        if any(len(gear) != len(info.outputs) for gear in info.gear_outputs) or (info.gear_outputs and len(info.gear_outputs) != len(info.gears)):
            raise damaged("the shapes of the gears do not fit the outputs")
        if len(info.gear_inputs) not in (0, len(info.gears)):
            raise damaged("the shapes of the gears do not fit the inputs")

    def kernels(self) -> dict[str, memoryview]:
        """The items of the kernel store."""
        data = self.partitions.get(container.TBE_KERNELS, memoryview(b""))
        found: dict[str, memoryview] = {}
        at = 0
        while at < len(data):
            if len(data) - at < 12:
                raise damaged("the kernel store is cut off")
            magic, name_length, size = struct.unpack_from("<III", data, at)
            at += 12
            if magic != KERNEL_MAGIC or name_length + size > len(data) - at:
                raise damaged("the kernel store is cut off")
            name = str(data[at : at + name_length], "utf-8", "replace")
            found[name] = data[at + name_length : at + name_length + size]
            at += name_length + size
        return found

    def weights(self) -> memoryview:
        """The weight partition."""
        return self.partitions.get(container.WEIGHTS_DATA, memoryview(b""))

    def weights_offset(self) -> int:
        """Where the weight partition begins in the file."""
        first = self.partitions.get(container.WEIGHTS_DATA)
        if first is None or not len(first):
            return 0
        return _address(first) - _address(self.data)

    def weights_place(self) -> tuple[Path, str, int]:
        """The file that holds the weights of a model that was read from one: folder, name, offset in it."""
        assert self.path is not None
        name = self.head().get("softnpu_weight_file", "")
        path = self.path.resolve()
        if not name:
            return path.parent, path.name, self.weights_offset()
        if "/" in name or name in (".", ".."):
            raise damaged(f"it names the impossible weight file {name!r}")
        return path.parent / "weight", name, 0

    def all_weights(self) -> memoryview:
        """The weights, wherever they are."""
        name = self.head().get("softnpu_weight_file", "")
        if not name:
            return self.weights()
        if self.path is None:
            raise NpuError(
                codes.GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED,
                f"the weights of the model are in the file {name!r} beside it, which a model in memory cannot find",
                "load it with acl.mdl.load_from_file",
            )
        folder, name, _ = self.weights_place()
        return Om.map(folder / name)

    def programs(self) -> list[StoredProgram]:
        """What the engines run."""
        kernels = self.kernels()
        found = []
        while (data := kernels.get(f"{PROGRAM}.{len(found)}")) is not None:
            found.append(_stored(data))
        if not found:
            raise NpuError(
                codes.GE_EXEC_LOAD_KERNEL_PARTITION_FAILED,
                "the model holds no program that this machine can run",
                "models that a real atc compiled hold NPU kernels; convert the original model again with softnpu's atc",
            )
        return found


def _stored(data: memoryview) -> StoredProgram:
    if len(data) < 24:
        raise damaged("its program is cut off")
    sizes = struct.unpack_from("<QQQ", data)
    if sum(sizes) != len(data) - 24:
        raise damaged("its program is cut off")
    model, graph = 24 + sizes[0], 24 + sizes[0] + sizes[1]
    try:
        table = json.loads(bytes(data[graph:]))
        rows = [(str(name), int(dtype), [int(dim) for dim in dims], int(place), int(size)) for name, dtype, dims, place, size in table]
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"the table of weights cannot be read ({error})") from error
    return StoredProgram(data[24:model], data[model:graph], rows)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _address(view: memoryview) -> int:
    import numpy as np

    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])


@dataclass
class StoredProgram:
    """A program as it stands in the file: ONNX messages, and the weights that lie outside of them."""

    model: memoryview  # ModelProto without its graph
    graph: memoryview  # GraphProto without its large weights
    weights: list[tuple[str, int, list[int], int, int]]  # name, ONNX type, dims, place, bytes

    def onnx(self, location: str, base: int) -> bytes:
        """The whole ModelProto, its large weights named as places of a file."""
        parts: list[bytes | memoryview] = [self.graph]
        for name, dtype, dims, place, size in self.weights:
            fields = [
                {"key": "location", "value": location},
                {"key": "offset", "value": str(base + place)},
                {"key": "length", "value": str(size)},
            ]
            message = encode(TENSOR, {"dims": dims, "data_type": dtype, "name": name, "external_data": fields, "data_location": 1})
            parts.append(_field(5, message))
        graph = b"".join(parts)
        return bytes(self.model) + _field(7, graph)

    def onnx_inline(self, weights: memoryview) -> bytes:
        """The whole ModelProto with its weights in it."""
        parts: list[bytes | memoryview] = [self.graph]
        for name, dtype, dims, place, size in self.weights:
            parts.append(_field(5, encode(TENSOR, {"dims": dims, "data_type": dtype, "name": name, "raw_data": weights[place : place + size]})))
        return bytes(self.model) + _field(7, b"".join(parts))


def _field(number: int, data: bytes) -> bytes:
    head = bytearray()
    for value in (number << 3 | 2, len(data)):
        while value > 0x7F:
            head.append(value & 0x7F | 0x80)
            value >>= 7
        head.append(value)
    return bytes(head) + data


def check_weights(rows: Iterable[tuple[str, int, list[int], int, int]], available: int) -> None:
    """Raise unless every weight lies inside the partition and has the size its dims say."""
    from softnpu.graph.onnx_def import tensor_bytes

    for name, dtype, dims, place, size in rows:
        try:
            wanted = tensor_bytes({"dims": dims, "data_type": dtype})
        except ValueError as error:
            raise damaged(f"the weight {name!r} is impossible: {error}") from error
        if wanted != size or place < 0 or place + size > available:
            raise damaged(f"the weight {name!r} of {size} bytes at {place} does not lie in the {available} bytes of weights")
