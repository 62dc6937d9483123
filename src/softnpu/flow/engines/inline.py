"""The whole graph in this process: functions run in the thread that feeds or fetches, one after the other.

For debugging (breakpoints, prints, exceptions in place) and for nested graphs. Only stream functions have threads.
Messages are copied as if they had crossed a process, so that a program that works here works with workers too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from softnpu.flow import codes, log, settings
from softnpu.flow.atomic import Taken
from softnpu.flow.engines.outputs import Fetched, Outputs
from softnpu.flow.errors import DfException
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan
from softnpu.flow.rules.route import choose
from softnpu.flow.rules.transactions import Exceptions, Ids
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.running.runner import Runner, instance_of
from softnpu.flow.running.streams import wait_while
from softnpu.flow.transport.channels import Queue
from softnpu.flow.transport.layout import Groups, arrange
from softnpu.flow.values.codec import private

Result = TypeVar("Result")
_BREATH = 0.05


class Channel:
    """From an output to a queue: what waits because the queue is full stays here, in order."""

    def __init__(self, queue: Queue, depth: int, overwrite: bool) -> None:
        self.queue = queue
        self.depth = depth
        self.overwrite = overwrite
        self.waiting: deque[Message] = deque()

    def room(self) -> bool:
        """Whether one more can go in."""
        return not self.waiting and (self.overwrite or self.queue.backlog() < self.depth)

    def put(self, message: Message) -> None:
        """Deliver, or keep until there is room."""
        self.waiting.append(message)
        self.move()

    def move(self) -> None:
        """Deliver what has room."""
        while self.waiting and (self.overwrite or self.queue.backlog() < self.depth):
            self.queue.arrive(self.waiting.popleft())


class Session:
    """A graph without processes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.layout = arrange(plan, one_process=True)
        chosen = settings.load(plan.options)
        self._outputs = Outputs(plan, lambda message: None)
        self._ids = Ids(len(plan.inputs), plan.keeps_user_ids())
        self._exceptions = Exceptions()
        self._news = threading.Condition(threading.RLock())
        self._closed = False
        self._running = False
        numbers = bytearray(cells.ROW * len(self.layout.seats))
        self.rows = [Cells(numbers, seat.number) for seat in self.layout.seats]
        self.on_calls: Callable[[list[Any]], None] | None = None
        self._runners = []
        for seat in self.layout.seats:
            node = plan.nodes[seat.node]
            instance = instance_of(plan, node, seat.instance)
            runner = Runner(plan, node, seat.number, instance, self.rows[seat.number], self)
            runner.strict = chosen.strict
            runner.watched = bool(chosen.timeline)
            self._runners.append(runner)
        self._channels = [
            Channel(self._queue(channel.runner, channel.index), channel.depth, channel.overwrite)
            for channel in self.layout.channels
        ]
        self._start()

    def _queue(self, seat: int, index: int) -> Queue:
        return self._outputs.queues[index] if seat < 0 else self._runners[seat].inputs[index]

    def _start(self) -> None:
        for runner in self._runners:
            try:
                runner.start()
            except Exception as problem:
                raise DfException(
                    f"The graph {self.plan.name} cannot be deployed: node {runner.instance.node} cannot be set up: {problem}",
                    codes.FAILED,
                ) from problem
        for runner in self._runners:
            runner.enter_streams()

    # ---- what the runners want ---------------------------------------------------------------------------------------

    def emit(self, seat: int, output: int, message: Message) -> None:
        """See Host."""
        with self._news:
            self._deliver(self.layout.routes[(seat, output)], message)
            self._news.notify_all()

    def _deliver(self, groups: Groups, message: Message) -> None:
        for group in groups:
            self._channels[group[choose(message, len(group))]].put(private(message))

    def held_up(self, seat: int) -> bool:
        """See Host."""
        outputs = self.plan.nodes[self.layout.seats[seat].node].output_num
        return any(
            self._channels[number].waiting and not self._channels[number].overwrite
            for output in range(outputs)
            for group in self.layout.routes[(seat, output)]
            for number in group
        )

    def taken(self, message: Message) -> None:
        """See Host: queues are asked for their length instead."""

    def progressed(self) -> None:
        """See Host."""
        with self._news:
            self._news.notify_all()

    def wait_for_room(self, seat: int, until: float | None) -> None:
        """See Host."""
        wait_while(self._news, lambda: not self._closed and self._still_held_up(seat), until)

    def _still_held_up(self, seat: int) -> bool:
        self._move()
        return self.held_up(seat)

    def raised(self, seat: int, code: int, context_id: int, trans_id: int, envelope: Message | None = None) -> None:
        """See Host."""
        with self._news:
            if not self._exceptions.add(trans_id, code, context_id):
                return
            self._outputs.raised(trans_id, envelope.copy() if envelope is not None else Message())
            for runner in self._runners:
                if runner.seat != seat:
                    runner.raised(trans_id, code, context_id)
            self._news.notify_all()

    def called(self, seat: int, function: int, trans_id: int, began: int, ended: int, code: int) -> None:
        """See Host."""
        if self.on_calls is not None:
            self.on_calls([(seat, function, trans_id, began, ended, code)])

    # ---- running -----------------------------------------------------------------------------------------------------

    def _move(self) -> bool:
        """Put into queues what has room by now."""
        moved = False
        for channel in self._channels:
            if channel.waiting:
                before = len(channel.waiting)
                channel.move()
                moved |= len(channel.waiting) < before
        return moved

    def _work(self, enough: Callable[[], Result | None]) -> Result | None:
        """Call whatever is ready, until nothing is or the caller has what it wants. One thread at a time."""
        if self._running:  # a function that feeds its own graph: the outer call goes on with it
            return enough()
        self._running = True
        try:
            busy = True
            while busy and not self._closed:
                busy = self._move()
                for runner in self._runners:
                    runner.tick()
                    if _step(runner):
                        busy = True
                        runner.finished.clear()
                        result = enough()
                        if result is not None:
                            return result
            return enough()
        finally:
            self._running = False

    def _wait(
        self,
        ready: Callable[[], Result | None],
        timeout: float | None,
        deadline: Callable[[], float | None] = lambda: None,
    ) -> Result | None:
        until = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while True:
                result = ready()
                if result is None:
                    result = self._work(ready)
                if result is not None:
                    self._news.notify_all()
                    return result
                rest = None if until is None else until - time.monotonic()
                if rest is not None and rest <= 0:
                    return None
                self._news.wait(self._sleep(rest, deadline()))

    def _sleep(self, rest: float | None, due: float | None) -> float | None:
        deadlines = [due, *(runner.deadline() for runner in self._runners)]
        times = [each - time.monotonic() for each in deadlines if each is not None]
        if any(runner.threads or runner.always_ready() for runner in self._runners):
            times.append(_BREATH)
        if rest is not None:
            times.append(rest)
        return max(0.0, min(times)) if times else None

    # ---- the application ---------------------------------------------------------------------------------------------

    def feed_many(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """Messages into several inputs, all or none; then everything runs that can."""
        code = self._wait(lambda: self._room(items), timeout)
        if code is None:
            return codes.QUEUE_FULL
        if code:
            return code
        with self._news:
            code = self._ids.stamp(items)
            if code:
                return code
            for index, message in items:
                self._deliver(self.layout.routes[(-1, index)], message)
            self._work(lambda: None)
            self._news.notify_all()
        return codes.SUCCESS

    def _room(self, items: list[tuple[int, Message]]) -> int | None:
        if self._closed:
            return codes.FAILED
        routes = (self.layout.routes[(-1, index)] for index, _ in items)
        full = any(not self._channels[number].room() for groups in routes for group in groups for number in group)
        return None if full else codes.SUCCESS

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, taken: Taken | None = None) -> Fetched:
        """One result of each of these outputs."""
        mine: Taken = [] if taken is None else taken
        code = self._outputs.check(indexes, align)
        if code:
            return [], None, code
        fetched = self._wait(
            lambda: self._ready(indexes, align, mine), timeout, lambda: self._outputs.deadline(indexes)
        )
        return fetched if fetched is not None else ([], None, codes.QUEUE_EMPTY)

    def put_back(self, taken: Taken) -> None:
        """See Session of engines."""
        with self._news:
            self._outputs.put_back(taken)
            self._news.notify_all()

    def _ready(self, indexes: list[int], align: bool, taken: Taken) -> Fetched | None:
        fetched = self._outputs.ready(indexes, align, taken)
        return ([], None, codes.FAILED) if fetched is None and self._closed else fetched

    def close(self) -> None:
        """Free stream functions, let go of the user's code."""
        with self._news:
            if self._closed:
                return
            self._closed = True
            self._news.notify_all()
        for runner in self._runners:
            runner.end()
        for runner in self._runners:
            for thread in runner.threads:
                thread.join(1.0)
            try:
                runner.body.close()
            except Exception as problem:
                log.error("node %s, at its end: %s", runner.instance.node, problem)

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return [
            {"node": self.plan.nodes[seat.node].name, "instance": seat.instance, **row.read()}
            for seat, row in zip(self.layout.seats, self.rows, strict=True)
        ]


def _step(runner: Runner) -> bool:
    """Whether a call was made that got anything forward: a source with nothing to say would be called for ever."""
    if not runner.always_ready():
        return runner.step()
    before = runner.words[cells.SENT], runner.backlog()
    return runner.step() and before != (runner.words[cells.SENT], runner.backlog())
