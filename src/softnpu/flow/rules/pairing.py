"""Inputs of a function without alignment: the k-th message of each input meets the k-th of the others."""

from __future__ import annotations

from collections import deque

from softnpu.flow.message import Message


class Pairing:
    """Messages that wait for their partners. `Pairing((3,))` is a plain queue: one input needs no bookkeeping.

    No bound of its own: whoever reads the edges stops at `waiting(index)`. A function without inputs gets an empty
    group at every `pop`.
    """

    __slots__ = ("_queues", "_slots")

    def __new__(cls, inputs: tuple[int, ...]) -> Pairing:
        return super().__new__(_Single if len(inputs) == 1 else cls)

    def __init__(self, inputs: tuple[int, ...]) -> None:
        self._slots: dict[int, deque[Message]] = {index: deque() for index in inputs}
        self._queues = tuple(self._slots.values())

    def push(self, input_index: int, message: Message) -> None:
        """A message arrived on an input of the node."""
        self._slots[input_index].append(message)

    def pop(self) -> list[Message] | None:
        """The next complete group in the order of the inputs; None while one is missing."""
        for queue in self._queues:
            if not queue:
                return None
        return [queue.popleft() for queue in self._queues]

    def __len__(self) -> int:
        """Messages held, whether their group is complete or not."""
        return sum(map(len, self._queues))

    def waiting(self, input_index: int) -> int:
        """Messages held of one input."""
        return len(self._slots[input_index])

    def drop_oldest(self, input_index: int) -> Message:
        """Give up the oldest message of an input that must not grow."""
        return self._slots[input_index].popleft()

    def drop(self, trans_id: int) -> list[Message]:
        """Forget a transaction that was raised; its messages. The others close up."""
        gone = [message for queue in self._queues for message in queue if message.trans_id == trans_id]
        if gone:
            for queue in self._queues:
                kept = [message for message in queue if message.trans_id != trans_id]
                queue.clear()
                queue.extend(kept)
        return gone

    def discard_all(self) -> list[Message]:
        """Forget everything; what there was."""
        gone = [message for queue in self._queues for message in queue]
        for queue in self._queues:
            queue.clear()
        return gone


class _Single(Pairing):
    """One input: what arrives is complete."""

    __slots__ = ("_queue",)

    def __init__(self, inputs: tuple[int, ...]) -> None:
        super().__init__(inputs)
        self._queue = self._queues[0]

    def push(self, input_index: int, message: Message) -> None:
        # The index says nothing here: there is one queue.
        self._queue.append(message)

    def pop(self) -> list[Message] | None:
        queue = self._queue
        return [queue.popleft()] if queue else None

    def __len__(self) -> int:
        return len(self._queue)
