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
        return sorted((one for one in self.operators if one.core), key=lambda one: one.start)

    def steps(self) -> list[tuple[int, Operator]]:
        """The ranges that `step` made, with their numbers."""
        return [
            (int(one.name.removeprefix(_STEP)), one)
            for one in self.operators
            if one.name.startswith(_STEP) and one.name.removeprefix(_STEP).isdigit()
        ]

    def stack(self, operator: Operator) -> list[str]:
        """The Python calls around an operator, the nearest first."""
        found, at = [], operator.parent
        while at >= 0:
            one = self.operators[at]
            if one.kind == "python_function":
                found.append(one.name)
            at = one.parent
        return found

    def innermost(self) -> Iterator[Operator]:
        """Operators that call no others; for a device the task is the innermost, whatever the host does for it."""
        inside: set[int] = set()
        for place, one in enumerate(self.operators):
            if one.parent in inside or (one.parent >= 0 and self.operators[one.parent].core):
                inside.add(place)
            elif one.kind == "cpu_op" and (one.core or one.leaf):
                yield one

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
            found = Recording(**json.loads(next(file)))
            for line in file:
                row = json.loads(line)
                if "address" in row:
                    found.memory.append(Memory(**row))
                else:
                    found.operators.append(Operator(**row))
        return found


def read(results: Any, start: int, end: int) -> Recording:
    """torch's results as a recording."""
    more = {one.correlation_id(): one for one in results.events()}
    found = Recording(start, end)
    taken: list[tuple[Any, int]] = []
    waiting = [(one, -1) for one in reversed(results.experimental_event_tree())]
    while waiting:
        event, parent = waiting.pop()
        if event.typed[0].name == "Allocation":
            taken.append((event, parent))
            continue
        place = len(found.operators)
        found.operators.append(_operator(event, parent, more.get(event.correlation_id)))
        if parent >= 0 and found.operators[place].kind == "cpu_op":
            found.operators[parent].leaf = False
        waiting.extend((child, place) for child in reversed(event.children))
    _find_tasks(found.operators)
    found.memory = [_memory(event, found, parent) for event, parent in taken if event.extra_fields.device.type == "npu"]
    return found


def _operator(event: Any, parent: int, more: Any) -> Operator:
    made = Operator(event.name, event.start_time_ns, event.end_time_ns, event.start_tid, "python_function", parent)
    if event.typed[0].name != "TorchOp":
        return made
    extra = event.extra_fields
    made.kind = "user_annotation" if extra.scope.name == "USER_SCOPE" else "cpu_op"
    made.sequence, made.backward = (extra.sequence_number, extra.scope.name == "BACKWARD_FUNCTION")
    if more is not None:
        made.flops, made.forward_thread = more.flops(), more.fwd_thread_id()
    tensors = list(_tensors(extra.inputs))
    made.shapes = [list(one.sizes) for one in tensors]
    made.dtypes = [str(one.dtype).removeprefix("torch.") for one in tensors]
    _place(made, tensors)
    return made


def _tensors(inputs: Any) -> Iterator[Any]:
    for one in inputs:
        if isinstance(one, list | tuple):
            yield from _tensors(one)
        elif hasattr(one, "sizes"):
            yield one


def _place(made: Operator, tensors: list[Any]) -> None:
    """The device, where there is one and the operator computes."""
    here = [one.device for one in tensors if one.device.type == "npu"]
    if not here or not _tasks.computes(made.name):
        return
    word = made.name.rpartition("::")[2]
    crosses = word in ("copy_", "_copy_from", "_to_copy") and any(one.device.type == "cpu" for one in tensors)
    made.device = here[0].index or 0
    made.core = _tasks.core_of(made.name, crosses)
    if crosses and made.shapes:
        made.size = tensors[0].dtype.itemsize
        for extent in made.shapes[0]:
            made.size *= extent


def _find_tasks(operators: list[Operator]) -> None:
    """Only the innermost of nested operators with a tensor on npu is the task; children come after their parents."""
    for one in reversed(operators):
        at = one.parent
        while one.core and at >= 0:
            operators[at].core = ""
            at = operators[at].parent


def _memory(event: Any, found: Recording, parent: int) -> Memory:
    """A block; its operator is the task around it, or the nearest operator where there is none."""
    names: list[str] = []
    while parent >= 0:
        one = found.operators[parent]
        if one.kind == "cpu_op":
            names.insert(0 if one.core else len(names), one.name)
        parent = one.parent
    extra = event.extra_fields
    totals = (extra.alloc_size, extra.total_allocated, extra.total_reserved)
    return Memory(event.start_time_ns, extra.ptr, *totals, extra.device.index or 0, names[0] if names else "")
