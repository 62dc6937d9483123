"""What every pass works with: one table of users that is kept right, and helpers for nodes that came from ONNX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from softnpu.base.dtypes import DType, numpy_name
from softnpu.compiler.lowering.lower import captures
from softnpu.graph.ir import Graph, Node, Source, Value
from softnpu.graph.onnx_def import attributes_of, make_attribute

Array = np.ndarray[Any, Any]
FLOATS = frozenset(
    {DType.FLOAT, DType.FLOAT16, DType.DOUBLE}
)  # float32, float16, double: the types whose constants NumPy can compute with


class Edit:
    """The changes of one pass to a graph. `finish` must be called at the end."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.users = graph.users()
        self.results = {id(output.value) for output in graph.outputs} | _named_in_bodies(graph)
        self.dead: set[int] = set()
        self._unsorted = False

    def nodes(self) -> list[Node]:
        """The nodes there are when the pass begins."""
        return list(self.graph.nodes)

    def gone(self, node: Node) -> bool:
        """Whether this pass has taken the node out already."""
        return id(node) in self.dead

    def inner(self, value: Value, *users: Node) -> bool:
        """Whether exactly these nodes take a value, each of them at one place, and neither a program nor a body sees it."""
        taken = self.users.get(value, ())
        return (
            id(value) not in self.results
            and len(taken) == len(users)
            and {id(taker) for taker in taken} == {id(user) for user in users}
        )

    def only_user(self, value: Value) -> Node | None:
        """The node that alone takes a value, at one place; None where there are others or a program sees it."""
        taken = self.users.get(value, ())
        return taken[0] if len(taken) == 1 and id(value) not in self.results else None

    def bypass(self, old: Value, new: Value) -> None:
        """Let everyone take `new` instead of `old`."""
        self.graph.replace(old, new, self.users)
        if id(old) in self.results:
            self.results.add(id(new))

    def drop(self, node: Node) -> None:
        """Take a node out whose outputs nobody takes any more."""
        self.dead.add(id(node))
        self._release(node, node.inputs)

    def _release(self, node: Node, values: Iterable[Value | None]) -> None:
        for value in values:
            if value is not None and value.const is None:  # nobody counts the users of a constant
                taken = self.users.get(value, [])
                if node in taken:
                    taken.remove(node)

    def constant(self, array: Array, wish: str) -> Value:
        """A new constant."""
        self._unsorted = True
        return self.graph.const(array, wish)

    def set_inputs(self, node: Node, inputs: Sequence[Value | None]) -> None:
        """Give a node other inputs."""
        self._release(node, node.inputs)
        node.inputs = list(inputs)
        for value in inputs:
            if value is not None:
                self.users.setdefault(value, []).append(node)

    def take_over(self, node: Node, last: Node) -> None:
        """Let a node make what `last`, which follows it, made, and take `last` out: its place stays, its output is the
        last one's."""
        self.drop(last)
        node.outputs = last.outputs
        for value in node.outputs:
            value.producer = node
        node.origin = list(dict.fromkeys([*origin(node), *origin(last)]))
        self._unsorted = True  # users of the old place may stand between the two

    def merge(self, chain: Sequence[Node], kind: str, attrs: dict[str, Any], first: Sequence[Value] = ()) -> Node:
        """Make one node out of several (all from ONNX, in topological order, the last one making the results); the inputs
        named in `first` come first, and what the chain takes besides follows."""
        last = chain[-1]
        inside = {id(value) for node in chain for value in node.outputs}
        taken = [value for node in chain for value in node.inputs if value is not None and id(value) not in inside]
        inputs = list(dict.fromkeys([*first, *taken]))
        operators = [op for node in chain for op in present_ops(node)]
        source = Source(operators, [value.name for value in inputs], [value.name for value in last.outputs])
        origins = list(dict.fromkeys(name for node in chain for name in origin(node)))
        for node in chain[:-1]:
            self.drop(node)
        self._release(last, last.inputs)
        last.inputs = []
        self.set_inputs(last, list(inputs))
        last.type, last.attrs, last.source, last.origin = kind, attrs, source, origins
        last.input_names = []
        return last

    def finish(self) -> None:
        """Carry the changes out."""
        if self.dead:
            self.graph.remove(self.dead)
        if self._unsorted:
            self.graph.sort()


def _named_in_bodies(graph: Graph) -> set[int]:
    """Values that a body inside an operator (If, Loop, Scan) takes by name: they must stay, as results must."""
    captured: set[int] = set()
    for node in graph.nodes:
        for op in node.source.ops if node.source is not None else ():
            if any("g" in attribute or "graphs" in attribute for attribute in op.get("attribute", ())):
                named = captures(op)
                captured |= {id(value) for value in node.inputs if value is not None and value.name in named}
    return captured


def origin(node: Node) -> list[str]:
    """The nodes of the source model that a node stands for."""
    return node.origin or [node.name]


def onnx_op(node: Node) -> dict[str, Any] | None:
    """The operator of a node that stands for exactly one of standard ONNX."""
    source = node.source
    if source is None or len(source.ops) != 1 or source.ops[0].get("domain", "") not in ("", "ai.onnx"):
        return None
    return source.ops[0]


def op_type_of(node: Node) -> str:
    """The ONNX type of a node that stands for one standard operator; "" for any other."""
    op = onnx_op(node)
    return "" if op is None else str(op.get("op_type", ""))


def attributes(node: Node) -> dict[str, Any]:
    """The ONNX attributes of a node that stands for one operator."""
    op = onnx_op(node)
    return {} if op is None else attributes_of(op)


def text(value: Any) -> str:
    """An attribute that is text."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else str(value)


def present_ops(node: Node) -> list[dict[str, Any]]:
    """The ONNX operators of a node with the names that its inputs and outputs have now."""
    source = node.source
    assert source is not None
    names = {old: value.name for old, value in zip(source.outputs, node.outputs, strict=True) if old}
    for old, fed in zip(source.inputs, node.inputs, strict=True):
        if old and fed is not None:
            names.setdefault(old, fed.name)
    return [
        {
            **op,
            "input": [names.get(tensor, tensor) for tensor in op.get("input", ())],
            "output": [names.get(tensor, tensor) for tensor in op.get("output", ())],
        }
        for op in source.ops
    ]


def rewrite(node: Node, op_type: str, changes: dict[str, Any] | None = None) -> None:
    """Let a node stand for one ONNX operator over the inputs and outputs it has now; a change of None takes an attribute out."""
    assert node.source is not None
    old = node.source.ops[0]
    changes = changes or {}
    kept = (
        [attribute for attribute in old.get("attribute", ()) if attribute.get("name") not in changes]
        if old.get("op_type") == op_type
        else []
    )
    inputs = [value.name if value is not None else "" for value in node.inputs]
    outputs = [value.name for value in node.outputs]
    op = {
        "input": inputs[: max((index + 1 for index, tensor in enumerate(inputs) if tensor), default=0)],
        "output": outputs,
        "name": node.name,
        "op_type": op_type,
        "attribute": kept + [make_attribute(key, value) for key, value in changes.items() if value is not None],
    }
    node.source = Source([op], inputs, outputs)


def array_of(value: Value | None) -> Array | None:
    """The content of a constant, where NumPy knows its type."""
    constant = value.const if value is not None else None
    return constant.array() if constant is not None and numpy_name(constant.dtype) else None


def scalar_of(value: Value | None) -> float | None:
    """The number in a constant that holds one."""
    array = array_of(value)
    return float(array.ravel()[0]) if array is not None and array.size == 1 and array.dtype.kind in "fiu" else None


def near(value: Value | None, wanted: float, tolerance: float = 1e-3) -> bool:
    """Whether a value is a constant of about this number."""
    scalar = scalar_of(value)
    return scalar is not None and abs(scalar - wanted) <= tolerance * abs(wanted)


def producer(value: Value | None, *words: str) -> Node | None:
    """The node that makes a value, where it stands for one of these ONNX operators."""
    node = value.producer if value is not None else None
    return node if node is not None and op_type_of(node) in words else None


def other_input(node: Node, value: Value) -> Value | None:
    """Of a node with two inputs, the one beside `value`."""
    if len(node.inputs) != 2:
        return None
    first, second = node.inputs
    return second if first is value else first if second is value else None


def constant_input(node: Node) -> tuple[Value, Value] | None:
    """Of a node with two inputs of which one is a constant: (the other one, the constant)."""
    if len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if first is None or second is None or (first.const is None) == (second.const is None):
        return None
    return (first, second) if first.const is None else (second, first)
