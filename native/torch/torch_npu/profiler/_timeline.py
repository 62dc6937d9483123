"""Timelines: a JSON array of events that chrome://tracing, Perfetto and MindStudio Insight open.

Times are microseconds from the beginning of the profile, as numbers: with all the digits of a date Perfetto would lose some of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torch_npu.profiler import _tasks
from torch_npu.profiler._record import Operator, Recording
from torch_npu.profiler._steps import steps_of

Event = dict[str, Any]

_LOCAL = 4294967295
_CANN, _HARDWARE, _COMMUNICATION, _OVERLAP = (
    ("CANN", 7),
    ("Ascend Hardware", 14),
    ("Communication", 16),
    ("Overlap Analysis", 31),
)


class Timeline:
    """Events, and the names of their rows."""

    def __init__(self, base: int) -> None:
        self.base = base
        self.events: list[Event] = []
        self._named: set[tuple[int, Any]] = set()

    def layer(self, name: str, sort: int, label: str, device: int = 31) -> int:
        """The number of a layer, which is named at its first use. Host layers have device 31."""
        return self.process((os.getpid() << 10) | (sort << 5) | device, name, sort, label)

    def process(self, pid: int, name: str, sort: int, label: str) -> int:
        """The same with a number of the caller."""
        if (pid, None) not in self._named:
            self._named.add((pid, None))
            for kind, args in (
                ("process_name", {"name": name}),
                ("process_labels", {"labels": label}),
                ("process_sort_index", {"sort_index": sort}),
            ):
                self.events.append({"ph": "M", "name": kind, "pid": pid, "tid": 0, "args": args})
        return pid

    def row(self, pid: int, tid: int, name: str) -> int:
        """A named row of a layer."""
        if (pid, tid) not in self._named:
            self._named.add((pid, tid))
            self.events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}})
        return tid

    def at(self, nanoseconds: int) -> float:
        """A moment in microseconds from the beginning."""
        return round((nanoseconds - self.base) / 1e3, 3)

    def span(self, where: tuple[int, int], name: str, start: int, end: int, args: Event, **more: Any) -> None:
        """Something that took time."""
        made = {"ph": "X", "name": name, "pid": where[0], "tid": where[1], "ts": self.at(start)}
        self.events.append({**made, "dur": round((end - start) / 1e3, 3), "args": args, **more})

    def arrow(self, name: str, kind: str, number: Any, ends: Iterable[tuple[tuple[int, int], int]]) -> None:
        """A flow between two spans."""
        for phase, (where, start) in zip("sf", ends, strict=True):
            made: Event = {"ph": phase, "name": name, "cat": kind, "id": str(number), "pid": where[0], "tid": where[1]}
            self.events.append({**made, "ts": self.at(start), **({"bp": "e"} if phase == "f" else {})})

    def write(self, path: Path) -> None:
        """Into a file; nobody reads half of it."""
        part = path.with_name(f".{path.name}.part")
        part.write_text(json.dumps(self.events), encoding="utf-8")
        part.replace(path)


def _host_args(found: Recording, one: Operator) -> Event:
    args: Event = {}
    if one.sequence >= 0:
        args |= {"Sequence number": one.sequence, "Fwd thread id": one.forward_thread}
    if one.shapes:
        args["Input Dims"] = ";\r\n".join(str(shape) for shape in one.shapes)
        args["Input type"] = ";\r\n".join(one.dtypes)
    stack = found.stack(one)
    if stack:
        args["Call stack"] = ";\r\n".join(stack)
    if one.flops:
        args["flops"] = one.flops
    return args


def _host(made: Timeline, found: Recording) -> int:
    """What Python and torch did."""
    pid = made.process(os.getpid(), "Python", 0, "CPU")
    forward: dict[int, Operator] = {}
    for one in found.operators:
        tid = made.row(pid, one.thread, f"Thread {one.thread}")
        made.span((pid, tid), one.name, one.start, one.end, _host_args(found, one), cat=one.kind)
        if one.sequence < 0:
            continue
        if not one.backward:
            forward[one.sequence] = one  # the innermost of a nest comes last
        elif (source := forward.pop(one.sequence, None)) is not None:
            ends = (((pid, source.thread), source.start), ((pid, one.thread), one.start))
            made.arrow("fwdbwd", "fwdbwd", one.sequence, ends)
    return pid


def _task_args(number: int, one: Operator) -> Event:
    args: Event = {
        "Model Id": _LOCAL, "Task Type": one.core, "Physic Stream Id": 0, "Task Id": number, "Batch Id": 0,
        "Subtask Id": _LOCAL, "connection_id": number,
    }  # fmt: skip
    if one.core == _tasks.COPY:
        speed = round(one.size / one.duration, 3) if one.duration else 0.0
        args |= {"size(B)": one.size, "bandwidth(GB/s)": speed, "operation": "host and device"}
    return args


def _devices(made: Timeline, found: Recording, python: int) -> None:
    """What the devices did, and which call it came from."""
    for number, one in enumerate(found.tasks()):
        talks = one.core == _tasks.COMMUNICATION
        cann = made.layer(*_CANN, "CPU")
        layer = made.layer(*(_COMMUNICATION if talks else _HARDWARE), f"NPU {one.device}", one.device)
        call = (cann, made.row(cann, one.thread, f"Thread {one.thread}"))
        place = (layer, made.row(layer, 0, "Plane 0" if talks else "Stream 0"))
        level = "Communication" if talks else "Node"
        said = {"Thread Id": one.thread, "Mode": "launch", "level": level.lower(), "id": "launch"}
        made.span(call, f"{level}@launch", one.start, one.end, {**said, "item_id": one.name, "connection_id": number})
        made.span(place, one.name, one.start, one.end, _task_args(number, one))
        made.arrow("torch_to_npu", "async_npu", one.start, (((python, one.thread), one.start), (place, one.start)))
        made.arrow(f"HostToDevice{number}", "HostToDevice", number, ((call, one.start), (place, one.start)))


def _overlap(made: Timeline, found: Recording) -> None:
    names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    for step in steps_of(found):
        pid = made.layer(*_OVERLAP, f"NPU {step.device}", step.device)
        for row, (name, spans) in enumerate(
            zip(names, (step.computing, step.communication, step.alone, step.free), strict=True)
        ):
            for start, end in spans:
                made.span((pid, made.row(pid, row, name)), name, start, end, {})


def trace_view(found: Recording) -> Timeline:
    """All layers: Python, CANN, hardware, communication, overlap."""
    made = Timeline(found.start)
    python = _host(made, found)
    _devices(made, found, python)
    _overlap(made, found)
    return made


def simple(found: Recording) -> Timeline:
    """The innermost operators only (`use_npu_simple`)."""
    made = Timeline(found.start)
    pid = made.process(os.getpid(), "Python", 0, "CPU")
    for one in found.innermost():
        where = (pid, made.row(pid, one.thread, f"Thread {one.thread}"))
        made.span(where, one.name, one.start, one.end, _host_args(found, one), cat=one.kind)
    return made
