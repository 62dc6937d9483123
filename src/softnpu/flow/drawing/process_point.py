"""What every process point is, and what a graph is that one of them may hold."""

from __future__ import annotations

from softnpu.flow.drawing import naming
from softnpu.flow.errors import DfException
from softnpu.flow.plan import Function, Plan

MAX_NAME = 128


class ProcessPoint:
    """What all kinds share: a name, and perhaps a file with settings."""

    _makes_a_node = True  # a nested graph does not: it is attached to a function

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"


class Plannable:
    """A graph as a process point holds it; FlowGraph is one."""

    name: str
    started: bool

    def plan(self, nested: bool = False) -> Plan:
        """The graph as engines take it."""
        raise NotImplementedError
