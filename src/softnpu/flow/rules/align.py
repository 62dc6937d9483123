"""Alignment: messages of several inputs meet by (transaction id, data label), whatever the order of arrival."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from softnpu.flow import atomic, codes
from softnpu.flow.message import Message, failure
from softnpu.flow.plan import AlignRule

REMEMBERED = 1024

Key = tuple[int, int]


def _bound(memory: dict[Any, Any]) -> None:
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


class Incomplete(list[Message]):
    """A group that was delivered without all its messages; the gaps are empty messages with code 364000."""


class Group:
    """One transaction's messages so far."""

    __slots__ = ("born", "key", "messages", "missing")

    def __init__(self, key: Key, size: int, born: float) -> None:
        self.key = key
        self.messages: list[Message | None] = [None] * size
        self.missing = size
        self.born = born


class Aligner:
    """Groups that wait for their missing messages, at most `rule.cache` of them; the oldest goes first.

    - A group that is overdue, or the oldest when one more would exceed the cache, is given up: forgotten with
      `dropout`, else delivered as `Incomplete`. A function gets that list as it is; `fetch_data` looks at
      `isinstance(group, Incomplete)` and returns 345104 (a message that carries 364000 from an earlier node is no
      sign: it can be part of a complete group).
    - The same key may come several times (equal user ids, a generator): inside one key the k-th message of each input
      meets the k-th of the others.
    - Late messages: what a given-up group lacked is discarded when it comes after all, once per gap, so that it cannot
      start a group that can never be complete. What is dropped by `drop` stays dropped. Both memories hold 1024
      entries; beyond that a late message starts a group, which is given up in its turn.
    - `gone` is called with every message that leaves without being delivered (late, or its group given up with
      `dropout`); `drop` and `discard_all` return theirs instead.
    - Complete groups that nobody popped do not count for the cache: pop before reading more.
    """

    def __init__(
        self, inputs: tuple[int, ...], rule: AlignRule, gone: Callable[[Message], object] = lambda message: None
    ) -> None:
        if rule.cache < 1:
            raise ValueError(f"alignment with a cache of {rule.cache} groups is off; use Pairing")
        self._slot = {index: slot for slot, index in enumerate(inputs)}
        self._inputs = inputs
        self._rule = rule
        self._gone = gone
        self._wait = rule.timeout / 1000 if rule.timeout >= 0 else None
        self.groups: dict[int, Group] = {}  # by age
        self.open: dict[Key, dict[int, Group]] = {}  # the same groups by key, oldest first
        self.ready: deque[list[Message]] = deque()
        self.cached = [0] * len(inputs)  # messages in open groups
        self._debts: dict[Key, list[int]] = {}  # late messages that are still to be discarded, per input
        self._dropped: dict[int, None] = {}
        self._count = 0
        self.given_up = 0  # groups that were overdue or one too many
        self.late = 0  # messages discarded because their group had gone

    def push(self, input_index: int, message: Message, now: float) -> None:
        """A message arrived on an input."""
        slot = self._slot[input_index]
        if self._dropped and message.trans_id in self._dropped:
            self._discard(message)
            return
        if len(self._inputs) == 1:
            self.ready.append([message])
            return
        key = (message.trans_id, message.data_label)
        if self._debts and self._settle(key, slot):
            self._discard(message)
            return
        number, group = self._group(key, slot, now)
        atomic.join_group(self, group, slot, message)
        if not group.missing:
            atomic.complete_group(self, number, group)
        elif len(self.groups) > self._rule.cache:
            self._give_up()

    def pop(self, now: float) -> list[Message] | None:
        """The next group in the order of the inputs, complete or `Incomplete`; None when all have to wait."""
        ready = self.due(now)
        return ready.popleft() if ready else None

    def due(self, now: float) -> deque[list[Message]]:
        """What `pop` would give, now and next."""
        if self._wait is not None:
            while (due := self.deadline()) is not None and due <= now:
                self._give_up()
        return self.ready

    def holds(self, message: Message) -> bool:
        """Whether a message has come so far."""
        if any(each is message for group in self.groups.values() for each in group.messages):
            return True
        return any(each is message for group in self.ready for each in group)

    def mend(self) -> None:
        """After an exception out of the middle of `push`: complete groups go on, one that has nothing yet goes."""
        for number, group in list(self.groups.items()):
            if not group.missing:
                atomic.complete_group(self, number, group)
            elif group.missing == len(self._inputs):
                self._take(number)

    def deadline(self) -> float | None:
        """When `pop` has to be asked again although nothing arrives."""
        if self._wait is None or not self.groups:
            return None
        return next(iter(self.groups.values())).born + self._wait

    def wanted(self) -> int:
        """The input to read first: the one with the fewest messages in the cache."""
        cached = self.cached
        return self._inputs[cached.index(min(cached))]

    def drop(self, trans_id: int) -> list[Message]:
        """A transaction was raised: forget it and what still comes of it; the messages that were held."""
        self._dropped[trans_id] = None
        _bound(self._dropped)
        numbers = [number for number, group in self.groups.items() if group.key[0] == trans_id]
        held = [message for number in numbers for message in self._take(number)]
        held += [message for group in self.ready for message in group if message.trans_id == trans_id]
        kept = [group for group in self.ready if group[0].trans_id != trans_id]
        self.ready.clear()
        self.ready.extend(kept)
        return held

    def discard_all(self) -> list[Message]:
        """Forget everything, the late ones too; the messages that were held."""
        held = [message for number in list(self.groups) for message in self._take(number)]
        held += [message for group in self.ready for message in group]
        for memory in (self.ready, self._debts, self._dropped):
            memory.clear()
        return held

    def __len__(self) -> int:
        """Messages held, gaps of groups that wait to be popped included."""
        return sum(self.cached) + len(self.ready) * len(self._inputs)

    def __bool__(self) -> bool:
        """Also without messages: `aligner or other` means the aligner."""
        return True

    def waiting(self, input_index: int) -> int:
        """Messages of one input that lack partners."""
        return self.cached[self._slot[input_index]]

    def _group(self, key: Key, slot: int, now: float) -> tuple[int, Group]:
        """The oldest group of a key with room for this input."""
        siblings = self.open.setdefault(key, {})
        for number, group in siblings.items():
            if group.messages[slot] is None:
                return number, group
        self._count += 1
        group = Group(key, len(self._inputs), now)
        self.groups[self._count] = siblings[self._count] = group
        return self._count, group

    def _take(self, number: int) -> list[Message]:
        """Close a group: out of all tables."""
        group = self.groups.pop(number)
        siblings = self.open[group.key]
        del siblings[number]
        if not siblings:
            del self.open[group.key]
        messages = []
        for slot, message in enumerate(group.messages):
            if message is not None:
                self.cached[slot] -= 1
                messages.append(message)
        return messages

    def _give_up(self) -> None:
        number, group = next(iter(self.groups.items()))
        present = self._take(number)
        self.given_up += 1
        debts = self._debts.setdefault(group.key, [0] * len(self._inputs))
        _bound(self._debts)
        for slot, held in enumerate(group.messages):
            debts[slot] += held is None
        if self._rule.dropout:
            for message in present:
                self._gone(message)
            return
        code = codes.FUNC_DATA_ALIGN_FAILED
        self.ready.append(Incomplete(message or failure(code, present[0]) for message in group.messages))

    def _discard(self, message: Message) -> None:
        self.late += 1
        self._gone(message)

    def _settle(self, key: Key, slot: int) -> bool:
        """Whether this message was given up on; it is then paid for."""
        debts = self._debts.get(key)
        if not debts or not debts[slot]:
            return False
        debts[slot] -= 1
        if not any(debts):
            del self._debts[key]
        return True
