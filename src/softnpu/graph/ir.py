"""The one graph form: nodes named by CANN operator type, values with dtype, format and shape.

Frontends write it, passes change it, `om.py` stores it. A value has one producer; what a graph takes from outside is the
output of a `Data` node, what it hands out stands in `Graph.outputs`. A node that came from ONNX keeps the operators it
stands for in `source`, so that the engines get exactly what the author of the model wrote.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softnpu.base.dtypes import TensorFormat, element_size, from_numpy, numpy_name

Shape = tuple[int, ...]  # -1 is a dim that is not known
ND = TensorFormat.ND
GIVEN = frozenset({"Data", "AippData", "Const"})  # what a graph starts from
NO_WORK = GIVEN | {"NetOutput"}  # nodes that compute nothing


@dataclass(eq=False, slots=True)
class Value:
    """A tensor of the graph. `shape` is None while not even the rank is known."""

    name: str
    dtype: int = -1
    shape: Shape | None = None
    format: int = ND
    producer: Node | None = field(default=None, repr=False)
    words: tuple[str, ...] = ()  # names of the unknown dims of an input: equal names are equal sizes
    ranges: tuple[tuple[int, int], ...] = ()  # of an input with a shape range: (low, high) per dim, high -1 unbounded

    @property
    def static(self) -> bool:
        """Whether every dim is known."""
        return self.shape is not None and all(dim >= 0 for dim in self.shape)

    def bytes(self) -> int:
        """Size in bytes; 0 while a dim is unknown."""
        if self.shape is None or not self.static:
            return 0
        return math.prod(self.shape) * element_size(self.dtype)

    @property
    def const(self) -> Constant | None:
        """The content, where the producer is a Const."""
        return self.producer.data if self.producer is not None and self.producer.type == "Const" else None


@dataclass(eq=False, slots=True)
class Constant:
    """The content of a Const: little-endian bytes as they stand in files, often a view of the model file."""

    dtype: int
    shape: Shape
    data: bytes | memoryview

    def array(self) -> np.ndarray[Any, Any]:
        """The content as a NumPy array (a view); raises for types that NumPy lacks."""
        name = numpy_name(self.dtype)
        if not name:
            raise TypeError(f"aclDataType {self.dtype} has no NumPy type")
        return np.frombuffer(self.data, dtype=name).reshape(self.shape)

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Constant:
        """A constant with the content of an array."""
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        return cls(from_numpy(array.dtype.name), array.shape, array.tobytes())


@dataclass(eq=False, slots=True)
class Source:
    """The ONNX operators a node stands for: NodeProto dictionaries (tables of `onnx_def`), with the names they use for the
    node's inputs and outputs, in the node's order. Values between them are theirs alone."""

    ops: list[dict[str, Any]]
    inputs: list[str]
    outputs: list[str]


@dataclass(eq=False, slots=True)
class Node:
    """An operator. `inputs` may hold None for an optional input that is absent."""

    name: str
    type: str
    inputs: list[Value | None] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    attrs: dict[str, Any] = field(
        default_factory=dict
    )  # CANN's attributes: bool, int, float, str, bytes, lists of them, Constant, Graph
    data: Constant | None = None  # of a Const
    source: Source | None = None
    origin: list[str] = field(default_factory=list)  # names of the nodes of the source model that it stands for
    input_names: list[str] = field(default_factory=list)  # CANN's names of the inputs, where known

    @property
    def output(self) -> Value:
        """The only or first output."""
        return self.outputs[0]


@dataclass(eq=False)
class Output:
    """A result of the graph: its value, and the name under which programs see it."""

    value: Value
    name: str


class Graph:
    """A graph in topological order (`verify` checks it)."""

    def __init__(self, name: str, opsets: dict[str, int] | None = None, framework: int = 5) -> None:
        self.name = name
        self.opsets = dict(opsets or {})  # of the ONNX operators in `source` and of those that lowering makes
        self.framework = framework
        self.functions: list[dict[str, Any]] = []  # ONNX functions that the source model defines itself
        self.tensors: dict[str, Value] = {}  # names of tensors in the source model, where values are called otherwise
        self.exact_casts = False  # roundings to lower types are meant, so no engine may leave them out
        self.repeated: list[str] = []  # names that the source model gave to several nodes
        self.nodes: list[Node] = []
        self.outputs: list[Output] = []
        self._names: set[str] = set()
        self._counter = 0

    # ---- building ----------------------------------------------------------------------------------------------------

    def unique(self, wish: str) -> str:
        """A name that no node or value has yet, the wish itself where it is free; the name is taken from now on."""
        name = wish
        while not name or name in self._names:
            self._counter += 1
            name = f"{wish}_{self._counter}"
        self._names.add(name)
        return name

    def reserve(self, names: Iterable[str]) -> None:
        """Names of the source model that nothing made later may take."""
        self._names.update(names)

    def add(self, node: Node, before: Node | None = None) -> Node:
        """Append a node, or put it before another."""
        for value in node.outputs:
            value.producer = node
        if before is None:
            self.nodes.append(node)
        else:
            self.nodes.insert(self.nodes.index(before), node)
        return node

    def op(self, type: str, inputs: list[Value | None], name: str = "", outputs: int = 1, **attrs: Any) -> Node:
        """Make a node with fresh output values and append it."""
        name = self.unique(name or type)
        values = [Value(name if outputs == 1 else self.unique(f"{name}_{i}")) for i in range(outputs)]
        return self.add(Node(name, type, list(inputs), values, dict(attrs)))

    def data_node(self, name: str, dtype: int, shape: Shape | None, format: int = ND) -> Node:
        """An input of the graph."""
        self.reserve([name])
        value = Value(name, dtype, shape, format)
        return self.add(Node(name, "Data", [], [value], {"index": len(self.inputs)}))

    def const(self, array: np.ndarray[Any, Any] | Constant, name: str = "const", before: Node | None = None) -> Value:
        """A constant."""
        data = array if isinstance(array, Constant) else Constant.of(array)
        name = self.unique(name)
        value = Value(name, data.dtype, data.shape)
        self.add(Node(name, "Const", [], [value], data=data), before)
        return value

    # ---- looking -----------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> list[Node]:
        """The Data nodes in the order of their index."""
        inputs = [node for node in self.nodes if node.type in ("Data", "AippData")]
        return sorted(inputs, key=lambda node: int(node.attrs.get("index", 0)))

    def values(self) -> Iterator[Value]:
        """Every value."""
        for node in self.nodes:
            yield from node.outputs

    def users(self) -> dict[Value, list[Node]]:
        """Which nodes take a value; computed anew with every call, so keep the answer while nothing changes."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    users.setdefault(value, []).append(node)
        return users

    def node(self, name: str) -> Node | None:
        """A node by its name."""
        return next((node for node in self.nodes if node.name == name), None)

    # ---- changing ----------------------------------------------------------------------------------------------------

    def replace(self, old: Value, new: Value, users: dict[Value, list[Node]] | None = None) -> None:
        """Let everything that takes `old` take `new` instead; keeps a given table of users right."""
        table = self.users() if users is None else users
        moved = table.pop(old, [])
        for node in moved:
            node.inputs = [new if value is old else value for value in node.inputs]
        table.setdefault(new, []).extend(moved)
        for output in self.outputs:
            if output.value is old:
                output.value = new

    def remove(self, dead: set[Node] | set[int]) -> None:
        """Take nodes out, given as nodes or as their ids; nobody may use their outputs any more."""
        ids = {id(node) if isinstance(node, Node) else node for node in dead}
        self.nodes = [node for node in self.nodes if id(node) not in ids]

    def sweep(self) -> int:
        """Remove nodes on which no output depends (inputs stay); returns how many."""
        needed: set[int] = set()
        stack = [output.value.producer for output in self.outputs]
        while stack:
            node = stack.pop()
            if node is None or id(node) in needed:
                continue
            needed.add(id(node))
            stack.extend(value.producer for value in node.inputs if value is not None)
        keep = [node for node in self.nodes if id(node) in needed or node.type in ("Data", "AippData")]
        removed = len(self.nodes) - len(keep)
        self.nodes = keep
        return removed

    def sort(self) -> None:
        """Bring the nodes into topological order, keeping the order they have where it is free; ValueError for a cycle."""
        position = {id(node): index for index, node in enumerate(self.nodes)}
        done: set[int] = set()
        open_: set[int] = set()  # nodes whose inputs are being looked at
        ordered: list[Node] = []
        for root in self.nodes:
            stack = [(root, False)]
            while stack:
                node, ready = stack.pop()
                if id(node) in done:
                    continue
                if ready:
                    done.add(id(node))
                    ordered.append(node)
                    continue
                if id(node) in open_:
                    raise ValueError(f"the graph has a cycle through {node.type} {node.name!r}")
                open_.add(id(node))
                stack.append((node, True))
                for value in reversed(node.inputs):
                    producer = value.producer if value is not None else None
                    if producer is not None and id(producer) in position and id(producer) not in done:
                        stack.append((producer, False))
        self.nodes = ordered

    def verify(self) -> None:
        """Raise ValueError when the graph is not what its readers rely on: unique names, producers before users."""
        names: set[str] = set()
        ready: set[int] = set()
        for node in self.nodes:
            if node.name in names:
                raise ValueError(f"two nodes are named {node.name!r}")
            names.add(node.name)
            for value in node.inputs:
                if value is not None and id(value) not in ready:
                    raise ValueError(f"{node.type} {node.name!r} takes {value.name!r} before it is made")
            for value in node.outputs:
                if value.producer is not node:
                    raise ValueError(f"{value.name!r} has another producer than {node.name!r}")
                ready.add(id(value))
        for output in self.outputs:
            if id(output.value) not in ready:
                raise ValueError(f"the output {output.name!r} is made by no node")
