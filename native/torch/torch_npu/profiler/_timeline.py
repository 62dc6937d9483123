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
        event = {"ph": "X", "name": name, "pid": where[0], "tid": where[1], "ts": self.at(start)}
        self.events.append({**event, "dur": round((end - start) / 1e3, 3), "args": args, **more})

    def arrow(self, name: str, kind: str, number: Any, ends: Iterable[tuple[tuple[int, int], int]]) -> None:
        """A flow between two spans."""
        for phase, (where, start) in zip("sf", ends, strict=True):
            event: Event = {"ph": phase, "name": name, "cat": kind, "id": str(number), "pid": where[0], "tid": where[1]}
            self.events.append({**event, "ts": self.at(start), **({"bp": "e"} if phase == "f" else {})})

    def write(self, path: Path) -> None:
        """Into a file; nobody reads half of it."""
        part = path.with_name(f".{path.name}.part")
        part.write_text(json.dumps(self.events), encoding="utf-8")
        part.replace(path)


def _host_args(recording: Recording, operator: Operator) -> Event:
    args: Event = {}
    if operator.sequence >= 0:
        args |= {"Sequence number": operator.sequence, "Fwd thread id": operator.forward_thread}
    if operator.shapes:
        args["Input Dims"] = ";\r\n".join(str(shape) for shape in operator.shapes)
        args["Input type"] = ";\r\n".join(operator.dtypes)
    stack = recording.stack(operator)
    if stack:
        args["Call stack"] = ";\r\n".join(stack)
    if operator.flops:
        args["flops"] = operator.flops
    return args


def _host(timeline: Timeline, recording: Recording) -> int:
    """What Python and torch did."""
    pid = timeline.process(os.getpid(), "Python", 0, "CPU")
    forward: dict[int, Operator] = {}
    for operator in recording.operators:
        tid = timeline.row(pid, operator.thread, f"Thread {operator.thread}")
        timeline.span(
            (pid, tid), operator.name, operator.start, operator.end, _host_args(recording, operator), cat=operator.kind
        )
        if operator.sequence < 0:
            continue
        if not operator.backward:
            forward[operator.sequence] = operator  # the innermost of a nest comes last
        elif (source := forward.pop(operator.sequence, None)) is not None:
            ends = (((pid, source.thread), source.start), ((pid, operator.thread), operator.start))
            timeline.arrow("fwdbwd", "fwdbwd", operator.sequence, ends)
    return pid


def _task_args(number: int, operator: Operator) -> Event:
    args: Event = {
        "Model Id": _LOCAL, "Task Type": operator.core, "Physic Stream Id": 0, "Task Id": number, "Batch Id": 0,
        "Subtask Id": _LOCAL, "connection_id": number,
    }  # fmt: skip
    if operator.core == _tasks.COPY:
        speed = round(operator.size / operator.duration, 3) if operator.duration else 0.0
        args |= {"size(B)": operator.size, "bandwidth(GB/s)": speed, "operation": "host and device"}
    return args


def _devices(timeline: Timeline, recording: Recording, python: int) -> None:
    """What the devices did, and which call it came from."""
    for number, task in enumerate(recording.tasks()):
        talks = task.core == _tasks.COMMUNICATION
        cann = timeline.layer(*_CANN, "CPU")
        layer = timeline.layer(*(_COMMUNICATION if talks else _HARDWARE), f"NPU {task.device}", task.device)
        call = (cann, timeline.row(cann, task.thread, f"Thread {task.thread}"))
        row = (layer, timeline.row(layer, 0, "Plane 0" if talks else "Stream 0"))
        level = "Communication" if talks else "Node"
        said = {"Thread Id": task.thread, "Mode": "launch", "level": level.lower(), "id": "launch"}
        timeline.span(
            call, f"{level}@launch", task.start, task.end, {**said, "item_id": task.name, "connection_id": number}
        )
        timeline.span(row, task.name, task.start, task.end, _task_args(number, task))
        timeline.arrow(
            "torch_to_npu", "async_npu", task.start, (((python, task.thread), task.start), (row, task.start))
        )
        timeline.arrow(f"HostToDevice{number}", "HostToDevice", number, ((call, task.start), (row, task.start)))


def _overlap(timeline: Timeline, recording: Recording) -> None:
    names = ("Computing", "Communication", "Communication(Not Overlapped)", "Free")
    for step in steps_of(recording):
        pid = timeline.layer(*_OVERLAP, f"NPU {step.device}", step.device)
        for row, (name, spans) in enumerate(
            zip(names, (step.computing, step.communication, step.alone, step.free), strict=True)
        ):
            for start, end in spans:
                timeline.span((pid, timeline.row(pid, row, name)), name, start, end, {})


def trace_view(recording: Recording) -> Timeline:
    """All layers: Python, CANN, hardware, communication, overlap."""
    timeline = Timeline(recording.start)
    python = _host(timeline, recording)
    _devices(timeline, recording, python)
    _overlap(timeline, recording)
    return timeline


def simple(recording: Recording) -> Timeline:
    """The innermost operators only (`use_npu_simple`)."""
    timeline = Timeline(recording.start)
    pid = timeline.process(os.getpid(), "Python", 0, "CPU")
    for operator in recording.innermost():
        where = (pid, timeline.row(pid, operator.thread, f"Thread {operator.thread}"))
        timeline.span(
            where, operator.name, operator.start, operator.end, _host_args(recording, operator), cat=operator.kind
        )
    return timeline
