"""What the makers of layers work with: a layer with its bottoms and blobs, and the net that takes the nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from softnpu.base.dtypes import DType, TensorFormat
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import infer_node
from softnpu.graph.ir import ND, Constant, Graph, Node, Shape, Value

NCHW = TensorFormat.NCHW
FLOAT = DType.FLOAT


def bad(layer: str, what: str, todo: str) -> AtcError:
    """A parameter of a layer that cannot be used."""
    return AtcError("E14001", f"The layer [{layer}] {what}", "a parameter of the layer in the prototxt is wrong", todo)


@dataclass
class Layer:
    """A layer of the prototxt."""

    name: str
    type: str
    bottoms: list[Value]
    raw: dict[str, Any]
    blobs: list[Constant] | None  # None where the weights do not name the layer

    def param(self, message: str) -> dict[str, Any]:
        """A parameter message; empty where it is absent."""
        params: dict[str, Any] = self.raw.get(message, {})
        return params

    @property
    def tops(self) -> int:
        """How many results the net expects."""
        return len(self.raw.get("top", ()))

    def need(self, message: str, field: str) -> Any:
        """A field that must be there."""
        value = self.param(message).get(field)
        if value is None:
            raise bad(self.name, f"lacks [{field}] in [{message}]", f"add {field} to {message} in the prototxt")
        return value

    def count(self, low: int, high: int | None = None) -> None:
        """Check the number of bottoms."""
        many, high = len(self.bottoms), low if high is None else high
        if not low <= many <= high:
            wanted = str(low) if low == high else f"{low} to {high}"
            raise bad(
                self.name,
                f"of type [{self.type}] has {many} bottoms instead of {wanted}",
                "correct its bottoms in the prototxt",
            )

    def shape(self, index: int = 0) -> Shape:
        """The shape of a bottom."""
        shape = self.bottoms[index].shape
        if shape is None:
            raise bad(
                self.name, f"has a bottom [{self.bottoms[index].name}] of unknown shape", "give the inputs fixed shapes"
            )
        return shape

    def axis(self, axis: int, index: int = 0) -> int:
        """An axis counted from the front."""
        rank = len(self.shape(index))
        if not -rank <= axis < rank:
            raise bad(
                self.name, f"has the axis {axis} on a bottom of {rank} dims", f"use an axis in [{-rank}, {rank - 1}]"
            )
        return axis % rank

    def channels(self) -> int:
        """The second dim of the first bottom (1 where there is none)."""
        return self.shape()[1] if len(self.shape()) > 1 else 1


class Net:
    """The graph under construction."""

    def __init__(self, graph: Graph, layers: Iterable[str] = ()) -> None:
        self.graph = graph
        self._free = set(layers)  # names of layers that no node has yet; nothing else may take them
        graph.reserve(self._free)

    def data(self, name: str, shape: Shape) -> Value:
        """An input of the graph."""
        self._free.discard(name)
        return self.graph.data_node(name, FLOAT, shape, NCHW if len(shape) == 4 else ND).output

    def node(
        self, layer: Layer, kind: str, inputs: list[Value | None] | list[Value], outputs: int = 1, **attrs: Any
    ) -> Node:
        """A node of a CANN type, named after its layer, with its shapes found."""
        name = layer.name if layer.name in self._free else self.graph.unique(layer.name or kind)
        self._free.discard(name)
        values = [Value(name if outputs == 1 else self.graph.unique(f"{name}_{index}")) for index in range(outputs)]
        node = self.graph.add(Node(name, kind, list(inputs), values, attrs, origin=[layer.name]))
        infer_node(self.graph, node)
        for value in values:
            value.format = NCHW if value.shape is not None and len(value.shape) == 4 else ND
        return node

    def result(self, layer: Layer, kind: str, inputs: list[Value | None] | list[Value], **attrs: Any) -> list[Value]:
        """The result of a node with one output."""
        return [self.node(layer, kind, inputs, **attrs).output]

    def blob(self, layer: Layer, index: int, shape: Shape, role: str) -> Value:
        """A blob of the weights as a constant of a shape that follows from the prototxt."""
        if layer.blobs is None:
            raise AtcError(
                "E11029",
                f"The layer [{layer.name}] is not in the weight file",
                "prototxt and caffemodel do not belong together",
                "check the values of --model and --weight",
            )
        if index >= len(layer.blobs):
            raise AtcError(
                "E11033",
                f"The layer [{layer.name}] has {len(layer.blobs)} blobs in the weight file; [{role}] would be number {index + 1}",
                "prototxt and caffemodel do not belong together",
                "check the values of --model and --weight, and bias_term of the layer",
            )
        blob = layer.blobs[index]
        if math.prod(blob.shape) != math.prod(shape):
            raise AtcError(
                "E11033",
                f"The blob [{role}] of the layer [{layer.name}] is {list(blob.shape)} in the weight file; the prototxt says {list(shape)}",
                "prototxt and caffemodel do not belong together",
                "check the values of --model and --weight",
            )
        value = self.graph.const(Constant(blob.dtype, shape, blob.data), f"{layer.name}_{role}")
        value.format = NCHW if len(shape) == 4 else ND
        return value
