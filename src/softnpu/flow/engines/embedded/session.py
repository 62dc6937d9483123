"""A running graph as the application sees it: feed, fetch, close."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from softnpu.flow import codes, log
from softnpu.flow.engines.embedded.supervisor import Crew
from softnpu.flow.engines.outputs import Fetched, Hand, Outputs
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
        self._pumper: object = None  # whose turn it is to read; an object of that call
        self._news = threading.Condition()
        self._followers = 0
        self._closed = False
        self._pid = os.getpid()
        self._foreign = False
        self.crew = Crew(plan, self._outputs, self._tell)
        self._endpoint = self.crew.endpoint
        self._routes = [self.crew.layout.routes[(-1, index)] for index in range(len(plan.inputs))]
        self.crew.start()
        self._provider = self.crew.allocate
        tensor.add_provider(self._provider)
        _sessions.add(self)

    def _taken(self, message: Message) -> None:
        if message.ticket is not None:  # else it was taken before, and put back
            if self._endpoint.taken(message):
                self._endpoint.flush()
            self._endpoint.finished(message.ticket)
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
        endpoint = self._endpoint
        with self._feeding:
            if self._closed or self.crew.failure:
                return self._over()
            for index, _ in items:
                while not endpoint.room(self._routes[index]):
                    if endpoint.ask(self._routes[index]):
                        return None
            return self._feed_now(items)

    def _feed_now(self, items: list[tuple[int, Message]]) -> int:
        """An interrupt comes before or after the two lines that feed; what is left to do then is done by whoever comes next."""
        ids, endpoint = self._ids, self._endpoint
        code, numbers = ids.planned(items)
        if code:
            return code
        try:
            with endpoint.lock:
                if endpoint.todo:
                    endpoint.catch_up()
                made = endpoint.made(self._routes[items[0][0]], items[0][1])
                for index, message in items[1:]:
                    made += endpoint.made(self._routes[index], message)
                ids.numbers = numbers
                endpoint.todo += made
                clear = endpoint.flush()
        except BaseException:
            self.crew.unblock()
            raise
        if not clear:
            self.crew.unblock()
        return codes.SUCCESS

    # ---- fetch -------------------------------------------------------------------------------------------------------

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, hand: Hand | None = None) -> Fetched:
        """One result of each of these outputs."""
        taken: Hand = [] if hand is None else hand
        if self._foreign:
            return [], None, self._over()
        with self._endpoint.lock:
            code = self._outputs.check(indexes, align)
        if code:
            return [], None, code
        until = None if timeout is None else time.monotonic() + timeout
        found = self._wait(lambda: self._ready(indexes, align, taken), until, lambda: self._outputs.deadline(indexes))
        return found if found is not None else ([], None, codes.QUEUE_EMPTY)

    def put_back(self, hand: Hand) -> None:
        """See Session of engines."""
        with self._endpoint.lock:
            self._outputs.put_back(hand)
        self._tell()

    def _ready(self, indexes: list[int], align: bool, hand: Hand) -> Fetched | None:
        with self._endpoint.lock:
            found = self._outputs.ready(indexes, align, hand)
        if found is None and (self._closed or self.crew.failure):
            return [], None, self._over()
        return found

    def _over(self) -> int:
        if self._foreign:
            log.error("The graph belongs to process %s, of which this is a fork: build one of its own here.", self._pid)
        elif self.crew.failure:
            log.error("The graph has ended: %s", self.crew.failure)
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
            found = ready()
            if found is not None:
                return found
            turn = object()
            try:  # an interrupt may come at any time: it must not leave the turn with nobody
                mine = self._take_turn(turn)
                late = mine and not self._pump(until, deadline)
            finally:
                if self._pumper is turn:
                    self._pumper = None
                    self._tell()
            if late:
                return ready()
            if not mine:
                with self._news:
                    self._followers += 1  # before the look: what comes after it is told
                    try:
                        found = ready()
                        rest = _left(until, deadline)
                        if found is not None or (rest is not None and rest <= 0):
                            return found
                        self._reply()  # whoever reads may sleep in the middle of that
                        if self._pumper is not None:  # else nobody reads any more: it is our turn
                            self._news.wait(rest)
                    finally:
                        self._followers -= 1

    def _take_turn(self, turn: object) -> bool:
        with self._turn:
            if self._pumper is None:
                self._pumper = turn
        return self._pumper is turn

    def _pump(self, until: float | None, deadline: Callable[[], float | None] | None) -> bool:
        """Read what came, or sleep until something does; False when the time is up."""
        endpoint = self._endpoint
        if endpoint.read():
            return True
        self._reply()
        rest = _left(until, deadline)
        if rest is not None and rest <= 0:
            return False
        endpoint.wait(rest, self.crew.alarm)
        self.crew.quiet()
        endpoint.read()
        return True

    def _reply(self) -> None:
        """Workers that wait for room in an output hear of it now."""
        self._endpoint.answer()
        self._endpoint.flush()

    def _tell(self) -> None:
        if self._followers:
            with self._news:
                self._news.notify_all()

    def look(self) -> None:
        """Take in what came, without waiting; for those who watch."""
        turn = object()
        try:
            if not self._closed and not self._foreign and self._take_turn(turn):
                while self._endpoint.read():
                    pass
                self._endpoint.flush()
        finally:
            if self._pumper is turn:
                self._pumper = None
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
            self.crew.close()
        finally:
            if fed:
                self._feeding.release()
            self._pumper = None
        with self._news:
            self._news.notify_all()

    def _gain(self, attempt: Callable[[], bool]) -> bool:
        """Let whoever waits or feeds leave before the pipes close; not for ever: this may be a signal handler inside one."""
        until = time.monotonic() + _LEAVE_SECONDS
        while not attempt():
            if time.monotonic() > until:
                return False
            self.crew.ring()
            time.sleep(_SHORTEST)
        return True

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return self.crew.statistics()


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
