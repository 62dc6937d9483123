"""What waits for a node instance: a queue for each input, and for each function the sets of messages that belong together.

Batches and groups are made when the function wants its next call, not when messages arrive: so a queue stays as long as it
is deep, and what is in it is not lost with the process.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from softnpu.flow.message import Message
from softnpu.flow.plan import AlignRule, CountRule, Function, TimeRule
from softnpu.flow.rules.align import Aligner
from softnpu.flow.rules.batch import CountBatch, TimeBatch
from softnpu.flow.rules.pairing import Pairing
from softnpu.flow.running import cells

if TYPE_CHECKING:
    from softnpu.flow.running.runner import Runner

_clock = time.perf_counter_ns


class Bundle(list[Any]):
    """The tickets of the messages that a batch was made of: they are finished when the batch is."""


class Batching:
    """A batch rule on one input, with the tickets of what went into the next batch."""

    def __init__(self, rule: CountRule | TimeRule, runner: Runner) -> None:
        self._runner = runner
        self._tickets: list[Any] = []
        self._batch = (CountBatch if isinstance(rule, CountRule) else TimeBatch)(rule, self._gone)  # type: ignore[arg-type]
        self.deadline = self._batch.deadline

    def _gone(self, message: Message) -> None:
        if message.ticket is not None:
            self._tickets.append(message.ticket)

    def push(self, message: Message, now: float) -> list[Message]:
        """What becomes of one more message, which has left its queue."""
        return self._ticketed(self._batch.push(message, now))

    def tick(self, now: float) -> list[Message]:
        """What is due by now."""
        return self._ticketed(self._batch.tick(now))

    def _ticketed(self, messages: list[Message]) -> list[Message]:
        if not messages and not self._tickets:
            return messages
        for message in messages:
            message.arrived = _clock()
            self._gone(message)  # one that ends a stream goes through as it is
            message.ticket = None
        tickets, self._tickets = self._tickets, []
        if messages:
            messages[0].ticket = Bundle(tickets)
        else:  # a remainder that nobody wants
            self._runner.finished += tickets
        return messages


class Input:
    """The queue of one input, as channels see it."""

    __slots__ = ("_index", "_overwrite", "_raw", "_runner", "_task", "batch")

    def __init__(self, runner: Runner, index: int, task: Task, batch: Batching | None) -> None:
        self._runner = runner
        self._index = index
        self._task = task
        self._overwrite = runner.node.overwrite
        self.batch = batch
        self._raw: deque[Message] | None = None if batch is None and task.aligner is None else deque()
        if self._raw is not None:
            task.raw[index] = self

    def arrive(self, message: Message) -> None:
        """A message came from a channel."""
        words = self._runner.words
        words[cells.RECEIVED] = received = words[cells.RECEIVED] + 1
        if received < 64 or not received & 7:  # cells.measured, without the call
            message.arrived = _clock()
        if self._raw is None:
            self._task.pairing.push(self._index, message)
        else:
            self._raw.append(message)
        if self._overwrite and self.backlog() > self._runner.node.depth:
            oldest = self._task.pairing.drop_oldest(self._index) if self._raw is None else self._raw.popleft()
            self._runner.absorb(oldest)
            words[cells.DROPPED] += 1

    def forward(self, now: float) -> None:
        """Take one message to where it meets others."""
        assert self._raw is not None
        message = self._raw.popleft()
        self._runner.host.taken(message)
        if self.batch is None:
            self._task.meet(self._index, message, now)
            return
        for batch in self.batch.push(message, now):
            self._task.meet(self._index, batch, now)

    def holds(self) -> bool:
        """Whether there is something to take."""
        return bool(self._raw)

    def backlog(self) -> int:
        """Messages that wait here."""
        return self._task.pairing.waiting(self._index) if self._raw is None else len(self._raw)

    def forget(self, trans_id: int) -> None:
        """A transaction ended elsewhere."""
        if self._raw:
            for message in [each for each in self._raw if each.trans_id == trans_id]:
                self._raw.remove(message)
                self._runner.absorb(message)

    def tick(self, now: float) -> None:
        """Time passed: a batch may be due."""
        if self.batch is not None:
            for batch in self.batch.tick(now):
                self._task.meet(self._index, batch, now)

    def deadline(self) -> float | None:
        """When a batch is due."""
        return None if self.batch is None else self.batch.deadline()


class Task:
    """One function of the node and the messages that wait for it."""

    def __init__(self, runner: Runner, index: int, function: Function, align: AlignRule) -> None:
        self.index = index
        self.function = function
        self.runner = runner
        wanted = align.cache and len(function.inputs) > 1 and not function.stream
        self.aligner = Aligner(function.inputs, align, runner.forgotten) if wanted else None
        self.pairing = Pairing(function.inputs)
        self.raw: dict[int, Input] = {}  # inputs whose messages are batched or aligned

    def meet(self, index: int, message: Message, now: float) -> None:
        """A message, or a batch of them, joins those of the other inputs."""
        if self.aligner is None:
            self.pairing.push(index, message)
        else:
            self.aligner.push(index, message, now)

    def pop(self) -> list[Message] | None:
        """The next complete set of inputs."""
        if not self.raw:
            return self.pairing.pop()
        now = time.monotonic()
        while True:
            messages = self.pairing.pop() if self.aligner is None else self.aligner.pop(now)
            if messages is not None:
                return messages
            source = self._next()
            if source is None:
                return None
            source.forward(now)

    def _next(self) -> Input | None:
        """The input to take from: the one whose messages the others wait for."""
        if self.aligner is not None:
            first = self.raw[self.aligner.wanted()]
            return first if first.holds() else next((each for each in self.raw.values() if each.holds()), None)
        waiting = self.pairing.waiting
        return next((each for index, each in self.raw.items() if each.holds() and not waiting(index)), None)

    def absorbed(self, message: Message) -> bool:
        """Whether a message of a set has left its queue before."""
        return self.aligner is not None or type(message.ticket) is Bundle

    def forget(self, trans_id: int) -> None:
        """A transaction ended elsewhere."""
        for each in self.raw.values():
            each.forget(trans_id)
        for message in (self.pairing if self.aligner is None else self.aligner).drop(trans_id):
            if not self.absorbed(message):
                self.runner.host.taken(message)
            self.runner.forgotten(message)
