"""What one process sends: where payloads are put, which channel a message takes, and what waits for room in a queue.

Interrupts (see `writing`): what is to be done for several channels is noted in `todo` first and done from there, by the
next who comes if need be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from softnpu.flow import codes
from softnpu.flow.message import LOCAL, RAW, TENSOR, Message, Payload, failure
from softnpu.flow.rules.route import choose
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import REMADE, Outgoing
from softnpu.flow.transport.memory import TOKENS, Atlas, as_bytes, lease_of, nbytes_of
from softnpu.flow.transport.writing import Writer
from softnpu.flow.values import codec

_CROWDED = 16 * wire.PIPE_BUF

Groups = Sequence[Sequence[int]]
Made = tuple[Outgoing, bytes, int]  # a record for a channel, and the note of its transaction


class Queue(Protocol):
    """An input of a node instance, or an output of the graph."""

    def arrive(self, message: Message) -> None:
        """A message came."""

    def backlog(self) -> int:
        """How many messages wait."""


class Sender(Writer):
    """The sending half of an endpoint."""

    def __init__(self, atlas: Atlas, outboxes: dict[int, int], epoch: int, mortal: bool) -> None:
        super().__init__(atlas, outboxes)
        self.epoch = epoch
        self.waiting = 0  # messages of all channels for which a queue has no room
        self.dropped = 0
        self.relay: Callable[[], Any] | None = None  # makes tickets for readers in this process
        self._handed = False  # memory of another process was placed last
        self._mine = False  # memory of this one was, and may outlive it
        self._mortal = mortal
        self._out: dict[int, Outgoing] = {}
        self._local: dict[int, tuple[Queue, int]] = {}

    def room(self, groups: Groups) -> bool:
        """Whether every instance of every consumer could take one more message now."""
        for group in groups:
            for number in group:
                channel = self._out.get(number)
                if channel is not None and (channel.waiting or not channel.room()) and not channel.overwrite:
                    return False
        return True

    def held_up(self, groups: Groups) -> bool:
        """Whether results of earlier calls still wait for room: the next call has to wait with them."""
        for group in groups:
            for number in group:
                channel = self._out.get(number)
                if channel is not None:
                    if channel.waiting and not channel.overwrite:
                        return True
                else:
                    queue, depth = self._local[number]
                    if queue.backlog() >= depth:
                        return True
        return False

    def emit(self, groups: Groups, message: Message) -> None:
        """Send to every consumer; where one has several instances, to the one that is due."""
        with self.lock:
            if len(groups) == 1 and len(groups[0]) == 1 and groups[0][0] in self._out:  # the usual edge
                channel = self._out[groups[0][0]]
                self._go(channel, self._only(channel, message), message.trans_id)
                return
            for channel, record, note in self.made(groups, message):
                self._go(channel, record, note)

    def made(self, groups: Groups, message: Message) -> list[Made]:
        """The records of a message. Readers in this process have it at once."""
        if len(groups) == 1 and len(groups[0]) == 1 and groups[0][0] in self._out:
            channel = self._out[groups[0][0]]
            return [(channel, self._only(channel, message), message.trans_id)]
        numbers = [group[0] if len(group) == 1 else group[choose(message, len(group))] for group in groups]
        if self._local:
            for number in numbers:
                if number in self._local:
                    other = private(message)
                    other.again = message.again
                    other.ticket = None if self.relay is None else self.relay()
                    self._local[number][0].arrive(other)
            numbers = [number for number in numbers if number in self._out]
        if not numbers:
            return []
        if message.payload.form == LOCAL:
            message = codec.localize(message)
        parts, kept = self._place(message.payload, len(numbers))
        shared = kept or len(numbers) > 1
        found = []
        for number, descriptors in zip(numbers, parts, strict=True):
            channel = self._out[number]
            found.append((channel, self._record(channel, message, descriptors, shared), message.trans_id))
        return found

    def _place(self, payload: Payload, receivers: int) -> tuple[list[bytes], bool]:
        """Where the chunks are, for each receiver; and whether this process keeps looking at them."""
        chunks = payload.chunks
        self._handed = self._mine = False
        if not chunks:
            return [b""] * receivers, False
        size = nbytes_of(chunks[0]) + 8 if len(chunks) == 1 else sum(nbytes_of(chunk) + 8 for chunk in chunks)
        if size + len(payload.meta) <= wire.MOST_INLINE:
            inline = [wire.inline_chunk(chunk) for chunk in chunks]
            return [inline[0] if len(inline) == 1 else b"".join(inline)] * receivers, False
        parts: list[list[bytes]] = [[] for _ in range(receivers)]
        kept = False
        for chunk in chunks:
            for first in range(0, receivers, TOKENS):  # each needs a token at least; usually once
                kept |= self._reference(chunk, payload, parts[first : first + TOKENS])
        return [b"".join(part) for part in parts], kept

    def _reference(self, chunk: Any, payload: Payload, parts: list[list[bytes]]) -> bool:
        """Tokens of the block that already holds a chunk, or of a new one; each receiver gets a share."""
        lease = lease_of(chunk) if payload.owned or payload.form in (TENSOR, RAW) else None
        receivers = len(parts)
        if lease is not None and lease.home is self._atlas and lease.hi - lease.lo > receivers:
            arena, block, nbytes = lease.arena, lease.block, chunk.nbytes
            start = lease.start + chunk.__array_interface__["data"][0] - lease.__array_interface__["data"][0]
            lo, hi = lease.lo if payload.owned else lease.lo + 1, lease.hi
            lease.hi = lo
            kept = not payload.owned
            foreign = arena != self._atlas.own.number
            self._handed |= foreign
            self._mine |= self._mortal and not foreign
        else:
            self._mine = self._mortal
            arena = self._atlas.own.number
            block, start, nbytes = self._atlas.own.put(chunk)
            lo, hi, kept = 0, TOKENS, False
        share = (hi - lo) // receivers
        for index, part in enumerate(parts):
            last = hi if index == receivers - 1 else lo + share
            part.append(wire.reference_chunk(arena, block, start, nbytes, lo, last))
            lo = last
        return kept

    def _only(self, channel: Outgoing, message: Message) -> bytes:
        """The record for one receiver."""
        if message.payload.form == LOCAL:
            message = codec.localize(message)
        parts, kept = self._place(message.payload, 1)
        return self._record(channel, message, parts[0], kept)

    def _record(self, channel: Outgoing, message: Message, descriptors: bytes, shared: bool) -> bytes:
        address = (channel.epoch, self.epoch, channel.number, channel.sent)
        record = wire.data_record(message, descriptors, len(message.payload.chunks), address, shared)
        if self._mine:
            record = self.giving(record, channel.peer)
        return wire.marked(record, wire.HANDED) if message.again and self._handed else record

    def giving(self, record: bytes, process: int) -> bytes:
        """A record with the memory that was placed last."""
        if not self._mine:
            return record
        self._peers[process].heavy = True
        return wire.marked(record, wire.GIVES)

    def catch_up(self) -> None:
        """Send what was promised; an interrupt may have come before it was."""
        while self.todo:
            channel, record, note = self.todo[0]
            self._go(channel, record, note)
            del self.todo[0]

    def _go(self, channel: Outgoing, record: bytes, note: int) -> None:
        if record[wire.BITS_AT] & wire.REMADE:
            if channel.lost and channel.gone(note):
                self._drop(record)
                return
            note |= REMADE
        if not channel.waiting and (self._fits(channel) if channel.overwrite else channel.room()):
            self._queue(channel, record, note)
            return
        if not channel.overwrite:
            if not channel.asked:
                self._ask(channel)
        elif len(channel.waiting) >= channel.depth:
            self._drop(channel.waiting.popleft()[0])
            self.waiting -= 1
        channel.waiting += ((record, note),)
        self.waiting += 1

    def _fits(self, channel: Outgoing) -> bool:
        return self._peers[channel.peer].size < _CROWDED if channel.overwrite else channel.room()

    def _ask(self, channel: Outgoing) -> None:
        record = wire.short_record(wire.WANT, channel.epoch, self.epoch, channel.number, channel.sent)
        self._post(self._peers[channel.peer], record)
        channel.asked = True  # last: an interrupt before it makes it ask twice, after it not at all

    def ask(self, groups: Groups) -> bool:
        """Be told when there is room for these. False if nobody was asked: there is room by now."""
        asked = False
        with self.lock:
            for group in groups:
                for number in group:
                    channel = self._out.get(number)
                    if channel is not None and not channel.overwrite:
                        if not channel.asked and not channel.room():
                            self._ask(channel)
                        asked |= channel.asked
        return asked

    def _queue(self, channel: Outgoing, record: bytes, note: int) -> None:
        if len(channel.retained) > 2 * channel.depth:
            channel.prune()
        peer = self._peers[channel.peer]
        if peer.size > wire.PIPE_BUF:
            self._write(peer, False)
        size = peer.size + len(record)
        sent = channel.sent
        marks = channel.marks
        channel.retained[sent] = record  # no call from here on
        peer.records += (record,)
        peer.size = size
        marks[channel.notes_at + sent % channel.notes] = note
        marks[channel.sent_at] = channel.served << 56 | sent + 1
        channel.sent = sent + 1

    def _drop(self, record: bytes) -> None:
        """Forget a message that was never sent; reading it gives its tokens back."""
        wire.accept(wire.read_data(record, 0, record[wire.BITS_AT], self._atlas)[1])
        self.dropped += 1

    def _release_waiting(self, channel: Outgoing) -> None:
        while channel.waiting and self._fits(channel):
            record, note = channel.waiting[0]
            if channel.lost and note >= REMADE and channel.gone(note - REMADE):
                self._drop(record)
            else:
                self._queue(channel, wire.readdressed(record, channel.epoch, channel.sent), note)
            del channel.waiting[0]
            self.waiting -= 1

    # ---- others that were started again ------------------------------------------------------------------------------

    def restarted(self, process: int, epoch: int) -> None:
        """A process has a new life: it gets again what its former one had not finished."""
        with self.lock:
            self.catch_up()
            peer = self._peers.get(process)
            if peer is None:
                return
            peer.forget()
            for channel in self._out.values():
                if channel.peer == process:
                    self._resend(channel, epoch)

    def know(self, epochs: dict[int, int]) -> None:
        """The lives of others, for a process that joins later than they: has our former life sent to the present ones?"""
        for channel in self._out.values():
            epoch = epochs.get(channel.peer, 0)
            if epoch != channel.epoch:
                self._resend(channel, epoch)
            elif channel.born:
                self._begin(channel)

    def _resend(self, channel: Outgoing, epoch: int) -> None:
        """What is left of our former life's messages is their ids: those transactions fail, unless we made them again."""
        lost, records = channel.restarted(epoch)
        self._begin(channel)
        made = Counter(wire.transaction_of(each) for each in records if lost and each[wire.BITS_AT] & wire.REMADE)
        for trans_id in lost:
            if made[trans_id]:
                made[trans_id] -= 1
                at = next(at for at, each in enumerate(records) if _is_remade(each, trans_id))
                self._again(channel, records.pop(at), trans_id)
            else:
                channel.lost[trans_id] += 1
                message = failure(codes.FUNC_FAILED, trans_id=trans_id)
                message.again = True
                address = (epoch, self.epoch, channel.number, channel.sent)
                self._again(channel, wire.data_record(message, b"", 0, address, False), trans_id)
        for record in records:
            remade = record[wire.BITS_AT] & wire.REMADE
            self._again(channel, record, wire.transaction_of(record) | (REMADE if remade else 0))
        channel.appended()
        self._resent.append(channel)
        self._release_waiting(channel)
        if channel.waiting and not channel.overwrite:
            self._ask(channel)

    def _begin(self, channel: Outgoing) -> None:
        """Not written before what follows is counted: the receiver looks at that."""
        peer = self._peers[channel.peer]
        numbers = (channel.sent, channel.firm, channel.born)
        peer.records.append(wire.begin_record(channel.epoch, self.epoch, channel.number, numbers))
        peer.size += len(peer.records[-1])

    def _again(self, channel: Outgoing, record: bytes, note: int) -> None:
        peer = self._peers[channel.peer]
        peer.records.append(wire.readdressed(record, channel.epoch, channel.sent, True))
        peer.size += len(record)
        channel.append(peer.records[-1], note)


def _is_remade(record: bytes, trans_id: int) -> bool:
    return bool(record[wire.BITS_AT] & wire.REMADE) and wire.transaction_of(record) == trans_id


def private(message: Message) -> Message:
    """A message for a reader in the same process: its own envelope, and its own bytes unless it travels by reference."""
    other = message.copy()
    if message.payload.form != LOCAL and message.payload.chunks:
        payload = message.payload
        other.payload = Payload(payload.form, payload.meta, [as_bytes(chunk).copy() for chunk in payload.chunks])
    other.shared = False
    return other
