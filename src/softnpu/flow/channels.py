"""The two ends of a channel. How far the receiver is stands in shared memory, where the sender reads it when it must.

Two words for each channel, written by the receiver only: messages that left its queue, and messages below which all are
finished. The sender writes a third one for those who watch: messages that it sent. The top byte says which life of the sender is meant, so that a sender that was started again does not believe
numbers of its former one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from softnpu.flow.message import Message

EPOCHS = 256  # lives that a record and a word can tell apart; then the numbers begin again
_EPOCH_AT = 56
_REMEMBERED = 512
_COUNT = (1 << _EPOCH_AT) - 1
WORDS = 3
TAKEN, FLOOR, SENT = range(WORDS)


def count(word: int, epoch: int) -> int:
    """The number in a word, if it speaks of this life of the sender."""
    return word & _COUNT if word >> _EPOCH_AT == epoch else 0


def restarted(word: int) -> int:
    """A word of a receiver that begins anew: it has taken and finished nothing yet."""
    return word & ~_COUNT


def life(word: int) -> int:
    """Which life of the sender a word speaks of."""
    return word >> _EPOCH_AT


class Outgoing:
    """The sender's end. Records stay here until the receiver has finished with them, so that a new receiver gets them again."""

    __slots__ = (
        "_marks",
        "_own",
        "_sent_at",
        "asked",
        "depth",
        "epoch",
        "number",
        "overwrite",
        "peer",
        "retained",
        "sent",
        "taken",
        "waiting",
    )

    def __init__(self, number: int, peer: int, depth: int, overwrite: bool, marks: memoryview, own: int) -> None:
        self.number = number
        self.peer = peer
        self.depth = depth
        self.overwrite = overwrite
        self.epoch = 0  # of the receiver
        self.sent = 0  # in the receiver's present life
        self.taken = 0  # of these, so many left the receiver's queue
        self.retained: deque[tuple[int, bytes]] = deque()
        self.waiting: deque[bytes] = deque()  # for room in the receiver's queue
        self.asked = False  # the receiver was told that somebody waits
        self._marks = marks
        self._own = own  # life of this process
        self._sent_at = WORDS * number + SENT
        marks[self._sent_at] = own << _EPOCH_AT

    def add(self) -> None:
        """One more is on its way."""
        self.sent = sent = self.sent + 1
        self._marks[self._sent_at] = self._own << _EPOCH_AT | sent

    def room(self) -> bool:
        """Whether the receiver's queue can take one more."""
        if self.sent - self.taken < self.depth:
            return True
        self.taken = count(self._marks[WORDS * self.number], self._own)
        return self.sent - self.taken < self.depth

    def prune(self) -> None:
        """Forget what the receiver has finished."""
        floor = count(self._marks[WORDS * self.number + 1], self._own)
        retained = self.retained
        while retained and retained[0][0] < floor:
            retained.popleft()

    def restarted(self, epoch: int, floor: int) -> list[bytes]:
        """The receiver was started anew: what it must be told again. `floor` is the last word of its former life."""
        floor = count(floor, self._own)
        again = [record for sequence, record in self.retained if sequence >= floor]
        self.retained.clear()
        self.epoch = epoch
        self.sent = self.taken = 0
        self._marks[self._sent_at] = self._own << _EPOCH_AT
        self.asked = False
        return again


class Incoming:
    """The receiver's end."""

    __slots__ = (
        "_marks",
        "asked",
        "before",
        "deliver",
        "depth",
        "done",
        "epoch",
        "floor",
        "number",
        "peer",
        "recent",
        "taken",
    )

    def __init__(
        self, number: int, peer: int, depth: int, deliver: Callable[[Message], None], marks: memoryview
    ) -> None:
        self.number = number
        self.peer = peer
        self.depth = depth
        self.deliver = deliver
        self._marks = marks
        self.recent: deque[int] = deque(maxlen=_REMEMBERED)  # transactions, over all lives of the sender
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """A sender that counts from its start; what it made last in a former life it may make again."""
        self.before = Counter(self.recent)
        self.epoch = epoch
        self.taken = 0
        self.floor = 0
        self.done: set[int] = set()
        self.asked = -1  # how many had been sent when the sender said that it waits for room
        self._marks[WORDS * self.number] = epoch << _EPOCH_AT
        self._marks[WORDS * self.number + 1] = epoch << _EPOCH_AT

    def close(self) -> None:
        """The shared memory goes; messages that nobody fetched still know this channel."""
        self._marks = memoryview(bytearray(8 * WORDS * (self.number + 1))).cast("Q")

    def take(self) -> None:
        """A message left the queue."""
        self.taken += 1
        self._marks[WORDS * self.number] = self.epoch << _EPOCH_AT | self.taken

    def known(self, trans_id: int) -> bool:
        """Whether a message that was made again is here already, from a life that ended before it could say so."""
        if not self.before.get(trans_id):
            return False
        self.before[trans_id] -= 1
        return True

    def free(self) -> int:
        """Places in the queue that a waiting sender could fill."""
        return self.depth - (self.asked - self.taken)

    def finish(self, sequence: int) -> None:
        """A message is done with, its results are out."""
        if sequence != self.floor:
            self.done.add(sequence)
            return
        self.floor += 1
        done = self.done
        while done and self.floor in done:
            done.remove(self.floor)
            self.floor += 1
        self._marks[WORDS * self.number + 1] = self.epoch << _EPOCH_AT | self.floor
