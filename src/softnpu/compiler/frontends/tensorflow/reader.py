"""Frozen TensorFlow graphs: from GraphDef to the graph form.

Operators are visited sources first; each is made with its CANN name and attributes (`table.py`), its shape is found at once,
and what turns out to be constant is folded, since much of TensorFlow's shape arithmetic feeds operators that want constants.
Weights stay views of the mapped file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.files import map_file
from softnpu.compiler.frontends.tensorflow import links, table
from softnpu.compiler.frontends.tensorflow.call import Call
from softnpu.compiler.frontends.tensorflow.folding import Folding
from softnpu.compiler.frontends.tensorflow.proto import GRAPH, constant_of
from softnpu.compiler.lowering.infer import infer_node
from softnpu.graph.ir import ND, Constant, Graph, Node, Output, Shape, Value
from softnpu.graph.wire import WireError, decode
from softnpu.ops import NATIVE_OPSET

TENSORFLOW = 3
_FORMATS = {"NCHW": (0, 4), "NHWC": (1, 4), "NDHWC": (27, 5), "NCDHW": (30, 5)}  # aclFormat and rank
_OLD_PRODUCER = 24  # before, a placeholder without dims meant unknown dims
_MAX_RESULTS = 1 << 14
_NAMED = 20  # how many operators a message lists


def read(path: Path, name: str, input_format: str, shapes: dict[str, list[int]]) -> tuple[Graph, list[str]]:
    """The graph of a frozen GraphDef file, and what the user should be told about it.

    `shapes` gives dims by placeholder name, with or without ":0"; they win over those of the file."""
    data = map_file(path)
    try:
        model = decode(GRAPH, data)
    except (WireError, RecursionError) as error:
        raise AtcError(
            "E10041",
            f"Failed to load the model [{path}]: it is no frozen TensorFlow graph ({error})",
            "the file is damaged, of another framework, or a SavedModel",
            "freeze the model into one GraphDef file (.pb), and check --framework (3 is TensorFlow)",
        ) from error
    if not model.get("node"):
        raise AtcError(
            "E10041",
            f"Failed to load the model [{path}]: it has no operators",
            "the file is empty or of another kind",
            "freeze the model again",
        )
    return _Reader(model, name, input_format, shapes).read()


class _Reader:
    def __init__(self, model: dict[str, Any], name: str, input_format: str, shapes: dict[str, list[int]]) -> None:
        self.graph = Graph(name, {"": NATIVE_OPSET}, TENSORFLOW)
        self.nodes = links.by_name(model["node"])
        self.old = 0 < model.get("versions", {}).get("producer", 0) < _OLD_PRODUCER
        self.format = input_format or "NHWC"
        self.shapes = {key.removesuffix(":0"): dims for key, dims in shapes.items()}
        self.folding = Folding(self.graph)
        self.values: dict[str, list[Value]] = {}
        self.counts: dict[str, int] = {}
        self.notes: list[str] = []

    def read(self) -> tuple[Graph, list[str]]:
        """All of it."""
        self.graph.reserve(self.nodes)
        roots = links.leaves(self.nodes)
        order = links.ordered(self.nodes, roots)
        _refuse(self.nodes, order)
        self.counts = links.count_results(self.nodes, order)
        self._inputs()
        for name in order:
            if name not in self.values:
                self._visit(name)
        self._outputs(roots)
        self.graph.sweep()
        self.graph.verify()
        return self.graph, self.notes

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        """Data nodes for the placeholders, in the order of the file; one with a default is an input only if it is named."""
        for name, node in self.nodes.items():
            if node["op"] in links.PLACEHOLDERS or (node["op"] == "PlaceholderWithDefault" and name in self.shapes):
                self._input(name, node)
        missing = sorted(self.shapes.keys() - self.values.keys())
        if missing:
            raise AtcError(
                "E10016",
                f"The input [{missing[0]}] of --input_shape is not in the model",
                f"the inputs are {', '.join(f'[{node.name}]' for node in self.graph.inputs) or 'none'}",
                "name inputs of the model",
            )

    def _input(self, name: str, node: dict[str, Any]) -> None:
        call = Call(node, [], self._constant)
        dtype = call.attr("dtype", "type", None)
        shape = self._told_shape(name, self._placeholder_shape(call))
        form, rank = _FORMATS.get(self.format, (ND, -1))
        known = shape is not None and len(shape) == rank
        data = self.graph.data_node(name, dtype, shape, form if known else ND)
        data.origin.append(name)
        self.values[name] = [data.output]

    def _placeholder_shape(self, call: Call) -> Shape | None:
        shape = call.shape("shape")
        return None if shape == () and self.old else shape

    def _told_shape(self, name: str, shape: Shape | None) -> Shape | None:
        """The dims of the command line where they are given, otherwise those of the file."""
        if name not in self.shapes:
            return shape
        dims = tuple(self.shapes[name])
        if shape is not None and len(shape) != len(dims):
            raise AtcError(
                "E10049",
                f"--input_shape gives [{name}] {len(dims)} dims, the model has {len(shape)}",
                "the number of dims is fixed by the model",
                f"give {len(shape)} dims",
            )
        if shape is not None and any(dim >= 0 and dim != new for dim, new in zip(shape, dims, strict=True)):
            self.notes.append(f"The input [{name}] is {list(shape)} in the model and becomes {list(dims)}")
        return dims

    # ---- operators ---------------------------------------------------------------------------------------------------

    def _visit(self, name: str) -> None:
        node = self.nodes[name]
        op = node["op"]
        if op == "Const":
            self.values[name] = [self._const(name, node)]
            return
        inputs = [self._value(name, *reference) for reference in links.references(node)]
        if op in links.THROUGH or op == "PlaceholderWithDefault":
            self._pass(name, op, inputs)
        elif op == "ShapeN":
            self.values[name] = [
                self._make(name, "Shape", [tensor], {"dtype": 3}, index).output for index, tensor in enumerate(inputs)
            ]
        else:
            self._operator(name, node, inputs)

    def _value(self, user: str, source: str, index: int) -> Value:
        values = self.values[source]
        if index >= len(values):
            raise AtcError(
                "E12004",
                f"The operator [{user}] takes result {index} of [{source}], which has {len(values)}",
                "the graph is damaged",
            )
        return values[index]

    def _pass(self, name: str, op: str, inputs: list[Value]) -> None:
        """Operators that hand their input through; what came in stands for them from now on."""
        if not inputs:
            raise AtcError(
                "E12004", f"The operator {op} [{name}] has no input", "the graph is damaged", "export the model again"
            )
        self.values[name] = inputs if op == "IdentityN" else inputs[:1]
        for value in self.values[name]:
            if value.producer is not None:
                value.producer.origin.append(name)

    def _const(self, name: str, node: dict[str, Any]) -> Value:
        try:
            constant = constant_of(node.get("attr", {}).get("value", {}).get("tensor", {}))
        except ValueError as error:
            raise AtcError(
                "E14001", f"The constant [{name}] cannot be used: {error}", "", "export the model again"
            ) from error
        return self._add_const(name, constant)

    def _add_const(self, name: str, constant: Constant) -> Value:
        value = Value(name, constant.dtype, constant.shape)
        self.graph.add(Node(name, "Const", [], [value], data=constant, origin=[name]))
        return value

    def _constant(self, wish: str, array: np.ndarray[Any, Any]) -> Value:
        return self._add_const(self.graph.unique(wish), Constant.of(array))

    def _operator(self, name: str, node: dict[str, Any], inputs: list[Value]) -> None:
        row = table.find(node["op"])
        assert row is not None  # `_refuse` has looked
        call = Call(node, inputs, self._constant)
        if len(inputs) < row.needs:
            raise call.wrong(f"has {len(inputs)} inputs and needs {row.needs}")
        taken = row.inputs(call)
        if row.type in ("Reshape", "Conv2DBackpropInput"):
            taken = self._sized(name, row.type, taken)
            call.inputs = [value for value in taken if value is not None]
        count = row.outputs(call)
        if not 1 <= count <= _MAX_RESULTS:
            raise call.wrong(f"has {count} results")
        attrs = {**row.fixed, **row.attrs(call)}
        operator = self._make(name, row.type, taken, attrs, outputs=max(count, self.counts.get(name, 0)))
        self.values[name] = operator.outputs

    def _sized(self, name: str, kind: str, inputs: list[Value | None]) -> list[Value | None]:
        """Put a constant in the place of a size of which only one dim is unknown, or only those that do not count."""
        index = 1 if kind == "Reshape" else 0
        value = inputs[index]
        sizes = self.folding.partly(value) if value is not None and value.const is None else None
        if sizes is None or (kind == "Reshape" and (sizes == -1).sum() > 1):
            return inputs
        return [*inputs[:index], self._constant(f"{name}/size", sizes), *inputs[index + 1 :]]

    def _make(
        self,
        name: str,
        kind: str,
        inputs: list[Value | None] | list[Value],
        attrs: dict[str, Any],
        part: int = 0,
        outputs: int = 1,
    ) -> Node:
        """Add an operator, find its shapes, fold it where possible."""
        graph = self.graph
        own = name if not part else graph.unique(f"{name}:{part}")
        results = [Value(own if outputs == 1 else graph.unique(f"{name}:{index}")) for index in range(outputs)]
        node = graph.add(Node(own, kind, list(inputs), results, attrs, origin=[name]))
        try:
            infer_node(graph, node)
        except AtcError as error:
            if f"{name}" in error.message:
                raise
            raise AtcError(error.code, f"{kind} [{name}]: {error.message}", error.cause, error.solution) from error
        self.folding.settle(node)
        return node

    # ---- outputs -----------------------------------------------------------------------------------------------------

    def _outputs(self, roots: list[str]) -> None:
        for name in roots:
            row = table.find(self.nodes[name]["op"])
            values = self.values[name]
            wanted = row.outputs(Call(self.nodes[name], values, self._constant)) if row is not None else len(values)
            for index, value in enumerate(values[:wanted]):
                self.graph.outputs.append(Output(self._own(name, index, value), f"{name}:{index}"))
        if not self.graph.outputs:
            raise AtcError(
                "E12004",
                "The graph has no results",
                "every operator is taken by another, or nothing is computed",
                "freeze the graph again",
            )

    def _own(self, name: str, index: int, value: Value) -> Value:
        """A result that is an input or a constant gets an operator of its own."""
        if value.producer is None or value.producer.type not in ("Data", "Const"):
            return value
        wish = f"{name}:{index}" if index or value.name == name else name
        own = wish if wish == name and self.graph.node(name) is None else self.graph.unique(wish)
        node = self.graph.add(Node(own, "Identity", [value], [Value(own, value.dtype, value.shape)], {}, origin=[name]))
        return node.output


def _refuse(nodes: links.Nodes, order: list[str]) -> None:
    """Raise for what cannot be converted, naming all of it at once."""
    variables = [name for name in order if nodes[name]["op"] in links.VARIABLES]
    if variables:
        raise AtcError(
            "E12013",
            f"The graph holds variables: {_list(nodes, variables)}",
            "only frozen graphs can be converted",
            "freeze the graph (convert_variables_to_constants) and convert the result",
        )
    control = [name for name in order if nodes[name]["op"] in links.CONTROL]
    if control:
        raise AtcError(
            "E12009",
            f"The graph has V1 control flow: {_list(nodes, control)}",
            "branches and loops of this kind cannot be converted",
            "freeze the graph for inference only (constant switches removed), or turn it into functional form without loops",
        )
    known = links.THROUGH | links.PLACEHOLDERS | {"Const", "PlaceholderWithDefault", "ShapeN"}
    unknown = sorted(
        {
            nodes[name]["op"]
            for name in order
            if nodes[name]["op"] not in known and table.find(nodes[name]["op"]) is None
        }
    )
    if unknown:
        raise AtcError(
            "E10501",
            f"No parser is registered for the TensorFlow operators {', '.join(f'[{op}]' for op in unknown)}",
            "this version does not have these operators",
            "use others in the model, or export it to ONNX and convert with --framework=5",
        )


def _list(nodes: links.Nodes, names: list[str]) -> str:
    listed = [f"{nodes[name]['op']} [{name}]" for name in names[:_NAMED]]
    return ", ".join(listed) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
