"""What bodies of user code share: where they are while user code runs, and which envelope results take over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from softnpu.flow.body import Inlet, InstanceInfo
from softnpu.flow.functions.flowmsg import FlowMsgQueue
from softnpu.flow.functions.running import current
from softnpu.flow.message import Message
from softnpu.flow.values.register import MsgTypeRegister


@contextmanager
def inside(instance: InstanceInfo) -> Iterator[None]:
    """User code runs here: `get_running_…` answer for this place."""
    before = current.instance
    current.instance = instance
    try:
        yield
    finally:
        current.instance = before


def source_of(messages: Sequence[Message]) -> Message | None:
    """The message whose envelope the results take over: the first with data, else the first."""
    for message in messages:
        if message.payload.form:
            return message
    return messages[0] if messages else None


def queues_of(
    known: dict[int, list[FlowMsgQueue]], function: int, inlets: Sequence[Inlet], register: MsgTypeRegister
) -> list[FlowMsgQueue]:
    """The queue objects of a stream function: the same ones at every entry."""
    queues = known.get(function)
    if queues is None:
        queues = known[function] = [FlowMsgQueue(inlet, register) for inlet in inlets]
    return queues


Call = Callable[[Sequence[Message], Any], int]
