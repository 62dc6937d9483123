"""The two ends of a channel. How far each of them is stands in shared memory and outlives both.

The receiver writes two words: messages that left its queue, and messages below which all are finished. The sender writes
two: messages that it sent, with a top byte that says which life of the receiver surely has them; and the number from which
on it sent everything again that was not finished. Behind them it notes the transaction of each message.

Numbers only grow: what is sent again gets a new one. A receiver that hears of a higher number than it expects, from a new
sender or as the first thing in its life, takes those between as finished, and blots out their notes: they come with another
number.

So the notes outlive both ends. Below the finished mark they say which transactions the receiver had: if a new life of the
sender makes one of them again, it is dropped. What that life can make again was sent since its inputs were last all
finished: that number, too, the sender writes down (`committed`), so that a second message of a transaction is not mistaken for
the first. Above it they say which were on their way: when both ends died, the next sender cannot send
their content, but it can say that they failed.

No lock is shared. A word has one writer (for a dead one the supervisor writes, before its next life begins; a note is the
sender's until it is sent, then the receiver's) and is stored whole. Whoever reads it meanwhile sees what was right a moment
ago, which is too low: it keeps a record too long, or waits for room too long, but never the other way round.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, MutableSequence
from typing import Protocol

from softnpu.flow.message import Message

EPOCHS = 256  # lives that a record and a word can tell apart; then the numbers begin again
_EPOCH_AT = 56
_COUNT = (1 << _EPOCH_AT) - 1
TAKEN, FLOOR, SENT, _BASE, _NEXT_BASE, _COMMITTED, _PLANNED, _PLAN, _NOTES = range(9)
REMADE = 1 << 63  # in a note: the message may have been sent before, by a former life
_NOTHING = 0  # in a note: the receiver did not get that message, and need not: it comes with another number
_FEWEST = 1024
_NEVER = 1 << 63


def words_for(unfinished: int) -> int:
    """Words of a channel: notes for several times as many messages as are meant to be on their way (see LostTrack)."""
    return max(_FEWEST, 8 * unfinished)


def count(word: int) -> int:
    """How many messages were sent, in the sender's word."""
    return word & _COUNT


class Queue(Protocol):
    """What a channel ends in: an input of a node instance, or an output of the graph."""

    def arrive(self, message: Message) -> None:
        """A message came."""

    def backlog(self) -> int:
        """How many messages wait."""


class LostTrack(RuntimeError):
    """Nobody knows any more which transactions are lost: the graph has to end."""


class Outgoing:
    """The sender's end. Records stay here until the receiver has finished with them, so that a new receiver gets them again."""

    __slots__ = (
        "asked",
        "born",
        "committed",
        "committed_at",
        "depth",
        "epoch",
        "first",
        "floor_at",
        "lost",
        "marks",
        "notes",
        "notes_at",
        "number",
        "oldest",
        "overwrite",
        "peer",
        "retained",
        "sent",
        "sent_at",
        "served",
        "taken",
        "taken_at",
        "waiting",
    )

    def __init__(self, number: int, peer: int, depth: int, overwrite: bool, marks: memoryview, words: int) -> None:
        self.number = number
        self.peer = peer
        self.depth = depth
        self.overwrite = overwrite
        self.marks = marks
        self.taken_at = words * number
        self.floor_at, self.sent_at = self.taken_at + FLOOR, self.taken_at + SENT
        self.notes_at = self.taken_at + _NOTES
        self.notes = words - _NOTES
        self.epoch = self.served = marks[self.sent_at] >> _EPOCH_AT  # of the receiver that a former life sent to
        self.sent = self.first = count(marks[self.sent_at])  # what is below `first` was sent by a former life
        self.committed_at = self.taken_at + _COMMITTED
        self.committed, self.born = (
            marks[self.committed_at],
            self.sent,
        )  # what this life may make again was sent between these
        self.taken = marks[self.taken_at]  # so many left the receiver's queue
        self.retained: dict[int, bytes] = {}  # by number
        self.oldest = self.sent
        self.waiting: deque[tuple[bytes, int]] = deque()  # for room in the receiver's queue, with their notes
        self.asked = False  # the receiver was told that somebody waits
        self.lost: Counter[int] = Counter()  # transactions of a former life that were said to have failed

    def room(self) -> bool:
        """Whether the receiver's queue can take one more."""
        if self.sent - self.taken < self.depth:
            return True
        self.taken = self.marks[self.taken_at]
        return self.sent - self.taken < self.depth

    def append(self, record: bytes, note: int) -> None:
        """A record that is sent again. It does not count before all are there: this life may end in between."""
        self.retained[self.sent] = record
        self.marks[self.notes_at + self.sent % self.notes] = note
        self.sent += 1

    def appended(self) -> None:
        """All are there, and what is below them is void: with the second line both, before it neither (see `_base`)."""
        self.marks[self.taken_at + _NEXT_BASE] = self.first
        self.marks[self.sent_at] = self.served << _EPOCH_AT | self.sent
        self.marks[self.taken_at + _BASE] = self.first

    def _base(self) -> int:
        """From here on everything was sent again that was not finished."""
        planned = self.marks[self.taken_at + _NEXT_BASE]
        return planned if planned < count(self.marks[self.sent_at]) else self.marks[self.taken_at + _BASE]

    def settled(self) -> None:
        """All that the receiver's present life had to be told again is in its pipe."""
        self.served = self.epoch
        self.marks[self.sent_at] = self.served << _EPOCH_AT | self.sent

    def prune(self) -> None:
        """Forget what the receiver has finished."""
        floor = self.marks[self.floor_at]
        retained = self.retained
        for sequence in range(self.oldest, floor):
            retained.pop(sequence, None)
        self.oldest = max(self.oldest, floor)

    def gone(self, trans_id: int) -> bool:
        """Whether a result that was made again is of a transaction that was given up before."""
        if not self.lost.get(trans_id):
            return False
        self.lost[trans_id] -= 1
        return True

    def restarted(self, epoch: int) -> tuple[list[int], list[bytes]]:
        """The receiver was started anew: notes of what nobody can send again, and records of what it must be told again."""
        floor = self.marks[self.floor_at]
        first = max(floor, self._base())
        if self.first - first > self.notes and not self.overwrite:
            raise LostTrack(
                f"channel {self.number}: {self.first - first} messages were on their way when both its ends died, "
                f"{self.notes} are noted; let fewer wait (a shorter window, fewer results of one call)"
            )
        first = max(first, self.first - self.notes)
        again = [record for sequence, record in self.retained.items() if sequence >= floor]
        notes = [self.marks[self.notes_at + each % self.notes] for each in range(first, self.first)]
        self.retained.clear()
        self.epoch = epoch
        self.first = self.oldest = self.sent
        self.taken = floor
        self.asked = False
        return once(notes), again


def once(notes: list[int]) -> list[int]:
    """Transactions of notes; one that later lives noted again counts once."""
    known = set(notes)
    transactions = []
    for note in notes:
        if note < REMADE:
            transactions.append(note)
        elif note - REMADE not in known:
            known.add(note - REMADE)
            transactions.append(note - REMADE)
    return [note for note in transactions if note != _NOTHING]


def write_progress(channels: list[Incoming], marks: memoryview, plan_at: int) -> None:
    """How far a receiver is, on all its channels or on none: messages that were called together are finished together.

    The plan stands in shared memory while it is carried out: if the receiver ends meanwhile, `recover` does the rest.
    """
    for channel in channels:
        marks[channel.taken_at + _PLANNED] = channel.floor
    marks[plan_at] = 1
    for channel in channels:
        marks[channel.taken_at + FLOOR] = channel.floor
    marks[plan_at] = 0


def plan_at(numbers: list[int], words: int) -> int:
    """The word that says that a plan of the receiver of these channels is good."""
    return words * min(numbers) + _PLAN


def recover(marks: memoryview, numbers: list[int], words: int) -> None:
    """The receiver of these channels is dead: what it had taken from its queues and not finished comes again."""
    planned = bool(numbers) and marks[plan_at(numbers, words)]
    for number in numbers:
        at = words * number
        if planned:
            marks[at + FLOOR] = max(marks[at + FLOOR], marks[at + _PLANNED])
        marks[at + TAKEN] = marks[at + FLOOR]
    if planned:
        marks[plan_at(numbers, words)] = 0


class Incoming:
    """The receiver's end. `sink` is where messages are put at once; without one `deliver` is called."""

    __slots__ = (
        "_marks",
        "_notes",
        "_notes_at",
        "asked",
        "before",
        "deliver",
        "depth",
        "done",
        "due",
        "epoch",
        "floor",
        "next",
        "number",
        "peer",
        "sink",
        "taken",
        "taken_at",
        "together",
    )

    def __init__(
        self,
        number: int,
        peer: int,
        depth: int,
        deliver: Callable[[Message], None],
        marks: memoryview,
        words: int,
        new: bool = True,
    ) -> None:
        self.number = number
        self.peer = peer
        self.depth = depth
        self.deliver = deliver
        self.sink: MutableSequence[Message] | None = None
        self._marks = marks
        self.taken_at = words * number
        self._notes_at, self._notes = self.taken_at + _NOTES, words - _NOTES
        self.before: Counter[int] = Counter()  # transactions that the sender's former lives sent and it may make again
        self.epoch = -1  # of the sender
        self.floor = self.taken = self.next = marks[self.taken_at + FLOOR]
        self.done: set[int] = set()
        self.due = 0 if new else _NEVER  # below it is what a former life of the receiver may have worked on
        self.together: dict[Incoming, None] | None = (
            None  # channels whose progress is to be written at once: see `write_progress`
        )
        self.asked = -1  # how many had been sent when the sender said that it waits for room

    def begin(self, epoch: int, sequence: int, committed: int = 0, born: int = 0) -> None:
        """A new sender, which goes on with this number. It may make again what was sent from `committed` on, before its birth."""
        self.epoch = epoch
        self.asked = -1
        readable = self._readable()
        self.due = count(self._marks[self.taken_at + SENT])
        sent = range(max(committed, readable, 0), min(born, self.next))
        notes = [self._marks[self._notes_at + each % self._notes] & ~REMADE for each in sent]
        self.before = Counter(notes[max(0, self._readable() - sent.start) :])
        self.before.pop(_NOTHING, None)
        for missing in range(self.next, sequence):  # counted, but not sent to this life: they are made or sent again
            if missing >= readable:
                self._marks[self._notes_at + missing % self._notes] = _NOTHING
            self.take()
            self.finish(missing)
        self.next = max(self.next, sequence)

    def _readable(self) -> int:
        """From here on the notes are good: the sender writes new ones over the oldest, at most half of them unannounced."""
        return count(self._marks[self.taken_at + SENT]) - self._notes // 2

    def even(self) -> bool:
        """Whether a next life of the receiver would get nothing again of what is finished now, nor of former lives."""
        return not self.done and self.floor >= self.due

    def close(self) -> None:
        """The shared memory goes; messages that nobody fetched still know this channel."""
        self._marks = memoryview(bytearray(8 * (self.taken_at + _NOTES))).cast("Q")

    def take(self) -> None:
        """A message left the queue."""
        self.taken += 1
        self._marks[self.taken_at] = self.taken

    def known(self, trans_id: int) -> bool:
        """Whether a message that was made again came already, from a life that ended before it could say so."""
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
            if sequence > self.floor:
                self.done.add(sequence)
            return
        self.floor += 1
        done = self.done
        while done and self.floor in done:
            done.remove(self.floor)
            self.floor += 1
        if self.together is None:
            self._marks[self.taken_at + FLOOR] = self.floor
        else:
            self.together[self] = None
