"""A graph on Ray as the application sees it: feed, fetch, close."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from softnpu.flow import codes, log
from softnpu.flow.atomic import Taken
from softnpu.flow.engines.outputs import Fetched, Outputs
from softnpu.flow.engines.ray.supervisor import Supervisor
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan
from softnpu.flow.rules.transactions import Ids

Result = TypeVar("Result")


class Session:
    """Results are taken in by the supervisor's thread; whoever waits sleeps until it has something new."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._outputs = Outputs(plan, self._taken)
        self._ids = Ids(len(plan.inputs), plan.keeps_user_ids())
        self._closed = False
        self.supervisor = Supervisor(plan, self._outputs)
        self._link = self.supervisor.link
        self._routes = [self.supervisor.layout.routes[(-1, index)] for index in range(len(plan.inputs))]
        self.supervisor.start()

    def _taken(self, message: Message) -> None:
        if message.ticket is not None:  # else it was taken before, and put back
            self._link.taken(message)
            self._link.finished(message.ticket)
            message.ticket = None

    # ---- feed --------------------------------------------------------------------------------------------------------

    def feed(self, index: int, message: Message, timeout: float | None) -> int:
        """One message into one input."""
        return self.feed_many([(index, message)], timeout)

    def feed_many(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """Messages into several inputs, all or none. Who waits for room keeps nobody from feeding other inputs."""
        until = None if timeout is None else time.monotonic() + timeout
        code = self._wait(lambda: self._try_feed(items), until)
        if code == codes.SUCCESS:
            self._link.flush()
        return codes.QUEUE_FULL if code is None else code

    def _try_feed(self, items: list[tuple[int, Message]]) -> int | None:
        if self._closed or self.supervisor.failure:
            return self._over()
        with self._link.lock:
            if not all(self._link.room(self._routes[index]) for index, _ in items):
                return None
            code = self._ids.stamp(items)
            if code:
                return code
            for index, message in items:
                self._link.emit(self._routes[index], message)
        return codes.SUCCESS

    # ---- fetch -------------------------------------------------------------------------------------------------------

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, taken: Taken | None = None) -> Fetched:
        """One result of each of these outputs."""
        mine: Taken = [] if taken is None else taken
        code = self._outputs.check(indexes, align)
        if code:
            return [], None, code
        until = None if timeout is None else time.monotonic() + timeout
        fetched = self._wait(lambda: self._ready(indexes, align, mine), until, lambda: self._outputs.deadline(indexes))
        if self._link.urgent:
            self._link.flush()
        return fetched if fetched is not None else ([], None, codes.QUEUE_EMPTY)

    def put_back(self, taken: Taken) -> None:
        """See Session of engines."""
        with self._link.lock:
            self._outputs.put_back(taken)

    def _ready(self, indexes: list[int], align: bool, taken: Taken) -> Fetched | None:
        with self._link.lock:
            fetched = self._outputs.ready(indexes, align, taken)
        if fetched is None and (self._closed or self.supervisor.failure):
            return [], None, self._over()
        return fetched

    def _over(self) -> int:
        if self.supervisor.failure:
            log.error("The graph has ended: %s", self.supervisor.failure)
        return codes.FAILED

    def _wait(
        self,
        ready: Callable[[], Result | None],
        until: float | None,
        deadline: Callable[[], float | None] | None = None,
    ) -> Result | None:
        """What `ready` gives as soon as it gives anything; None when the time is up."""
        with self.supervisor.changed:
            while True:
                result = ready()
                if result is not None:
                    return result
                now = time.monotonic()
                rest = None if until is None else until - now
                if rest is not None and rest <= 0:
                    return None
                due = deadline() if deadline is not None else None
                if due is not None and (rest is None or due - now < rest):
                    rest = max(due - now, 0.0)
                self._link.flush()
                self.supervisor.changed.wait(rest)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all actors; arrays that were fetched stay valid."""
        if self._closed:
            return
        self._closed = True
        self.supervisor.close()
        with self.supervisor.changed:
            self.supervisor.changed.notify_all()

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return self.supervisor.statistics()
