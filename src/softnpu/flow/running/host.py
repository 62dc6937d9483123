"""What surrounds a node instance: a worker, the inline engine, or an actor."""

from __future__ import annotations

from typing import Protocol

from softnpu.flow.message import Message


class Host(Protocol):
    """What surrounds a runner."""

    def emit(self, seat: int, output: int, message: Message) -> None:
        """Send a message from an output."""

    def held_up(self, seat: int) -> bool:
        """Whether earlier results still wait for room."""

    def taken(self, message: Message) -> None:
        """A message left its queue."""

    def raised(self, seat: int, code: int, context_id: int, trans_id: int, envelope: Message | None = None) -> None:
        """A function ended a transaction; the envelope is of the message that it was called with."""

    def progressed(self) -> None:
        """A thread of a stream function did something that others should hear of now."""

    def wait_for_room(self, seat: int, until: float | None) -> None:
        """Sleep while earlier results wait for room, at most until a time of the monotonic clock."""

    def called(self, seat: int, function: int, trans_id: int, began: int, ended: int, code: int) -> None:
        """For whoever watches; only if `watched`."""
