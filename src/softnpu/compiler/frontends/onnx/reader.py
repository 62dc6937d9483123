"""ONNX files: from ModelProto to the graph form.

Weights stay views of the mapped file; nothing of them is copied until the `.om` is written. Every node keeps the ONNX
operator it came from (`Node.source`); its CANN name and attributes come from `table.py`.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.dtypes import from_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends import check_rank
from softnpu.compiler.frontends.onnx import schema
from softnpu.compiler.frontends.onnx.table import translate
from softnpu.compiler.lowering.lower import captures
from softnpu.graph.ir import Constant, Graph, Node, Output, Source, Value
from softnpu.graph.onnx_def import (
    EXTERNAL,
    MODEL,
    TENSOR,
    attribute_value,
    tensor_bytes,
    tensor_constant,
    value_info_type,
)
from softnpu.graph.wire import WireError, decode, encode

DOCUMENTED = range(11, 19)  # opsets that atc's manual lists
_STRING = 8
_VERSIONS = range(1 << 31)


def read(path: Path) -> tuple[Graph, list[str]]:
    """The graph of an ONNX file, and what the user should be told about it."""
    data = map_file(path)
    try:
        model = decode(MODEL, data)
    except (WireError, RecursionError) as error:
        raise AtcError(
            "E10041",
            f"Failed to load the model [{path}]: it is no ONNX file ({error})",
            "the file is damaged or of another framework",
            "check the file and --framework (5 is ONNX)",
        ) from error
    return _Reader(path, model).read()


def map_file(path: Path) -> memoryview:
    """The bytes of a file, mapped."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            if size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise AtcError(
            "E10410",
            f"The file [{path}] cannot be opened: {error.strerror}",
            "the path is wrong or not readable",
            "check the path",
        ) from error


class _Reader:
    def __init__(self, path: Path, model: dict[str, Any]) -> None:
        self.path = path
        self.model = model
        self.values: dict[str, Value] = {}
        self.notes: list[str] = []
        self.files: dict[str, memoryview] = {}

    def read(self) -> tuple[Graph, list[str]]:
        """All of it."""
        graph = self.model.get("graph")
        if not graph or (not graph.get("node") and not graph.get("output")):
            raise AtcError(
                "E16004",
                f"The ONNX model [{self.path}] has no graph",
                "the file is empty or of another format",
                "export the model again",
            )
        made = Graph(graph.get("name") or self.path.stem, self._opsets(graph), framework=5)
        made.functions = [
            {**one, "node": [self._whole(op) for op in one.get("node", ())]} for one in self.model.get("functions", ())
        ]
        made.reserve(_tensor_names(graph))
        self.graph = made
        self.own = {(one.get("domain", ""), one.get("name", "")) for one in made.functions}
        self._inputs_and_weights(graph)
        self._nodes(graph)
        self._outputs(graph)
        try:
            made.sort()
        except ValueError as error:
            raise AtcError(
                "E10041",
                f"Failed to load the model [{self.path}]: {error}",
                "a node takes what follows from its own result",
                "export the model again",
            ) from error
        return made, self.notes

    def _opsets(self, graph: dict[str, Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for one in self.model.get("opset_import", ()):
            domain = one.get("domain", "")
            domain = "" if domain == "ai.onnx" else domain
            version = one.get("version", 0)
            if version not in _VERSIONS or (not domain and not version):
                raise AtcError(
                    "E10041",
                    f"The model imports the impossible version {version} of the operator set [{domain or 'ai.onnx'}]",
                    "the file is damaged",
                    "export the model again",
                )
            if found.setdefault(domain, version) != version:
                raise AtcError(
                    "E16005",
                    f"The model imports more than one version ({found[domain]} and {version}) of the operator set [{domain or 'ai.onnx'}]",
                    "the exporter wrote a faulty file",
                    "export the model again",
                )
        if "" not in found and any(not node.get("domain") for node in graph.get("node", ())):
            raise AtcError(
                "E19999",
                "The model does not say which ONNX opset it uses (opset_import is missing)",
                "the file is damaged or older than ONNX 1.0",
                "export it again",
            )
        opset = found.setdefault("", 20)
        if opset not in DOCUMENTED:
            self.notes.append(f"the model uses ONNX opset {opset}; atc documents 11 to 18, hardware may refuse it")
        return found

    # ---- inputs and weights ------------------------------------------------------------------------------------------

    def _inputs_and_weights(self, graph: dict[str, Any]) -> None:
        weights = {one.get("name", ""): one for one in graph.get("initializer", ())}
        sparse = {one.get("values", {}).get("name", ""): one for one in graph.get("sparse_initializer", ())}
        for info in graph.get("input", ()):
            name = info.get("name", "")
            if name in weights or name in sparse:
                continue
            if name in self.values:
                raise AtcError(
                    "E19009", f"The input [{name}] is there twice", "the file is faulty", "export the model again"
                )
            kind = value_info_type(info)
            if kind is None:
                raise AtcError(
                    "E10055",
                    f"The input [{name}] is a sequence, map or optional; only tensors can be inputs of an offline model",
                    "the model takes something else than tensors",
                    "change the model so that it takes tensors",
                )
            try:
                check_rank(kind[1] or ())
            except ValueError as error:
                raise AtcError(
                    "E10041",
                    f"The input [{name}] is impossible: {error}",
                    "the file is faulty",
                    "export the model again",
                ) from error
            value = self.graph.data_node(name, *kind).output
            value.words = _words(info)
            self.values[name] = value
        for name, tensor in weights.items():
            self._add_const(name, self._constant(tensor, name))
        for name, tensor in sparse.items():
            self._add_const(name, _dense(tensor, name))

    def _add_const(self, name: str, constant: Constant) -> None:
        value = Value(name, constant.dtype, constant.shape)
        self.values[name] = value
        self.graph.add(Node(name, "Const", [], [value], data=constant))

    def _constant(self, tensor: dict[str, Any], name: str) -> Constant:
        if tensor.get("data_type", 0) == _STRING:  # the message itself is the content
            return Constant(13, tuple(tensor.get("dims", ())), encode(TENSOR, {**tensor, "name": name}))
        try:
            check_rank(tensor.get("dims", ()))
            if tensor.get("data_location", 0) == EXTERNAL:
                return self._external(tensor, name)
            return tensor_constant(tensor)
        except (ValueError, OverflowError) as error:
            raise AtcError(
                "E10041",
                f"The weight [{name}] is damaged: {error}",
                "the file is cut off or faulty",
                "export the model again",
            ) from error

    def _external(self, tensor: dict[str, Any], name: str) -> Constant:
        fields = {one.get("key", ""): one.get("value", "") for one in tensor.get("external_data", ())}
        location = fields.get("location", "")
        folder = self.path.resolve().parent
        target = (folder / location).resolve()
        if not location or folder not in target.parents:
            raise ValueError(f"its external file {location!r} lies outside of the model's folder")
        size = tensor_bytes(tensor)
        assert size is not None
        offset, length = int(fields.get("offset") or 0), int(fields.get("length") or size)
        data = self.files.get(location)
        if data is None:
            data = self.files[location] = map_file(target)
        if length != size or not 0 <= offset <= len(data) - length:
            raise ValueError(
                f"{length} bytes at {offset} of {location} (which has {len(data)}) are not its {size} bytes"
            )
        return Constant(
            from_onnx(tensor.get("data_type", 0)), tuple(tensor.get("dims", ())), data[offset : offset + length]
        )

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def _nodes(self, graph: dict[str, Any]) -> None:
        nodes = graph.get("node", [])
        taken = {node.get("name", "") for node in nodes}
        seen = set(self.values)
        used = taken | seen
        for index, op in enumerate(nodes):
            word = op.get("op_type", "")
            name = op.get("name") or _free(f"{word}_{index}", used)
            if name in seen:
                self.graph.repeated.append(name)
                name = _free(f"{name}_{index}", used)
            seen.add(name)
            used.add(name)
            self._node(self._whole(op), name, word)
        for node in self.graph.nodes:  # inputs may be named before they are made
            for value in node.inputs:
                if value is not None and value.producer is None:
                    raise AtcError(
                        "E16001",
                        f"The node [{node.name}] takes [{value.name}], which no node, input or weight of the model gives",
                        "the file is faulty or was cut by hand",
                        "export the model again",
                    )

    def _whole(self, op: dict[str, Any]) -> dict[str, Any]:
        """An operator whose tensors, also those in bodies inside, hold their content themselves."""
        if not op.get("attribute"):
            return op
        return {**op, "attribute": [self._whole_attribute(one) for one in op["attribute"]]}

    def _whole_attribute(self, attribute: dict[str, Any]) -> dict[str, Any]:
        found = dict(attribute)
        if "t" in found:
            found["t"] = self._inside(found["t"])
        if "tensors" in found:
            found["tensors"] = [self._inside(one) for one in found["tensors"]]
        if "g" in found:
            found["g"] = self._whole_graph(found["g"])
        if "graphs" in found:
            found["graphs"] = [self._whole_graph(one) for one in found["graphs"]]
        return found

    def _whole_graph(self, graph: dict[str, Any]) -> dict[str, Any]:
        weights = [self._inside(one) for one in graph.get("initializer", ())]
        return {**graph, "node": [self._whole(one) for one in graph.get("node", ())], "initializer": weights}

    def _inside(self, tensor: dict[str, Any]) -> dict[str, Any]:
        if tensor.get("data_location", 0) != EXTERNAL:
            return tensor
        name = tensor.get("name", "")
        kept = {key: value for key, value in tensor.items() if key not in ("external_data", "data_location")}
        return {**kept, "raw_data": self._constant(tensor, name).data}

    def _value(self, name: str) -> Value:
        found = self.values.get(name)
        if found is None:
            found = self.values[name] = Value(name)
        return found

    def _node(self, op: dict[str, Any], name: str, word: str) -> None:
        if word == "Constant" and not op.get("domain") and self._constant_node(op, name):
            return
        explicit = list(op.get("input", ()))
        captured = sorted(captures(op))
        names = explicit + [one for one in captured if one not in explicit]
        inputs = [self._value(one) if one else None for one in names]
        outputs = [self._made(one or self.graph.unique(f"{name}/unused"), name) for one in op.get("output", ())]
        if not outputs:
            raise AtcError(
                "E16001",
                f"The node [{name}] of type [{word}] has no output",
                "the file is faulty",
                "export the model again",
            )
        domain = op.get("domain", "")
        domain = "" if domain == "ai.onnx" else domain
        if not domain:
            schema.check(op, name, self.graph.opsets[""])
        attrs = {one.get("name", ""): attribute_value(one) for one in op.get("attribute", ())}
        if domain and domain not in self.graph.opsets and (domain, word) not in self.own:
            raise AtcError(
                "E19999",
                f"The node [{name}] is of the domain [{domain}], for which the model imports no operator set",
                "opset_import of the model lacks the domain",
                "export the model again",
            )
        named = translate(word, domain, self.graph.opsets.get(domain, 0), attrs, inputs[: len(explicit)], len(outputs))
        source = Source(
            [{**op, "name": name}],
            names,
            [value.name if one else "" for one, value in zip(op.get("output", ()), outputs, strict=True)],
        )
        kind = "Constant" if named.type == "Const" else named.type  # a Const holds its content, this one computes it
        node = Node(
            name, kind, inputs, outputs, named.attrs, source=source, origin=[name], input_names=named.input_names
        )
        self.graph.add(node)

    def _made(self, name: str, node: str) -> Value:
        value = self._value(name)
        if value.producer is not None:
            raise AtcError(
                "E19009",
                f"The tensor [{name}] is made twice, the second time by [{node}]",
                "the file is faulty",
                "export the model again",
            )
        return value

    def _constant_node(self, op: dict[str, Any], name: str) -> bool:
        """A Constant node as a Const; False for kinds that stay an operator (strings, sparse)."""
        if not op.get("output") or not op.get("attribute"):
            return False
        attribute = op["attribute"][0]
        word, value = attribute.get("name", ""), attribute_value(attribute)
        if word == "value" and isinstance(value, dict):
            constant = self._constant(value, name)
        elif word in ("value_float", "value_floats"):
            constant = Constant.of(np.array(value, np.float32))
        elif word in ("value_int", "value_ints"):
            constant = Constant.of(np.array(value, np.int64))
        else:
            return False
        made = self._made(op["output"][0], name)
        made.dtype, made.shape = constant.dtype, constant.shape
        self.graph.add(Node(name, "Const", [], [made], data=constant))
        return True

    def _outputs(self, graph: dict[str, Any]) -> None:
        for info in graph.get("output", ()):
            name = info.get("name", "")
            value = self.values.get(name)
            if value is None or value.producer is None:
                raise AtcError(
                    "E16001",
                    f"The output [{name}] is made by no node of the model",
                    "the file is faulty",
                    "export the model again",
                )
            kind = value_info_type(info)
            if kind is None:
                raise AtcError(
                    "E10055",
                    f"The output [{name}] is a sequence, map or optional; only tensors can be outputs of an offline model",
                    "the model gives something else than tensors",
                    "change the model so that it gives tensors",
                )
            if value.dtype < 0:
                value.dtype = kind[0]
            if value.shape is None:
                value.shape = kind[1]
            producer = value.producer
            self.graph.outputs.append(Output(value, f"{producer.name}:{producer.outputs.index(value)}:{name}"))
        if not self.graph.outputs:
            raise AtcError("E16001", "The model has no output", "the file is faulty", "export the model again")


def _tensor_names(graph: dict[str, Any]) -> Iterator[str]:
    for node in graph.get("node", ()):
        yield from node.get("output", ())
        yield from node.get("input", ())
        yield node.get("name", "")
        for attribute in node.get("attribute", ()):
            for body in [attribute["g"]] if "g" in attribute else attribute.get("graphs", ()):
                yield from _tensor_names(body)
    for key in ("input", "initializer", "output"):
        for one in graph.get(key, ()):
            yield one.get("name", "")


def _words(info: dict[str, Any]) -> tuple[str, ...]:
    dims = info.get("type", {}).get("tensor_type", {}).get("shape", {}).get("dim", ())
    return tuple(dim.get("dim_param", "") for dim in dims)


def _free(wish: str, taken: set[str]) -> str:
    name, number = wish, 0
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    return name


def _dense(sparse: dict[str, Any], name: str) -> Constant:
    with contextlib.suppress(TypeError, ValueError, IndexError, OverflowError):
        values = tensor_constant(sparse.get("values", {})).array()
        indices = tensor_constant(sparse.get("indices", {})).array()
        dims = tuple(sparse.get("dims", ()))
        if 0 <= int(np.prod(dims)) <= 1 << 28:
            full = np.zeros(dims, values.dtype)
            if indices.ndim == 1:
                full.reshape(-1)[indices] = values
            else:
                full[tuple(indices.T)] = values
            return Constant.of(full)
    raise AtcError(
        "E10041",
        f"The sparse weight [{name}] is damaged or too large",
        "the file is faulty",
        "export the model with dense weights",
    )
