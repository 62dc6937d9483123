"""Shape arithmetic while reading: what is constant becomes a Const, what is partly known is remembered.

TensorFlow computes shapes in the graph (Shape → StridedSlice → Pack → Reshape). With fixed inputs all of it is constant. With
an unknown batch the rest must still be found; so such a value is computed twice, for two made-up sizes of each unknown dim:
elements that come out equal do not depend on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu import ops
from softnpu.base.dtypes import DType
from softnpu.compiler.lowering import evaluate
from softnpu.compiler.lowering.lower import Lowered, lower_node
from softnpu.graph.ir import Constant, Graph, Node, Value

Array = np.ndarray[Any, Any]
_MAX_BYTES = 1 << 20  # larger results are left to the passes
_MAX_ELEMENTS = 64  # of a value that is only partly known
_INTEGERS = frozenset({DType.INT32, DType.INT64})
_ARITHMETIC = frozenset(
    {
        "Add", "AddV2", "Cast", "Concat", "ConcatV2", "ExpandDims", "Gather", "GatherV2", "Mul", "Pack", "ReduceProd", "Reshape", "Slice",
        "Split", "SplitV", "Squeeze", "StridedSlice", "Sub", "Unpack",
    }
)  # polynomials of dims: equal for two sizes only when they do not depend on the size  # fmt: skip


class Folding:
    """Constants and partly known values of a graph that is being made."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.worlds: dict[int, tuple[Array, Array]] = {}
        self._keep: list[Value] = []  # ids in `worlds` must not be used again
        self._sizes = 0

    def settle(self, node: Node) -> None:
        """Turn a node whose shape is known into constants where that is possible."""
        if node.type in ("Shape", "Size", "Rank"):
            self._shape(node)
        elif node.inputs and all(value is None or value.const is not None for value in node.inputs):
            self._fold(node)
        elif node.type in _ARITHMETIC:
            self._guess(node)

    def partly(self, value: Value) -> Array | None:
        """The content with -1 where it is unknown; None where nothing is known."""
        if value.const is not None:
            return value.const.array()
        worlds = self.worlds.get(id(value))
        return None if worlds is None else np.where(worlds[0] == worlds[1], worlds[0], -1)

    # ---- shapes ------------------------------------------------------------------------------------------------------

    def _shape(self, node: Node) -> None:
        value = node.inputs[0]
        assert value is not None
        if value.shape is None:
            return
        kind = np.int64 if node.attrs.get("dtype", 3) == 9 else np.int32
        if node.type == "Rank":
            self._replace(node, [np.array(len(value.shape), np.int32)])
        elif value.static:
            dims = np.array(value.shape, kind)
            self._replace(node, [dims if node.type == "Shape" else dims.prod(dtype=kind)])
        elif node.type == "Shape":
            pair: tuple[list[int], list[int]] = [], []
            for dim in value.shape:
                self._sizes += dim < 0
                for world, size in zip(pair, (101 + 2 * self._sizes, 211 + 4 * self._sizes), strict=True):
                    world.append(dim if dim >= 0 else size)
            self._remember(node.output, np.array(pair[0], kind), np.array(pair[1], kind))

    # ---- values ------------------------------------------------------------------------------------------------------

    def _fold(self, node: Node) -> None:
        if (
            any(value.dtype == DType.STRING for value in node.outputs)
            or sum(value.bytes() for value in node.outputs) > _MAX_BYTES
        ):
            return
        if (
            not all(value.static for value in node.outputs)
            and sum(value.bytes() for value in node.inputs if value) > _MAX_BYTES
        ):
            return
        arrays = self._run(node, list(node.inputs))
        if arrays is not None and sum(array.nbytes for array in arrays) <= _MAX_BYTES:
            self._replace(node, arrays)

    def _guess(self, node: Node) -> None:
        """Compute a value of shape arithmetic in both worlds."""
        known = [value is None or value.const is not None or id(value) in self.worlds for value in node.inputs]
        if not all(known) or any(value.dtype not in _INTEGERS for value in node.outputs):
            return
        results = [self._run(node, [self._in_world(value, world) for value in node.inputs]) for world in (0, 1)]
        if results[0] is None or results[1] is None:
            return
        pairs = list(zip(results[0], results[1], strict=True))
        if any(first.shape != second.shape or first.size > _MAX_ELEMENTS for first, second in pairs):
            return
        if all((first == second).all() for first, second in pairs):
            self._replace(node, results[0])
            return
        for value, (first, second) in zip(node.outputs, pairs, strict=True):
            self._remember(value, first, second)

    def _in_world(self, value: Value | None, world: int) -> Value | None:
        if value is None or value.const is not None:
            return value
        constant = Constant.of(self.worlds[id(value)][world])
        constant_value = Value(f"{value.name}/world", constant.dtype, constant.shape)
        constant_value.producer = Node(constant_value.name, "Const", [], [constant_value], data=constant)
        return constant_value

    def _remember(self, value: Value, first: Array, second: Array) -> None:
        self.worlds[id(value)] = (first, second)
        self._keep.append(value)

    def _run(self, node: Node, inputs: list[Value | None]) -> list[Array] | None:
        """The results for constant inputs; None where the engine does not take them."""
        copy = Node(
            node.name, node.type, inputs, [Value(value.name, value.dtype) for value in node.outputs], node.attrs
        )
        into = Lowered()
        lower_node(copy, self.graph.opsets.get("", ops.NATIVE_OPSET), self.graph.unique, into)
        if into.host:
            return None
        try:
            return evaluate.fold(
                self.graph, into, {value.name: value for value in inputs if value is not None}.values(), copy.outputs
            )
        except Exception:  # not folding is no failure: what the engine refuses is named when the whole model is checked
            return None

    def _replace(self, node: Node, arrays: list[Array]) -> None:
        """Put Const nodes in the place of a node that was added last."""
        assert self.graph.nodes[-1] is node
        self.graph.nodes.pop()
        for value, array in zip(node.outputs, arrays, strict=True):
            constant = Constant.of(array)
            value.dtype, value.shape = constant.dtype, constant.shape
            self.graph.add(Node(value.name, "Const", [], [value], data=constant, origin=list(node.origin)))
