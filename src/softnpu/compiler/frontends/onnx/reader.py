"""ONNX files: from ModelProto to the graph form.

Weights stay views of the mapped file; nothing of them is copied until the `.om` is written. Every node keeps the ONNX
operator it came from (`Node.source`); its CANN name and attributes come from `table.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends import check_rank
from softnpu.compiler.frontends.files import map_file
from softnpu.compiler.frontends.onnx import schema
from softnpu.compiler.frontends.onnx.table import translate
from softnpu.compiler.frontends.onnx.weights import Weights, dense
from softnpu.compiler.lowering.lower import captures
from softnpu.graph.ir import Constant, Graph, Node, Output, Source, Value
from softnpu.graph.onnx_def import (
    MODEL,
    attribute_value,
    value_info_type,
)
from softnpu.graph.wire import WireError, decode

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


class _Reader:
    def __init__(self, path: Path, model: dict[str, Any]) -> None:
        self.path = path
        self.model = model
        self.values: dict[str, Value] = {}
        self.notes: list[str] = []
        self.weights = Weights(path)

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
        result = Graph(graph.get("name") or self.path.stem, self._opsets(graph), framework=5)
        result.functions = [
            {**function, "node": [self.weights.whole(op) for op in function.get("node", ())]}
            for function in self.model.get("functions", ())
        ]
        result.reserve(_tensor_names(graph))
        self.graph = result
        self.own = {(function.get("domain", ""), function.get("name", "")) for function in result.functions}
        self._inputs_and_weights(graph)
        self._nodes(graph)
        self._outputs(graph)
        try:
            result.sort()
        except ValueError as error:
            raise AtcError(
                "E10041",
                f"Failed to load the model [{self.path}]: {error}",
                "a node takes what follows from its own result",
                "export the model again",
            ) from error
        return result, self.notes

    def _opsets(self, graph: dict[str, Any]) -> dict[str, int]:
        versions: dict[str, int] = {}
        for entry in self.model.get("opset_import", ()):
            domain = entry.get("domain", "")
            domain = "" if domain == "ai.onnx" else domain
            version = entry.get("version", 0)
            if version not in _VERSIONS or (not domain and not version):
                raise AtcError(
                    "E10041",
                    f"The model imports the impossible version {version} of the operator set [{domain or 'ai.onnx'}]",
                    "the file is damaged",
                    "export the model again",
                )
            if versions.setdefault(domain, version) != version:
                raise AtcError(
                    "E16005",
                    f"The model imports more than one version ({versions[domain]} and {version}) of the operator set [{domain or 'ai.onnx'}]",
                    "the exporter wrote a faulty file",
                    "export the model again",
                )
        if "" not in versions and any(not node.get("domain") for node in graph.get("node", ())):
            raise AtcError(
                "E19999",
                "The model does not say which ONNX opset it uses (opset_import is missing)",
                "the file is damaged or older than ONNX 1.0",
                "export it again",
            )
        opset = versions.setdefault("", 20)
        if opset not in DOCUMENTED:
            self.notes.append(f"the model uses ONNX opset {opset}; atc documents 11 to 18, hardware may refuse it")
        return versions

    # ---- inputs and weights ------------------------------------------------------------------------------------------

    def _inputs_and_weights(self, graph: dict[str, Any]) -> None:
        weights = {tensor.get("name", ""): tensor for tensor in graph.get("initializer", ())}
        sparse = {tensor.get("values", {}).get("name", ""): tensor for tensor in graph.get("sparse_initializer", ())}
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
            self._add_const(name, self.weights.constant(tensor, name))
        for name, tensor in sparse.items():
            self._add_const(name, dense(tensor, name))

    def _add_const(self, name: str, constant: Constant) -> None:
        value = Value(name, constant.dtype, constant.shape)
        self.values[name] = value
        self.graph.add(Node(name, "Const", [], [value], data=constant))

    # ---- nodes -------------------------------------------------------------------------------------------------------

    def _nodes(self, graph: dict[str, Any]) -> None:
        nodes = graph.get("node", [])
        taken = {node.get("name", "") for node in nodes}
        seen = set(self.values)
        used = taken | seen
        for index, op in enumerate(nodes):
            op_type = op.get("op_type", "")
            name = op.get("name") or _free(f"{op_type}_{index}", used)
            if name in seen:
                self.graph.repeated.append(name)
                name = _free(f"{name}_{index}", used)
            seen.add(name)
            used.add(name)
            self._node(self.weights.whole(op), name, op_type)
        for node in self.graph.nodes:  # inputs may be named before they are made
            for value in node.inputs:
                if value is not None and value.producer is None:
                    raise AtcError(
                        "E16001",
                        f"The node [{node.name}] takes [{value.name}], which no node, input or weight of the model gives",
                        "the file is faulty or was cut by hand",
                        "export the model again",
                    )

    def _value(self, name: str) -> Value:
        value = self.values.get(name)
        if value is None:
            value = self.values[name] = Value(name)
        return value

    def _node(self, op: dict[str, Any], name: str, op_type: str) -> None:
        if op_type == "Constant" and not op.get("domain") and self._constant_node(op, name):
            return
        explicit = list(op.get("input", ()))
        captured = sorted(captures(op))
        names = explicit + [tensor for tensor in captured if tensor not in explicit]
        inputs = [self._value(tensor) if tensor else None for tensor in names]
        outputs = [self._output(tensor or self.graph.unique(f"{name}/unused"), name) for tensor in op.get("output", ())]
        if not outputs:
            raise AtcError(
                "E16001",
                f"The node [{name}] of type [{op_type}] has no output",
                "the file is faulty",
                "export the model again",
            )
        domain = op.get("domain", "")
        domain = "" if domain == "ai.onnx" else domain
        if not domain:
            schema.check(op, name, self.graph.opsets[""])
        attrs = {attribute.get("name", ""): attribute_value(attribute) for attribute in op.get("attribute", ())}
        if domain and domain not in self.graph.opsets and (domain, op_type) not in self.own:
            raise AtcError(
                "E19999",
                f"The node [{name}] is of the domain [{domain}], for which the model imports no operator set",
                "opset_import of the model lacks the domain",
                "export the model again",
            )
        named = translate(
            op_type, domain, self.graph.opsets.get(domain, 0), attrs, inputs[: len(explicit)], len(outputs)
        )
        source = Source(
            [{**op, "name": name}],
            names,
            [value.name if tensor else "" for tensor, value in zip(op.get("output", ()), outputs, strict=True)],
        )
        kind = "Constant" if named.type == "Const" else named.type  # a Const holds its content, this one computes it
        node = Node(
            name, kind, inputs, outputs, named.attrs, source=source, origin=[name], input_names=named.input_names
        )
        self.graph.add(node)

    def _output(self, name: str, node: str) -> Value:
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
        form, value = attribute.get("name", ""), attribute_value(attribute)
        if form == "value" and isinstance(value, dict):
            constant = self.weights.constant(value, name)
        elif form in ("value_float", "value_floats"):
            constant = Constant.of(np.array(value, np.float32))
        elif form in ("value_int", "value_ints"):
            constant = Constant.of(np.array(value, np.int64))
        else:
            return False
        output = self._output(op["output"][0], name)
        output.dtype, output.shape = constant.dtype, constant.shape
        self.graph.add(Node(name, "Const", [], [output], data=constant))
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
        for entry in graph.get(key, ()):
            yield entry.get("name", "")


def _words(info: dict[str, Any]) -> tuple[str, ...]:
    dims = info.get("type", {}).get("tensor_type", {}).get("shape", {}).get("dim", ())
    return tuple(dim.get("dim_param", "") for dim in dims)


def _free(wish: str, taken: set[str]) -> str:
    name, number = wish, 0
    while name in taken:
        number += 1
        name = f"{wish}_{number}"
    return name
