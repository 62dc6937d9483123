"""Every call of every node as a file for Perfetto (https://ui.perfetto.dev) or chrome://tracing.

A node is a process of the picture, a function is a thread of it; arrows follow a transaction from node to node. All
processes of one machine read the same clock, so their times agree.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from softnpu.flow import codes, log
from softnpu.flow.errors import DfException
from softnpu.flow.message import Message
from softnpu.flow.plan import INPUT
from softnpu.flow.watch import probe
from softnpu.flow.watch.sources import source_of

_REMEMBERED = 20_000  # calls that may still get an arrow
_SAMPLE_SECONDS = 0.02
_FEED, _FETCH = 0, 1  # threads of the application
_APPLICATION = 1  # its process number in the picture; node instances follow
_taken: set[str] = set()
_lock = threading.Lock()


class _Call(NamedTuple):
    """Where in the picture a call is."""

    process: int
    thread: int
    began: int
    ended: int


class Timeline:
    """Writes as it goes, under a temporary name; `close` gives the file its own."""

    payloads = False

    def __init__(self, session: Any, path: str | os.PathLike[str]) -> None:
        self.path = _own_path(Path(path))
        self._part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._source = source_of(session)
        self._lock = threading.Lock()
        self._recent: OrderedDict[tuple[int, int], _Call] = OrderedDict()  # (node, transaction), oldest first
        self._before, self._after = self._neighbours()
        self._arrows = 0
        self._depths: dict[int, int] = {}
        self._ending = threading.Event()
        self._file = self._open()
        self._first = True
        self._broken = False
        self._name_all()
        self._source.listen(self.calls)
        probe.listen(session, self)
        self._sampler = threading.Thread(target=self._sample, daemon=True, name="timeline")
        self._sampler.start()

    def _open(self) -> TextIO:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = open(self._part, "w", encoding="utf-8")  # noqa: SIM115  # closed by `close`
            file.write('{"displayTimeUnit": "ms", "traceEvents": [\n')
        except OSError as problem:
            _release(self.path)
            raise DfException(
                f"The timeline {self.path} cannot be written: {problem.strerror}; name another file in "
                "softnpu.flow.timeline.",
                codes.PARAM_INVALID,
            ) from problem
        return file

    # ---- what is there -----------------------------------------------------------------------------------------------

    def _neighbours(self) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
        """Nodes before and after each node; INPUT is the application's feed, the number of nodes its fetch."""
        plan = self._source.plan
        before: dict[int, set[int]] = {}
        after: dict[int, set[int]] = {}
        pairs = [(start.node, end.node) for start, ends in plan.edges.items() for end in ends]
        pairs += [(port.node, len(plan.nodes)) for port in plan.outputs]
        for start, end in pairs:
            after.setdefault(start, set()).add(end)
            before.setdefault(end, set()).add(start)
        return before, after

    def _name_all(self) -> None:
        plan = self._source.plan
        self._name(_APPLICATION, None, f"application ({plan.name})")
        for thread, name in ((_FEED, "feed"), (_FETCH, "fetch")):
            self._name(_APPLICATION, thread, name)
        for seat in self._source.seats:
            node = plan.nodes[seat.node]
            process = _process(seat.number)
            self._name(process, None, node.name + (f" #{seat.instance}" if len(node.instances) > 1 else ""))
            for index, function in enumerate(node.functions):
                self._name(process, index, function.name)

    def _name(self, process: int, thread: int | None, name: str) -> None:
        kind = "process_name" if thread is None else "thread_name"
        self._write({"ph": "M", "name": kind, "pid": process, "tid": thread or 0, "args": {"name": name}})
        if thread is None:
            self._write({"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}})

    # ---- what happens ------------------------------------------------------------------------------------------------

    def calls(self, events: list[Any]) -> None:
        """Calls of nodes, as workers report them: some at a time, not in the order of different workers."""
        plan, seats = self._source.plan, self._source.layout.seats
        with self._lock:
            for seat, function, trans_id, began, ended, code in events:
                node = seats[seat].node
                call = _Call(_process(seat), function, began, ended)
                self._slice(call, plan.nodes[node].functions[function].name, trans_id, code)
                self._link(node, trans_id, call)

    def fed(self, items: list[tuple[int, Message]], began: int, ended: int, code: int) -> None:
        """See Listener."""
        with self._lock:
            call = _Call(_APPLICATION, _FEED, began, ended)
            ids = sorted({message.trans_id for _, message in items})
            self._slice(call, "feed", ids[0] if ids else 0, code)
            if code == 0:
                for trans_id in ids:
                    self._link(INPUT, trans_id, call)

    def fetched(self, indexes: list[int], envelope: Message | None, began: int, ended: int, code: int) -> None:
        """See Listener."""
        with self._lock:
            call = _Call(_APPLICATION, _FETCH, began, ended)
            trans_id = envelope.trans_id if envelope is not None else 0
            self._slice(call, "fetch", trans_id, code)
            self._link(len(self._source.plan.nodes), trans_id, call)

    def _slice(self, call: _Call, name: str, trans_id: int, code: int) -> None:
        arguments: dict[str, int] = {"transaction": trans_id}
        if code:
            arguments["code"] = code
        event: dict[str, Any] = {"ph": "X", "name": name, "cat": "failed" if code else "call", "args": arguments}
        self._write(
            {
                **event,
                "pid": call.process,
                "tid": call.thread,
                "ts": _us(call.began),
                "dur": _us(call.ended - call.began),
            }
        )

    def _link(self, node: int, trans_id: int, call: _Call) -> None:
        """Arrows to and from calls of the same transaction in neighbours; whichever is heard of later draws them."""
        if not trans_id or self._file.closed:
            return
        recent = self._recent
        for other in self._before.get(node, ()):
            if (other, trans_id) in recent:
                self._arrow(recent[other, trans_id], call, trans_id)
        for other in self._after.get(node, ()):
            if (other, trans_id) in recent:
                self._arrow(call, recent[other, trans_id], trans_id)
        recent[node, trans_id] = call
        if len(recent) > _REMEMBERED:
            recent.popitem(last=False)

    def _arrow(self, start: _Call, end: _Call, trans_id: int) -> None:
        """Both ends lie inside their calls, and the arrow never points back in time."""
        leaves = max(start.began, min(start.ended - 1, end.ended))
        arrives = max(end.began, min(leaves, end.ended))
        self._arrows += 1
        common = {"name": f"transaction {trans_id}", "cat": "transaction", "id": self._arrows}
        self._write({"ph": "s", **common, "pid": start.process, "tid": start.thread, "ts": _us(leaves)})
        self._write({"ph": "f", "bp": "e", **common, "pid": end.process, "tid": end.thread, "ts": _us(arrives)})

    def _sample(self) -> None:
        while not self._ending.wait(_SAMPLE_SECONDS):
            self._counters()

    def _counters(self) -> None:
        """Queue depths, where they changed."""
        now = time.perf_counter_ns()
        with self._lock:
            for seat in self._source.seats:
                depth = self._source.queue(seat.number)
                if depth != self._depths.get(seat.number):
                    self._depths[seat.number] = depth
                    event = {"ph": "C", "name": "queue", "pid": _process(seat.number), "ts": _us(now)}
                    self._write({**event, "args": {"messages": depth}})

    def _write(self, event: dict[str, Any]) -> None:
        if self._broken or self._file.closed:  # a worker that ends late
            return
        try:
            self._file.write(("" if self._first else ",\n") + json.dumps(event, separators=(",", ":")))
            self._first = False
        except OSError as problem:  # the disk is full: that is no reason to stop the graph
            self._broken = True
            log.error("the timeline %s ends here: %s", self.path, problem)

    def close(self) -> None:
        """End the file; call it after the session was closed, so that the last calls are in it."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._sampler.join()
        try:
            with self._lock, self._file:
                self._file.write("\n]}\n")
            os.replace(self._part, self.path)
            log.info("timeline: %s; open it in https://ui.perfetto.dev", self.path)
        except OSError as problem:
            log.error("the timeline %s is not complete: %s; what there is of it is %s", self.path, problem, self._part)
        _release(self.path)


def _process(seat: int) -> int:
    return _APPLICATION + 1 + seat


def _us(nanoseconds: int) -> float:
    return nanoseconds / 1000


def _release(path: Path) -> None:
    """The next graph may use the name."""
    with _lock:
        _taken.discard(str(path.absolute()))


def _own_path(path: Path) -> Path:
    """A second graph that runs at the same time gets a file of its own, with a number."""
    with _lock:
        wanted, number = path, 1
        while str(wanted.absolute()) in _taken:
            number += 1
            wanted = path.with_name(f"{path.stem}-{number}{path.suffix}")
        _taken.add(str(wanted.absolute()))
    return wanted
