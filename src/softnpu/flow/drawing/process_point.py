"""What every process point is, and what a graph is that one of them may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from softnpu.flow.drawing import naming
from softnpu.flow.errors import DfException
from softnpu.flow.models.source import ModelSource
from softnpu.flow.plan import BodySpec, Function, Plan

MAX_NAME = 128
FUNCTION, MODEL = "function", "model"  # kinds, as pictures call them


@dataclass(frozen=True)
class NodePorts:
    """The node around a process point, as far as its body is concerned."""

    node: str
    input_num: int
    output_num: int
    input_map: Mapping[int, int]  # process point's index → the node's
    output_map: Mapping[int, int]

    def whole(self) -> Function:
        """One function that takes all inputs and gives all outputs."""
        return Function(self.node, tuple(range(self.input_num)), tuple(range(self.output_num)))

    def indexes(self, what: str, count: int) -> list[int]:
        """For each index of the process point the node's; what `map_…` did not say goes by order."""
        told = self.input_map if what == "input" else self.output_map
        limit = self.input_num if what == "input" else self.output_num
        if count != limit or any(index >= count for index in told):
            raise DfException(
                f"Node {self.node} has {limit} {what}s, its process point {count}"
                + (f"; map_{what} names {max(told)}" if told and max(told) >= count else "")
                + ". The numbers have to be the same."
            )
        rest = iter([index for index in range(limit) if index not in told.values()])
        try:
            indexes = [told[index] if index in told else next(rest) for index in range(count)]
        except StopIteration:
            indexes = []
        if sorted(indexes) != list(range(limit)):
            raise DfException(
                f"Node {self.node}: map_{what} gives {what}s of the process point to {told}; each has to be there once."
            )
        return indexes

    def inverse(self, what: str) -> tuple[int, ...]:
        """For each index of the node the process point's; empty when they are the same."""
        indexes = self.indexes(what, self.input_num if what == "input" else self.output_num)
        inverse = tuple(indexes.index(index) for index in range(len(indexes)))
        return () if inverse == tuple(range(len(indexes))) else inverse


@dataclass(frozen=True)
class NodeBody:
    """What a process point makes of its node."""

    functions: tuple[Function, ...]  # with the node's indexes
    body: BodySpec
    resources: dict[str, int] = field(default_factory=dict)
    visible_device: bool = False


class ProcessPoint:
    """What all kinds share: a name, and perhaps a file with settings. A kind says below what its node does."""

    _makes_a_node = True  # a nested graph does not: it is attached to a function
    _kind = FUNCTION  # what pictures call it

    def __init__(self, compile_config_path: str | None, name: str | None) -> None:
        if compile_config_path is not None and not isinstance(compile_config_path, str):
            raise TypeError(f"compile_config_path is a str, not {type(compile_config_path).__name__}")
        wanted = type(self).__name__ if name is None else naming.check(name, "process point")
        if len(wanted) > MAX_NAME:
            raise DfException(
                f"The name of a process point has at most {MAX_NAME} characters: {wanted!r} has {len(wanted)}."
            )
        self.compile_config_path = compile_config_path
        self.name = naming.others.make(wanted)

    @property
    def _functions(self) -> tuple[Function, ...]:
        """Its functions, with the process point's own indexes."""
        return ()

    def _models(self, options: Mapping[str, str], ports: NodePorts | None = None) -> dict[str, ModelSource]:
        """Model files to compile for it, by keys of its own; without `ports` it is the closure of a function."""
        return {}

    def _body(self, ports: NodePorts, models: Mapping[str, BodySpec]) -> NodeBody | None:
        """What its node does, with what became of `_models`; None if nothing."""
        return None

    def _small_print(self, node: str) -> list[str]:
        """What pictures say of it, below the name of its node."""
        return []

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


class Plannable:
    """A graph as a process point holds it; FlowGraph is one."""

    name: str
    started: bool

    def plan(self, nested: bool = False) -> Plan:
        """The graph as engines take it."""
        raise NotImplementedError
