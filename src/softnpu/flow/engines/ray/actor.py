"""The actor: what Ray calls. Its methods return at once, but for `collect`, which has a thread of its own."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import Any

from softnpu.base import config
from softnpu.flow.engines.ray import records
from softnpu.flow.engines.ray.worker import Worker
from softnpu.flow.engines.spec import Surroundings, WorkerSpec
from softnpu.flow.running import cells
from softnpu.flow.transport.layout import APPLICATION

POLL = "poll"
_LONGEST_POLL = 10.0
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"


@dataclass(frozen=True)
class ActorSpec(WorkerSpec):
    """What an actor is told beside what all workers are."""

    session: str
    peers: dict[int, tuple[int, Any]]  # process → life and handle
    surroundings: Surroundings
    reserved: bool  # Ray reserved devices for it


class NodeActor:
    """One process of the layout."""

    def __init__(self, spec: ActorSpec) -> None:
        import ray

        _settle(spec)
        self._rows_path = os.path.join(_session_folder(), f"dataflow-{spec.session}-{spec.process}")
        rows = _mapped_rows(self._rows_path, len(spec.layout.seats_of(spec.process)))
        self._worker = Worker(spec, rows, ray.put)
        for process, (life, handle) in spec.peers.items():
            self._worker.link.lines[process].renewed(life, handle)
        self._thread = threading.Thread(target=self._worker.run, daemon=True, name="dataflow calls")
        self._thread.start()

    def deliver(self, sender: int, life: int, items: list[records.Item], *objects: Any) -> None:
        """Messages, credits and notices from another process."""
        self._worker.deliver(sender, life, items, list(objects))

    def meet(self, *others: tuple[int, int, Any]) -> None:
        """Handles of other processes: process, life, handle."""
        self._worker.deliver(APPLICATION, 0, [(records.NOTICE, records.MEET, *each) for each in others], [])

    def collect(self, seen: int) -> tuple[list[records.Item], list[Any], int, bool]:
        """What there is for the application; waits for something."""
        return self._worker.collect(seen, _LONGEST_POLL)

    def rows(self) -> list[bytes]:
        """What the node instances are doing."""
        return self._worker.rows()

    def forget(self) -> None:
        """The graph has ended: leave nothing behind."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._rows_path)


def _session_folder() -> str:
    """Ray's folder for this run on this machine; a next life of the actor here finds what this one left."""
    from ray._private import worker

    node = getattr(worker.global_worker, "node", None)
    return str(node.get_session_dir_path()) if node is not None else tempfile.gettempdir()


def _mapped_rows(path: str, seats: int) -> mmap.mmap:
    """Rows in a file: they tell the next life which transaction was being worked on."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(descriptor, seats * cells.ROW)
        return mmap.mmap(descriptor, seats * cells.ROW)
    finally:
        os.close(descriptor)


def _settle(spec: ActorSpec) -> None:
    """Become a process of the application: its directory, variables and paths."""
    before = config.whole_environment()
    if not spec.reserved:
        before.pop(_VISIBLE, None)  # Ray hides all devices from actors that reserve none; here everybody sees all
    ours = spec.surroundings
    path = [*ours.path, *(each for each in sys.path if each not in ours.path)]
    ours.take_over({**before, **ours.environment}, path)
    ours.limit_memory()
