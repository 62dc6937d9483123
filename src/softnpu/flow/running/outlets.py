"""What a function sends through: the outlet of its call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from softnpu.flow.message import Message
from softnpu.flow.running import cells

if TYPE_CHECKING:
    from softnpu.flow.running.runner import Runner

SLOW = 300_000  # nanoseconds: nobody should wait for the end of a call that takes longer
_clock = time.perf_counter_ns


class Out:
    """The outlet of the call that is going on."""

    __slots__ = ("_runner", "again", "head", "sent", "trans_id")

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.trans_id = 0
        self.again = False
        self.sent = 0  # a bit for each output that has its result
        self.head: Message | None = None

    def send(self, output: int, message: Message) -> None:
        """See Outlet."""
        if message.trans_id == 0:
            message.trans_id = self.trans_id
        message.again = self.again
        self.sent |= 1 << output
        runner = self._runner
        runner.words[cells.SENT] += 1
        runner.host.emit(runner.seat, output, message)
        if (runner.slow and runner.words[cells.CALLS]) or _clock() - runner.words[cells.BEGAN] > SLOW:
            runner.host.progressed()  # what a long call made so far is wanted now

    def hurry(self) -> None:
        """A generator: nobody knows how long it takes until it goes on, and more is to come, be it a failure."""
        self.sent = 0
        self._runner.host.progressed()

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        """See Outlet."""
        self._runner.forget(trans_id)
        self._runner.host.raised(self._runner.seat, code, context_id, trans_id, self.head)


class StreamOut(Out):
    """The outlet of a stream function: a message without an id gets the next number of its output."""

    __slots__ = ("_last",)

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._last: dict[int, int] = {}

    def send(self, output: int, message: Message) -> None:
        """See Outlet."""
        if message.trans_id == 0:
            message.trans_id = self._last.get(output, 0) + 1
        self._last[output] = message.trans_id
        super().send(output, message)
        self._runner.host.progressed()
