"""Steps that no signal cuts in two: everything that makes feed and fetch safe against exceptions out of signal handlers.

A handler may raise (Ctrl-C does) in the middle of `feed` or `fetch`, and the program may go on: then a feed has happened or
it has not, and a result is never lost and never comes twice.

When a handler can run. CPython looks for signals when a Python function begins, after a call of a function that is written
in C, and when a loop goes back to its beginning. It does not look between other instructions, and not when a Python function
returns. So what belongs together is

1. **stored in lines without a call**, after everything that may fail or be interrupted: the functions below. They call what
   they need first (a length, a size); from their first store on there is no call and no loop. A test reads their bytecode.
2. **one call of a C function**, where a system call and the note of its result belong together: `noting`. The result is in a
   list before any handler can run; who comes next sees it there and does not make the call again.
3. **promised before it is done**, where it is too much for one step. A feed notes all its records in the list `promised` of
   the outbox in one line; whoever comes next (`Outbox.catch_up`), be it a fetch or the supervising thread, sends what is
   left. A fetch notes what it takes in a list of its own (`take_first`); if it does not come to its end, the graph puts back
   what is in that list (`put_back_last`). The inbox keeps bytes that it read until they are handled, and notes in the same
   line as the message that it was.
4. **owned by an object of the call**, where it is a turn: who reads the inbox for all is in `Session._reader`, and a
   `finally` that compares objects gives the turn back, wherever the exception came from.

Who only dies (kill -9) needs none of this: see `transport/channels`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableSequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softnpu.flow.message import Message
    from softnpu.flow.rules.align import Aligner, Group
    from softnpu.flow.rules.transactions import Ids
    from softnpu.flow.transport.channels import Incoming, Outgoing
    from softnpu.flow.transport.inbox import Inbox
    from softnpu.flow.transport.outbox import Addressed, Outbox
    from softnpu.flow.transport.writer import Peer

Taken = list[tuple[deque[Any], Any]]  # what a fetch has taken, and from where
_item = itemgetter(1)


def noting(results: list[Any], function: Callable[..., Any], *arguments: Iterable[Any]) -> None:
    """Call a C function with one element of each of the arguments; what it gives is in `results` before a handler can run."""
    results.extend(map(function, *arguments))


# ---- feeding and fetching ------------------------------------------------------------------------------------------------------------


def promise(outbox: Outbox, records: list[Addressed], ids: Ids, numbers: list[int]) -> None:
    """The feed: its transactions are counted, and its records will be sent by whoever comes next."""
    ids.numbers = numbers
    outbox.promised += records


def take_first(source: deque[Any], taken: Taken) -> None:
    """The first of a queue goes to what a fetch has taken."""
    taken += ((source, source[0]),)
    del source[0]


def put_back_last(taken: Taken) -> None:
    """The last that was taken goes back to where it was: from the one list to the other in one call."""
    source = taken[-1][0]
    source.extendleft(map(_item, map(taken.pop, (-1,))))


def join_group(aligner: Aligner, group: Group, slot: int, message: Message) -> None:
    """A message takes its place in a group of those that belong together."""
    group.messages[slot] = message
    group.missing -= 1
    aligner.cached[slot] += 1


def complete_group(aligner: Aligner, number: int, group: Group) -> None:
    """A group of which none is missing leaves all tables and is ready."""
    siblings = aligner.open[group.key]
    cached = [each - 1 for each in aligner.cached]
    aligner.ready += (group.messages,)  # type: ignore[arg-type]  # none is missing
    aligner.cached = cached
    del aligner.groups[number]
    del siblings[number]
    if not siblings:
        del aligner.open[group.key]


# ---- sending -------------------------------------------------------------------------------------------------------------


def append_record(peer: Peer, record: bytes) -> None:
    """A record that nobody counts is on its way to another process."""
    size = peer.size + len(record)
    peer.records += (record,)
    peer.size = size


def send_record(channel: Outgoing, peer: Peer, record: bytes, note: int) -> None:
    """A message is on its way: kept until it is finished, noted and counted in shared memory."""
    size = peer.size + len(record)
    sent = channel.sent
    marks = channel.marks
    channel.retained[sent] = record
    peer.records += (record,)
    peer.size = size
    marks[channel.notes_at + sent % channel.notes] = note
    marks[channel.sent_at] = channel.served << 56 | sent + 1
    channel.sent = sent + 1


def hold_record(outbox: Outbox, channel: Outgoing, record: bytes, note: int) -> None:
    """A message waits for room in the receiver's queue."""
    channel.waiting += ((record, note),)
    outbox.waiting += 1


def load_batch(peer: Peer, batch: bytes, size: int, count: int) -> None:
    """The first records become the batch that is written next."""
    peer.batch = batch
    peer.batch_size = size
    del peer.records[:count]


def batch_written(peer: Peer) -> None:
    """The system took a batch, and said so (see `noting`)."""
    peer.size -= peer.batch_size
    peer.batch = b""
    del peer.written[0]


# ---- receiving -----------------------------------------------------------------------------------------------------------


def take_in(inbox: Inbox, came: bytes) -> None:
    """Bytes that were read are to be handled; if that is broken off, the next who reads goes on."""
    inbox.unhandled += came
    inbox.came = []
    inbox.broken_off = True


def deliver(channel: Incoming, sink: MutableSequence[Message], message: Message, sequence: int) -> None:
    """A message is in the queue that its channel ends in, its memory is its receiver's, and it is counted."""
    grant = message.ticket
    message.ticket = (channel, sequence)
    if grant is not None:
        grant[0] = True
    sink += (message,)
    channel.next = sequence + 1
