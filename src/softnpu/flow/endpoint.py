"""One process's end of all its channels: an inbox that others write to, and what is on its way to them.

Writing never blocks: what a full pipe or a full queue does not take waits here, in order. Methods that change anything
hold `lock`.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from softnpu.flow import codec, wire
from softnpu.flow.channels import Incoming, Outgoing
from softnpu.flow.layout import Layout
from softnpu.flow.memory import TOKENS, Atlas, as_bytes, lease_of, nbytes_of
from softnpu.flow.message import LOCAL, RAW, TENSOR, Message, Payload
from softnpu.flow.rules.route import choose

_AT_MOST = (1 << 16,)
_CROWDED = 16 * wire.PIPE_BUF
_LONGEST_WAIT = 1 << 30  # milliseconds; who waits longer looks around in between

Groups = Sequence[Sequence[int]]


class Queue(Protocol):
    """An input of a node instance, or an output of the graph."""

    def arrive(self, message: Message) -> None:
        """A message came."""

    def backlog(self) -> int:
        """How many messages wait."""


class Owner(Protocol):
    """What an endpoint belongs to: a worker, or the session of the application."""

    def queue(self, seat: int, index: int) -> Queue:
        """The queue that a channel ends in."""

    def notice(self, kind: int, number: int, data: bytes) -> None:
        """A record that is not a message."""


class Peer:
    """The way to another process."""

    __slots__ = ("fd", "number", "records", "size")

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fd = fd
        self.records: deque[bytes] = deque()
        self.size = 0


class Endpoint:
    """Sends and receives for one process."""

    def __init__(
        self,
        process: int,
        layout: Layout,
        atlas: Atlas,
        marks: memoryview,
        pipes: tuple[int, dict[int, int]],
        owner: Owner,
        epoch: int = 0,
    ) -> None:
        self.process = process
        self.lock = threading.RLock()
        self.epoch = epoch
        self.waiting = 0  # messages of all channels for which a queue has no room
        self.dropped = 0
        self.inbox, outboxes = pipes
        self._atlas = atlas
        self._owner = owner
        self._rest = b""
        self._came: list[bytes] = []
        self._broken_off = False  # an interrupt came before all of it was handled
        self._from = (self.inbox,)
        self._handed = False  # memory of another process was placed last
        self._peers = {number: Peer(number, fd) for number, fd in outboxes.items()}
        self._asked: set[Incoming] = set()  # their senders wait for room
        self._out: dict[int, Outgoing] = {}
        self._in: dict[int, Incoming] = {}
        self._local: dict[int, tuple[Queue, int]] = {}
        for channel in layout.channels:
            if channel.source == process and channel.target == process:
                self._local[channel.number] = owner.queue(channel.runner, channel.index), channel.depth
            elif channel.source == process:
                self._out[channel.number] = Outgoing(
                    channel.number, channel.target, channel.depth, channel.overwrite, marks, epoch
                )
            elif channel.target == process:
                queue = owner.queue(channel.runner, channel.index)
                self._in[channel.number] = Incoming(channel.number, channel.source, channel.depth, queue.arrive, marks)

    # ---- sending -----------------------------------------------------------------------------------------------------

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
                if message.payload.form == LOCAL:
                    message = codec.localize(message)
                parts, kept = self._place(message.payload, 1)
                self._send(self._out[groups[0][0]], message, parts[0], kept)
                return
            numbers = [group[0] if len(group) == 1 else group[choose(message, len(group))] for group in groups]
            if self._local:
                for number in numbers:
                    if number in self._local:
                        self._local[number][0].arrive(private(message))
                numbers = [number for number in numbers if number in self._out]
            if not numbers:
                return
            if message.payload.form == LOCAL:
                message = codec.localize(message)
            parts, kept = self._place(message.payload, len(numbers))
            shared = kept or len(numbers) > 1
            for number, descriptors in zip(numbers, parts, strict=True):
                self._send(self._out[number], message, descriptors, shared)

    def _place(self, payload: Payload, receivers: int) -> tuple[list[bytes], bool]:
        """Where the chunks are, for each receiver; and whether this process keeps looking at them."""
        chunks = payload.chunks
        self._handed = False
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
            self._handed |= arena != self._atlas.own.number
        else:
            arena = self._atlas.own.number
            block, start, nbytes = self._atlas.own.put(chunk)
            lo, hi, kept = 0, TOKENS, False
        share = (hi - lo) // receivers
        for index, part in enumerate(parts):
            last = hi if index == receivers - 1 else lo + share
            part.append(wire.reference_chunk(arena, block, start, nbytes, lo, last))
            lo = last
        return kept

    def _send(self, channel: Outgoing, message: Message, descriptors: bytes, shared: bool) -> None:
        address = (channel.epoch, self.epoch, channel.number, channel.sent)
        record = wire.data_record(message, descriptors, len(message.payload.chunks), address, shared)
        if message.again and self._handed:
            record = wire.handed(record)
        if channel.waiting or not self._fits(channel):
            channel.waiting.append(record)
            self.waiting += 1
            if not channel.asked and not channel.overwrite:
                self._ask(channel)
            if channel.overwrite and len(channel.waiting) > channel.depth:
                self._drop(channel.waiting.popleft())
                self.waiting -= 1
        else:
            self._queue(channel, record)

    def _fits(self, channel: Outgoing) -> bool:
        return self._peers[channel.peer].size < _CROWDED if channel.overwrite else channel.room()

    def _ask(self, channel: Outgoing) -> None:
        record = wire.short_record(wire.WANT, channel.epoch, self.epoch, channel.number, channel.sent)
        self._post(self._peers[channel.peer], record)
        channel.asked = True  # last: an interrupt before it makes it ask twice, after it not at all

    def ask(self, groups: Groups) -> None:
        """Be told when there is room for these."""
        with self.lock:
            for group in groups:
                for number in group:
                    channel = self._out.get(number)
                    if channel is not None and not channel.asked and not channel.room():
                        self._ask(channel)

    def _queue(self, channel: Outgoing, record: bytes) -> None:
        if len(channel.retained) > 2 * channel.depth:
            channel.prune()
        channel.retained.append((channel.sent, record))
        self._post(self._peers[channel.peer], record)
        channel.add()  # last: a number that an interrupt uses twice does no harm, one that it leaves out would

    def _post(self, peer: Peer, record: bytes) -> None:
        peer.records.append(record)
        peer.size += len(record)
        if peer.size > wire.PIPE_BUF:
            self._write(peer, False)

    def _drop(self, record: bytes) -> None:
        """Forget a message that was never sent; reading it gives its tokens back."""
        wire.read_data(record, 0, record[5], self._atlas)
        self.dropped += 1

    def _release_waiting(self, channel: Outgoing) -> None:
        while channel.waiting and self._fits(channel):
            self.waiting -= 1
            self._queue(channel, wire.readdressed(channel.waiting.popleft(), channel.epoch, channel.sent))

    def tell(self, process: int, record: bytes) -> None:
        """Send a notice."""
        with self.lock:
            self._post(self._peers[process], record)

    def stuck(self) -> list[int]:
        """Pipes that did not take all."""
        with self.lock:
            return [peer.fd for peer in self._peers.values() if peer.records]

    def flush(self) -> bool:
        """Hand over what is ready to go; False if a pipe would not take all of it."""
        with self.lock:
            clear = True
            for peer in self._peers.values():
                if peer.records and not self._write(peer, True):
                    clear = False
            return clear

    def _write(self, peer: Peer, everything: bool) -> bool:
        """Write whole records, several at once where they fit; the last, incomplete batch only if `everything` must go."""
        records = peer.records
        while records and (everything or peer.size > wire.PIPE_BUF):
            batch = [records[0]]
            size = len(batch[0])
            for index in range(1, len(records)):
                size += len(records[index])
                if size > wire.PIPE_BUF:
                    size -= len(records[index])
                    break
                batch.append(records[index])
            try:
                os.write(peer.fd, b"".join(batch) if len(batch) > 1 else batch[0])
            except BlockingIOError:
                return False
            except BrokenPipeError:  # the other process ended, and nobody will start it again
                records.clear()
                peer.size = 0
                return True
            for _ in batch:
                records.popleft()
            peer.size -= size
        return True

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None, alarm: int = -1) -> bool:
        """Sleep until something comes, a full pipe has room again, or `alarm` can be read; False if the time was up."""
        poll = select.poll()
        poll.register(self.inbox, select.POLLIN)
        if alarm >= 0:
            poll.register(alarm, select.POLLIN)
        for descriptor in self.stuck():
            poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(None if timeout is None else min(max(0, -(-timeout * 1000 // 1)), _LONGEST_WAIT)))

    def read(self) -> bool:
        """Take in what is there, at most one buffer full; False if there is nothing."""
        try:
            self._came.extend(map(os.read, self._from, _AT_MOST))  # one step: an interrupt comes before or after it
        except BlockingIOError:
            if not self._came and not self._broken_off:
                return False
        with self.lock:
            self._rest, self._came = self._rest + b"".join(self._came), []
            self._broken_off = True
            self._dispatch(self._rest)
            self._broken_off = False
        return True

    def _dispatch(self, buffer: bytes) -> None:
        at = 0
        end = len(buffer)
        head = wire.HEAD
        try:
            while end - at >= head.size:
                length, kind, bits, receiver, sender, number = head.unpack_from(buffer, at)
                if end - at < length:
                    break
                if kind == wire.DATA:
                    if receiver == self.epoch:
                        self._arrived(buffer, at, bits, sender, number)
                elif kind == wire.WANT:
                    self._wanted(self._in[number], sender, wire.number_of(buffer, at))
                elif kind == wire.ROOM:
                    if receiver == self.epoch:
                        self._room_again(self._out[number], sender)
                else:
                    self._owner.notice(kind, number, buffer[at + head.size : at + length])
                at += length
        finally:  # what was handled is not handled twice, even if an interrupt comes
            self._rest = buffer[at:]

    def _arrived(self, buffer: bytes, at: int, bits: int, sender: int, number: int) -> None:
        channel = self._in[number]
        if sender != channel.epoch:
            channel.begin(sender)
        sequence, message = wire.read_data(buffer, at, bits, self._atlas)
        if message.again and channel.known(message.trans_id):
            channel.take()
            channel.finish(sequence)
            if bits & wire.HANDED:  # the tokens came with the first one: they are not to be returned twice
                for lease in message.payload.chunks:
                    lease.hi = lease.lo
            return
        channel.recent.append(message.trans_id)
        message.ticket = (channel, sender, sequence)
        channel.deliver(message)

    def _wanted(self, channel: Incoming, sender: int, sent: int) -> None:
        """A sender that has sent so many waits for room; it may be there already."""
        if sender != channel.epoch:
            channel.begin(sender)
        channel.asked = sent
        self._asked.add(channel)

    def _room_again(self, channel: Outgoing, sender: int) -> None:
        if sender != channel.epoch:
            return
        channel.asked = False
        self._release_waiting(channel)
        if channel.waiting:
            self._ask(channel)

    def taken(self, message: Message) -> bool:
        """A message left its queue: there is room for another. True if a sender that waits was told so (by the next flush)."""
        if message.ticket is None:
            return False
        channel, epoch, _ = message.ticket
        if epoch != channel.epoch:
            return False
        channel.take()
        if channel.asked < 0 or channel.free() * 4 < channel.depth:
            return False
        self._answer(channel)
        return True

    def finished(self, ticket: tuple[Incoming, int, int]) -> None:
        """The results of a message are on their way: its sender may forget it."""
        channel, epoch, sequence = ticket
        if epoch == channel.epoch:
            channel.finish(sequence)

    def _answer(self, channel: Incoming) -> None:
        self._post(
            self._peers[channel.peer], wire.short_record(wire.ROOM, channel.epoch, self.epoch, channel.number, 0)
        )
        channel.asked = -1
        self._asked.discard(channel)

    def answer(self) -> None:
        """Tell senders that wait about any room that there is; before a sleep or a long call."""
        if self._asked:
            with self.lock:
                for channel in [each for each in self._asked if each.free() > 0]:
                    self._answer(channel)

    # ---- others that were started again ------------------------------------------------------------------------------

    def restarted(self, process: int, epoch: int, floors: dict[int, int]) -> None:
        """A process has a new life: it gets again what its former one had not finished."""
        with self.lock:
            peer = self._peers.get(process)
            if peer is None:
                return
            peer.records.clear()
            peer.size = 0
            for channel in self._out.values():
                if channel.peer == process:
                    for record in channel.restarted(epoch, floors.get(channel.number, 0)):
                        self._queue(channel, wire.readdressed(record, epoch, channel.sent, True))
                    self._release_waiting(channel)
                    if channel.waiting and not channel.overwrite:
                        self._ask(channel)

    def close(self) -> None:
        """Let go of everything; nothing can be sent or received any more."""
        with self.lock:
            for channel in self._in.values():
                channel.close()
            for table in (self._out, self._in, self._local, self._peers):
                table.clear()
            self._asked.clear()
            self._atlas.close()

    def know(self, epochs: dict[int, int]) -> None:
        """The lives of others, for a process that joins later than they."""
        for channel in self._out.values():
            channel.epoch = epochs.get(channel.peer, 0)


def private(message: Message) -> Message:
    """A message for a reader in the same process: its own envelope, and its own bytes unless it travels by reference."""
    other = message.copy()
    if message.payload.form != LOCAL and message.payload.chunks:
        payload = message.payload
        other.payload = Payload(payload.form, payload.meta, [as_bytes(chunk).copy() for chunk in payload.chunks])
    other.shared = False
    return other
