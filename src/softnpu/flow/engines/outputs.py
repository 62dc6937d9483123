"""What the application fetches: results that came and wait, aligned where the graph asks for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from softnpu.flow import atomic, codes
from softnpu.flow.atomic import Taken
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan
from softnpu.flow.rules.align import Aligner, Incomplete

Fetched = tuple[list[Message], Message | None, int]


class Output:
    """The queue of one output of the graph."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()

    def arrive(self, message: Message) -> None:
        """A result came."""
        self.messages.append(message)

    def backlog(self) -> int:
        """Results that wait."""
        return len(self.messages)


class Outputs:
    """All outputs. `on_taken(message)` tells the sender that there is room again. Not locked: the session is."""

    def __init__(self, plan: Plan, on_taken: Callable[[Message], None]) -> None:
        self._plan = plan
        self._on_taken = on_taken
        self.queues = [Output() for _ in plan.outputs]
        self._aligners: dict[tuple[int, ...], Aligner] = {}
        self._raised: dict[tuple[int, ...], deque[Message]] = {}
        self._ended: dict[int, Message] = {}  # raised transactions with their envelopes, for sets not fetched before

    def check(self, indexes: list[int], aligned: bool) -> int:
        """The code of a wrong set of outputs; 0 if it is right."""
        if len(set(indexes)) != len(indexes) or any(not 0 <= each < len(self.queues) for each in indexes):
            return codes.PARAM_INVALID
        if aligned and self._plan.align.cache:
            mine = tuple(sorted(indexes))
            if any(set(mine) & set(other) for other in self._aligners if other != mine):
                return codes.FAILED
        return codes.SUCCESS

    def ready(self, indexes: list[int], aligned: bool, taken: Taken) -> Fetched | None:
        """The next set of results, or None while one is missing. They are in `taken`, too: see `put_back`."""
        if aligned and self._plan.align.cache:
            return self._ready_aligned(indexes, taken)
        queues = self.queues
        for index in indexes:
            if not queues[index].messages:
                return None
        for index in indexes:
            atomic.take_first(queues[index].messages, taken)
        messages = [message for _, message in taken]
        for message in messages:
            self._on_taken(message)
        code = next((message.ret_code for message in messages if message.ret_code), codes.SUCCESS)
        return messages, messages[0] if messages else None, code

    def _ready_aligned(self, indexes: list[int], taken: Taken) -> Fetched | None:
        key = tuple(sorted(indexes))
        aligner = self._aligner(key)
        raised = self._raised[key]
        if raised:
            atomic.take_first(raised, taken)
            return [], taken[0][1], codes.USER_RAISE_EXCEPTION
        now = time.monotonic()
        while not (groups := aligner.due(now)):
            index = next((each for each in (aligner.wanted(), *key) if self.queues[each].messages), None)
            if index is None:
                return None
            atomic.take_first(self.queues[index].messages, taken)
            self._on_taken(taken[0][1])
            aligner.push(index, taken[0][1], now)
            del taken[0]
        atomic.take_first(groups, taken)
        group = taken[0][1]
        by_index = dict(zip(key, group, strict=True))
        messages = [by_index[index] for index in indexes]
        if isinstance(group, Incomplete):
            return messages, next((each for each in messages if not each.ret_code), messages[0]), codes.DATA_NOT_ALIGNED
        code = next((message.ret_code for message in messages if message.ret_code), codes.SUCCESS)
        return messages, messages[0], code

    def _aligner(self, key: tuple[int, ...]) -> Aligner:
        aligner = self._aligners.get(key)
        if aligner is None:
            aligner = Aligner(key, self._plan.align)
            for trans_id in self._ended:
                aligner.drop(trans_id)
            self._raised[key] = deque(self._ended.values())
            self._aligners[key] = aligner
        return aligner

    def put_back(self, taken: Taken) -> None:
        """A fetch was broken off by an exception out of a signal handler: the next one gets what it had taken."""
        for aligner in self._aligners.values():
            aligner.mend()
        while taken:
            if any(aligner.holds(taken[-1][1]) for aligner in self._aligners.values()):
                del taken[-1]
            else:
                atomic.put_back_last(taken)

    def deadline(self, indexes: list[int]) -> float | None:
        """When an incomplete group will be given up."""
        aligner = self._aligners.get(tuple(sorted(indexes)))
        return aligner.deadline() if aligner is not None else None

    def raised(self, trans_id: int, envelope: Message) -> None:
        """A function ended a transaction: each set of outputs reports it once."""
        envelope.trans_id = 0
        self._ended[trans_id] = envelope
        if len(self._ended) > 1024:
            del self._ended[next(iter(self._ended))]
        for key, aligner in self._aligners.items():
            aligner.drop(trans_id)
            self._raised[key].append(envelope)
