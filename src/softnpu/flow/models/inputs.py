"""The inputs of a model file before it is compiled, and the same model with inputs of other types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softnpu.base.dtypes import to_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.files import map_file
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.frontends.tensorflow.links import PLACEHOLDERS
from softnpu.compiler.frontends.tensorflow.proto import GRAPH, dtype_of, shape_of
from softnpu.flow import codes
from softnpu.flow.errors import DfException
from softnpu.graph.onnx_def import EXTERNAL, MODEL
from softnpu.graph.wire import WireError, decode, encode

TENSORFLOW, ONNX = 1, 2
_TENSORFLOW_TYPES = {
    0: 1,
    11: 2,
    3: 3,
    4: 4,
    6: 5,
    2: 6,
    9: 9,
    12: 10,
    27: 14,
    7: 17,
    1: 19,
    8: 22,
    10: 23,
}  # by aclDataType


@dataclass(frozen=True)
class Input:
    """Name, aclDataType and dims (-1 open, None where not even the rank is known)."""

    name: str
    dtype: int
    shape: tuple[int, ...] | None


def inputs_of(framework: int, path: Path) -> list[Input]:
    """The inputs in the order of the file."""
    if framework == TENSORFLOW:
        inputs = []
        for node in _placeholders(_tensorflow(path)):
            attrs = node.get("attr", {})
            shape = shape_of(attrs.get("shape", {}).get("shape", {"unknown_rank": True}))
            inputs.append(Input(node["name"], dtype_of(attrs.get("dtype", {}).get("type", 0)), shape))
        return inputs
    graph, _ = read(path)
    return [Input(value.name, value.output.dtype, value.output.shape) for value in graph.inputs]


def retyped(framework: int, path: Path, types: Mapping[str, int], folder: Path) -> Path:
    """The model with these types of inputs: the file itself where they are so already, else a copy in `folder`.

    Only inputs are changed: what is computed from them follows, and constants that no longer fit are the compiler's error.
    """
    wrong = {
        each.name: types[each.name]
        for each in inputs_of(framework, path)
        if types.get(each.name, each.dtype) != each.dtype
    }
    if not wrong:
        return path
    return _retype_tensorflow(path, wrong, folder) if framework == TENSORFLOW else _retype_onnx(path, wrong, folder)


def _tensorflow(path: Path) -> dict[str, Any]:
    try:
        return decode(GRAPH, map_file(path))
    except (WireError, RecursionError) as problem:
        raise AtcError(
            "E10041", f"Failed to load the model [{path}]: it is no frozen TensorFlow graph ({problem})"
        ) from problem


def _placeholders(model: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [node for node in model.get("node", ()) if node.get("op") in PLACEHOLDERS]


def _retype_tensorflow(path: Path, types: Mapping[str, int], folder: Path) -> Path:
    model = _tensorflow(path)
    for node in _placeholders(model):
        if node["name"] in types:
            node.setdefault("attr", {})["dtype"] = {"type": _number(_TENSORFLOW_TYPES, types[node["name"]], path)}
    copy = folder / path.name
    copy.write_bytes(encode(GRAPH, model))
    return copy


def _retype_onnx(path: Path, types: Mapping[str, int], folder: Path) -> Path:
    model = decode(MODEL, map_file(path))
    graph = model["graph"]
    if any(weight.get("data_location") == EXTERNAL for weight in graph.get("initializer", ())):
        raise DfException(
            f"The inputs of {path} cannot get the types of inputs_tensor_desc, because its weights lie in another file; "
            "save the model as one file."
        )
    for value in graph.get("input", ()):
        if value["name"] in types:
            value["type"]["tensor_type"]["elem_type"] = to_onnx(types[value["name"]])
    graph.pop("value_info", None)
    for value in graph.get("output", ()):  # what comes out follows from what goes in
        value.pop("type", None)
    copy = folder / path.name
    copy.write_bytes(encode(MODEL, model))
    return copy


def _number(table: Mapping[int, int], dtype: int, path: Path) -> int:
    if dtype not in table:
        raise DfException(f"TensorFlow has no data type {dtype} for an input of {path}.", codes.DATATYPE_INVALID)
    return table[dtype]
