"""What the application fetches: results that came and wait, aligned where the graph asks for it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from softnpu.flow import codes
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
    """All outputs. `taken(message)` tells the sender that there is room again. Not locked: the session is."""

    def __init__(self, plan: Plan, taken: Callable[[Message], None]) -> None:
        self._plan = plan
        self._taken = taken
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

    def ready(self, indexes: list[int], aligned: bool) -> Fetched | None:
        """The next set of results, or None while one is missing."""
        if aligned and self._plan.align.cache:
            return self._ready_aligned(indexes)
        queues = self.queues
        for index in indexes:
            if not queues[index].messages:
                return None
        messages = [queues[index].messages[0] for index in indexes]
        for message in messages:
            self._taken(message)
        for index in indexes:  # last: an interrupt before it loses nothing
            queues[index].messages.popleft()
        code = next((message.ret_code for message in messages if message.ret_code), codes.SUCCESS)
        return messages, messages[0] if messages else None, code

    def _ready_aligned(self, indexes: list[int]) -> Fetched | None:
        key = tuple(sorted(indexes))
        aligner = self._aligners.get(key)
        if aligner is None:
            aligner = self._aligners[key] = Aligner(key, self._plan.align)
            self._raised[key] = deque(self._ended.values())
            for trans_id in self._ended:
                aligner.drop(trans_id)
        if self._raised[key]:
            return [], self._raised[key].popleft(), codes.USER_RAISE_EXCEPTION
        now = time.monotonic()
        while (group := aligner.pop(now)) is None:
            index = next((each for each in (aligner.wanted(), *key) if self.queues[each].messages), None)
            if index is None:
                return None
            message = self.queues[index].messages.popleft()
            self._taken(message)
            aligner.push(index, message, now)
        by_index = dict(zip(key, group, strict=True))
        messages = [by_index[index] for index in indexes]
        if isinstance(group, Incomplete):
            return messages, next((each for each in messages if not each.ret_code), messages[0]), codes.DATA_NOT_ALIGNED
        code = next((message.ret_code for message in messages if message.ret_code), codes.SUCCESS)
        return messages, messages[0], code

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
