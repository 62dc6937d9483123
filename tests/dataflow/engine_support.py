"""What engines may leave behind when their graphs have ended: nothing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import threading
from collections.abc import Iterator

import dataflow as df
from softnpu.flow.engines.embedded import zygote
from tests.waiting import eventually


def children(pid: int | str = "self") -> set[int]:
    pids: set[int] = set()
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended meanwhile
            pids |= {int(each) for each in (task / "children").read_text().split()}
    return pids


def gone(pid: int) -> bool:
    """Whether a process has ended; who reaps an orphan may take its time."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _shared_memory() -> set[str]:
    """Other programs of this machine come and go there; only names of DataFlow count."""
    return {name for name in os.listdir("/dev/shm") if "flow" in name}


_OURS = ("pipe:", "socket:", "anon_inode:", "/memfd:", "/dev/shm")


def _descriptors() -> dict[int, str]:
    """Those of the kinds that engines use: a library may open a file of its own and keep it."""
    targets = {}
    for each in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{each}")
        except FileNotFoundError:  # the one of this listing
            continue
        if target.startswith(_OURS):
            targets[int(each)] = target
    return targets


class Traces:
    """What there was at the start."""

    def __init__(self) -> None:
        zygote._close()
        self.with_ray = False
        self._children = children()
        self._threads = set(threading.enumerate())
        self._memory = _shared_memory()
        self._descriptors = _descriptors()

    def check(self) -> None:
        """The same again; workers are children of the zygote, which is asked first and then ended."""
        current = zygote._current
        if current is not None and current[1].alive():
            zygote_pid = current[1].process.pid
            assert eventually(lambda: not children(zygote_pid)), f"workers are left: {children(zygote_pid)}"
        zygote._close()
        assert _shared_memory() <= self._memory
        if self.with_ray:  # it keeps threads and sockets of its own after its shutdown
            return
        assert eventually(lambda: children() <= self._children), f"processes are left: {children() - self._children}"
        assert eventually(lambda: set(threading.enumerate()) <= self._threads), threading.enumerate()
        left = {key: value for key, value in _descriptors().items() if key not in self._descriptors}
        assert not left, left


@contextlib.contextmanager
def embedded(**options: str) -> Iterator[None]:
    """A session with processes, and these options of softnpu.flow."""
    df.finalize()
    df.init({"softnpu.flow.engine": "embedded"} | {f"softnpu.flow.{name}": value for name, value in options.items()})
    yield
    df.finalize()


class Line:
    """Feeds and fetches a graph with one input and one output."""

    data: df.FlowData
    graph: df.FlowGraph
    patience = 10_000  # milliseconds

    def feed(self, *orders: object) -> None:
        for order in orders:
            assert self.graph.feed({self.data: order}) == 0

    def fetch(self, timeout: int | None = None) -> object:
        values, code = self.graph.fetch(timeout=self.patience if timeout is None else timeout)
        return values[0] if code == 0 else code

    def pids(self) -> list[int]:
        return [row["pid"] for row in self.graph._session.statistics()]
