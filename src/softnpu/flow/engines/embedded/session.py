"""A running graph as the application sees it: feed, fetch, close."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from softnpu.flow import atomic, codes, log
from softnpu.flow.atomic import Taken
from softnpu.flow.engines.embedded.supervisor import Supervisor
from softnpu.flow.engines.outputs import Fetched, Outputs
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan
from softnpu.flow.rules.transactions import Ids
from softnpu.flow.values import tensor

Result = TypeVar("Result")
_LEAVE_SECONDS = 1.0
_LOOK_SECONDS = 0.02
_SHORTEST = 0.0005


class Session:
    """Whoever waits reads the inbox for all: no thread stands between a worker and the call that wants its result."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._outputs = Outputs(plan, self._taken)
        self._ids = Ids(len(plan.inputs), plan.keeps_user_ids())
        self._feeding = threading.Lock()
        self._turn = threading.Lock()
        self._reader: object = None  # whose turn it is to read; an object of that call
        self._news = threading.Condition()
        self._followers = 0
        self._closed = False
        self._pid = os.getpid()
        self._foreign = False
        self.supervisor = Supervisor(plan, self._outputs, self._tell)
        self._endpoint = self.supervisor.endpoint
        self._outbox, self._inbox = self._endpoint.outbox, self._endpoint.inbox
        self._routes = [self.supervisor.layout.routes[(-1, index)] for index in range(len(plan.inputs))]
        self.supervisor.start()
        self._provider = self.supervisor.allocate
        tensor.add_provider(self._provider)
        _sessions.add(self)

    def _taken(self, message: Message) -> None:
        if message.ticket is not None:  # else it was taken before, and put back
            if self._inbox.taken(message):
                self._outbox.flush()
            self._inbox.finished(message.ticket)
            message.ticket = None

    # ---- feed --------------------------------------------------------------------------------------------------------

    def feed(self, index: int, message: Message, timeout: float | None) -> int:
        """One message into one input."""
        return self.feed_many([(index, message)], timeout)

    def feed_many(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """Messages into several inputs, all or none. Who waits for room keeps nobody from feeding other inputs."""
        if self._foreign:
            return self._over()
        until = None if timeout is None else time.monotonic() + timeout
        code = self._wait(lambda: self._try_feed(items), until)
        return codes.QUEUE_FULL if code is None else code

    def _try_feed(self, items: list[tuple[int, Message]]) -> int | None:
        outbox = self._outbox
        with self._feeding:
            if self._closed or self.supervisor.failure:
                return self._over()
            for index, _ in items:
                while not outbox.room(self._routes[index]):
                    if outbox.ask(self._routes[index]):
                        return None
            return self._feed_now(items)

    def _feed_now(self, items: list[tuple[int, Message]]) -> int:
        """The line that promises the records feeds them; what is left to do then may be done by whoever comes next."""
        ids, outbox = self._ids, self._outbox
        code, numbers = ids.planned(items)
        if code:
            return code
        try:
            with self._endpoint.lock:
                if outbox.promised:
                    outbox.catch_up()
                records = outbox.records_for(self._routes[items[0][0]], items[0][1])
                for index, message in items[1:]:
                    records += outbox.records_for(self._routes[index], message)
                atomic.promise(outbox, records, ids, numbers)
                clear = outbox.flush()
        except BaseException:
            self.supervisor.unblock()
            raise
        if not clear:
            self.supervisor.unblock()
        return codes.SUCCESS

    # ---- fetch -------------------------------------------------------------------------------------------------------

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, taken: Taken | None = None) -> Fetched:
        """One result of each of these outputs."""
        mine: Taken = [] if taken is None else taken
        if self._foreign:
            return [], None, self._over()
        with self._endpoint.lock:
            code = self._outputs.check(indexes, align)
        if code:
            return [], None, code
        until = None if timeout is None else time.monotonic() + timeout
        fetched = self._wait(lambda: self._ready(indexes, align, mine), until, lambda: self._outputs.deadline(indexes))
        return fetched if fetched is not None else ([], None, codes.QUEUE_EMPTY)

    def put_back(self, taken: Taken) -> None:
        """See Session of engines."""
        with self._endpoint.lock:
            self._outputs.put_back(taken)
        self._tell()

    def _ready(self, indexes: list[int], align: bool, taken: Taken) -> Fetched | None:
        with self._endpoint.lock:
            fetched = self._outputs.ready(indexes, align, taken)
        if fetched is None and (self._closed or self.supervisor.failure):
            return [], None, self._over()
        return fetched

    def _over(self) -> int:
        if self._foreign:
            log.error("The graph belongs to process %s, of which this is a fork: build one of its own here.", self._pid)
        elif self.supervisor.failure:
            log.error("The graph has ended: %s", self.supervisor.failure)
        return codes.FAILED

    def disown(self) -> None:
        """In a fork of the application: the pipes are its parent's, and so is whoever held a lock."""
        self._foreign = True

    # ---- waiting -----------------------------------------------------------------------------------------------------

    def _wait(
        self,
        ready: Callable[[], Result | None],
        until: float | None,
        deadline: Callable[[], float | None] | None = None,
    ) -> Result | None:
        """What `ready` gives as soon as it gives anything; None when the time is up."""
        while True:
            result = ready()
            if result is not None:
                return result
            turn = object()
            try:  # an interrupt may come at any time: it must not leave the turn with nobody
                mine = self._take_turn(turn)
                late = mine and not self._read_or_sleep(until, deadline)
            finally:
                if self._reader is turn:
                    self._reader = None
                    self._tell()
            if late:
                return ready()
            if not mine:
                with self._news:
                    self._followers += 1  # before the look: what comes after it is told
                    try:
                        result = ready()
                        rest = _left(until, deadline)
                        if result is not None or (rest is not None and rest <= 0):
                            return result
                        self._reply()  # whoever reads may sleep in the middle of that
                        if self._reader is not None:  # else nobody reads any more: it is our turn
                            self._news.wait(rest)
                    finally:
                        self._followers -= 1

    def _take_turn(self, turn: object) -> bool:
        with self._turn:
            if self._reader is None:
                self._reader = turn
        return self._reader is turn

    def _read_or_sleep(self, until: float | None, deadline: Callable[[], float | None] | None) -> bool:
        """Read what came, or sleep until something does; False when the time is up."""
        inbox = self._inbox
        if inbox.read():
            return True
        self._reply()
        rest = _left(until, deadline)
        if rest is not None and rest <= 0:
            return False
        self._endpoint.wait(rest, self.supervisor.alarm)
        self.supervisor.quiet()
        inbox.read()
        return True

    def _reply(self) -> None:
        """Workers that wait for room in an output hear of it now."""
        self._inbox.answer()
        self._outbox.flush()

    def _tell(self) -> None:
        if self._followers:
            with self._news:
                self._news.notify_all()

    def look(self) -> None:
        """Take in what came, without waiting; for those who watch."""
        turn = object()
        try:
            if not self._closed and not self._foreign and self._take_turn(turn):
                while self._inbox.read():
                    pass
                self._outbox.flush()
        finally:
            if self._reader is turn:
                self._reader = None
                self._tell()

    # ---- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop all workers; arrays that were fetched stay valid."""
        if self._closed or os.getpid() != self._pid:  # a fork of the application must not end the workers
            return
        self._closed = True
        tensor.remove_provider(self._provider)
        turn = object()
        self._gain(lambda: self._take_turn(turn))
        fed = self._gain(lambda: self._feeding.acquire(timeout=_LOOK_SECONDS))
        try:
            self.supervisor.close()
        finally:
            if fed:
                self._feeding.release()
            self._reader = None
        with self._news:
            self._news.notify_all()

    def _gain(self, attempt: Callable[[], bool]) -> bool:
        """Let whoever waits or feeds leave before the pipes close; not for ever: this may be a signal handler inside one."""
        until = time.monotonic() + _LEAVE_SECONDS
        while not attempt():
            if time.monotonic() > until:
                return False
            self.supervisor.ring()
            time.sleep(_SHORTEST)
        return True

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return self.supervisor.statistics()


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def _forked() -> None:
    for session in _sessions:
        session.disown()


os.register_at_fork(after_in_child=_forked)


def _left(until: float | None, deadline: Callable[[], float | None] | None) -> float | None:
    """How long to sleep at most: until the time is up (then nothing is left), or a group of results is given up."""
    now = time.monotonic()
    rest = None if until is None else until - now
    if rest is not None and rest <= 0:
        return 0.0
    due = deadline() if deadline is not None else None
    if due is not None and (rest is None or due - now < rest):
        return max(due - now, _SHORTEST)
    return rest
