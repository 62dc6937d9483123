"""What a node does, behind one interface: engines know nothing else of user code and models."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from softnpu.flow.message import Message
from softnpu.flow.plan import BodySpec


@dataclass(frozen=True)
class InstanceInfo:
    """The node instance in which a body runs: what `get_running_*` and the attributes of a function answer."""

    node: str
    input_num: int
    output_num: int
    device_id: int = 0
    instance_id: int = 0
    instance_num: int = 1
    work_path: str = ""
    catch: bool = False  # transactions may end by `raise_exception`
    balance: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


class Outlet(Protocol):
    """Where a call puts its results. Never blocks."""

    def send(self, output: int, message: Message) -> None:
        """One message on an output of the node; the index was checked by the caller."""

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        """End a transaction everywhere in the graph."""


class Inlet(Protocol):
    """One input of a stream function."""

    maxsize: int

    def take(self, timeout: float | None) -> Message:
        """The next message; `queue.Empty` after `timeout` seconds (0: at once), DfAbortException when the graph ends."""

    def qsize(self) -> int:
        """Messages that wait."""


class Body(Protocol):
    """Made in the worker by the loader of its BodySpec; `start` is called once before any call, on the thread of the calls."""

    takes_failures: (
        bool  # wants messages with a ret_code itself; otherwise the failure passes through to all its outputs
    )
    takes_exceptions: bool  # wants an empty call when another node raised for a transaction

    def start(self, instance: InstanceInfo) -> None:
        """Load and construct; an exception here means that the node cannot be deployed."""

    def call(self, function: int, messages: Sequence[Message], out: Outlet) -> int:
        """One call; 0, or the code with which its transaction failed. `messages` is empty for an exception notice,
        which `notice` gave just before."""

    def stream(self, function: int, inlets: Sequence[Inlet], out: Outlet) -> int:
        """One entry of a stream function."""

    def notice(self, trans_id: int, code: int, context_id: int) -> None:
        """Another node raised for this transaction; the next `call` on the same thread has no messages."""

    def close(self) -> None:
        """The worker ends."""


def load(spec: BodySpec) -> Body:
    """The body that a spec names."""
    module, _, name = spec.loader.partition(":")
    body: Body = getattr(importlib.import_module(module), name)(spec.data)
    return body
