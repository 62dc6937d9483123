"""What ran between two moments: torch's profiler, whose operators also become the tasks of the devices.

Work is over when a call returns, so a task has the times of the innermost operator with a tensor on npu.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch_npu.profiler import _tasks

_STEP = "ProfilerStep#"


@dataclass
class Operator:
    """One call on the host. `core` says which part of a chip the call is for, "" when it only calls others."""

    name: str
    start: int  # nanoseconds since 1970
    end: int
    thread: int
    kind: str  # cpu_op, python_function, user_annotation
    parent: int = -1
    sequence: int = -1
    backward: bool = False
    shapes: list[list[int]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    flops: int = 0
    forward_thread: int = 0
    core: str = ""
    device: int = 0
    size: int = 0
    leaf: bool = True

    @property
    def duration(self) -> int:
        """In nanoseconds."""
        return self.end - self.start


@dataclass
class Memory:
    """A block that was taken (a positive size) or given back, and what all blocks were then."""

    time: int
    address: int
    size: int
    allocated: int
    reserved: int
    device: int
    operator: str


@dataclass
class Recording:
    """All that was seen."""

    start: int
    end: int
    operators: list[Operator] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)

    def tasks(self) -> list[Operator]:
        """Work of the devices in the order of time."""
        return sorted((operator for operator in self.operators if operator.core), key=lambda operator: operator.start)

    def steps(self) -> list[tuple[int, Operator]]:
        """The ranges that `step` made, with their numbers."""
        return [
            (int(operator.name.removeprefix(_STEP)), operator)
            for operator in self.operators
            if operator.name.startswith(_STEP) and operator.name.removeprefix(_STEP).isdigit()
        ]

    def stack(self, operator: Operator) -> list[str]:
        """The Python calls around an operator, the nearest first."""
        names, at = [], operator.parent
        while at >= 0:
            caller = self.operators[at]
            if caller.kind == "python_function":
                names.append(caller.name)
            at = caller.parent
        return names

    def innermost(self) -> Iterator[Operator]:
        """Operators that call no others; for a device the task is the innermost, whatever the host does for it."""
        inside: set[int] = set()
        for index, operator in enumerate(self.operators):
            if operator.parent in inside or (operator.parent >= 0 and self.operators[operator.parent].core):
                inside.add(index)
            elif operator.kind == "cpu_op" and (operator.core or operator.leaf):
                yield operator

    def save(self, path: Path) -> None:
        """As lines of JSON; nobody reads half of it."""
        part = path.with_name(f".{path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            file.write(json.dumps({"start": self.start, "end": self.end}) + "\n")
            for row in itertools.chain[Operator | Memory](self.operators, self.memory):
                file.write(json.dumps(asdict(row)) + "\n")
        part.replace(path)

    @staticmethod
    def load(path: Path) -> Recording:
        """What `save` wrote."""
        with path.open(encoding="utf-8") as file:
            recording = Recording(**json.loads(next(file)))
            for line in file:
                row = json.loads(line)
                if "address" in row:
                    recording.memory.append(Memory(**row))
                else:
                    recording.operators.append(Operator(**row))
        return recording


def read(results: Any, start: int, end: int) -> Recording:
    """torch's results as a recording."""
    more = {event.correlation_id(): event for event in results.events()}
    recording = Recording(start, end)
    taken: list[tuple[Any, int]] = []
    waiting = [(event, -1) for event in reversed(results.experimental_event_tree())]
    while waiting:
        event, parent = waiting.pop()
        if event.typed[0].name == "Allocation":
            taken.append((event, parent))
            continue
        index = len(recording.operators)
        recording.operators.append(_operator(event, parent, more.get(event.correlation_id)))
        if parent >= 0 and recording.operators[index].kind == "cpu_op":
            recording.operators[parent].leaf = False
        waiting.extend((child, index) for child in reversed(event.children))
    _find_tasks(recording.operators)
    recording.memory = [
        _memory(event, recording, parent) for event, parent in taken if event.extra_fields.device.type == "npu"
    ]
    return recording


def _operator(event: Any, parent: int, more: Any) -> Operator:
    operator = Operator(event.name, event.start_time_ns, event.end_time_ns, event.start_tid, "python_function", parent)
    if event.typed[0].name != "TorchOp":
        return operator
    extra = event.extra_fields
    operator.kind = "user_annotation" if extra.scope.name == "USER_SCOPE" else "cpu_op"
    operator.sequence, operator.backward = (extra.sequence_number, extra.scope.name == "BACKWARD_FUNCTION")
    if more is not None:
        operator.flops, operator.forward_thread = more.flops(), more.fwd_thread_id()
    tensors = list(_tensors(extra.inputs))
    operator.shapes = [list(tensor.sizes) for tensor in tensors]
    operator.dtypes = [str(tensor.dtype).removeprefix("torch.") for tensor in tensors]
    _place(operator, tensors)
    return operator


def _tensors(inputs: Any) -> Iterator[Any]:
    for value in inputs:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        elif hasattr(value, "sizes"):
            yield value


def _place(operator: Operator, tensors: list[Any]) -> None:
    """The device, where there is one and the operator computes."""
    here = [tensor.device for tensor in tensors if tensor.device.type == "npu"]
    if not here or not _tasks.computes(operator.name):
        return
    short_name = operator.name.rpartition("::")[2]
    crosses = short_name in ("copy_", "_copy_from", "_to_copy") and any(
        tensor.device.type == "cpu" for tensor in tensors
    )
    operator.device = here[0].index or 0
    operator.core = _tasks.core_of(operator.name, crosses)
    if crosses and operator.shapes:
        operator.size = tensors[0].dtype.itemsize
        for extent in operator.shapes[0]:
            operator.size *= extent


def _find_tasks(operators: list[Operator]) -> None:
    """Only the innermost of nested operators with a tensor on npu is the task; children come after their parents."""
    for operator in reversed(operators):
        at = operator.parent
        while operator.core and at >= 0:
            operators[at].core = ""
            at = operators[at].parent


def _memory(event: Any, recording: Recording, parent: int) -> Memory:
    """A block; its operator is the task around it, or the nearest operator where there is none."""
    names: list[str] = []
    while parent >= 0:
        caller = recording.operators[parent]
        if caller.kind == "cpu_op":
            names.insert(0 if caller.core else len(names), caller.name)
        parent = caller.parent
    extra = event.extra_fields
    totals = (extra.alloc_size, extra.total_allocated, extra.total_reserved)
    return Memory(event.start_time_ns, extra.ptr, *totals, extra.device.index or 0, names[0] if names else "")
