"""What one process sends: which channel a message takes, what waits for room in a queue, and what is sent again.

Memory is `placement`'s, pipes are `writer`'s; what a signal must not cut in two is in `atomic`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from softnpu.flow import atomic, codes
from softnpu.flow.message import LOCAL, Message, failure
from softnpu.flow.rules.route import choose
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import REMADE, Outgoing, Queue
from softnpu.flow.transport.placement import Placed, Placement
from softnpu.flow.transport.writer import Writer
from softnpu.flow.values import codec
from softnpu.flow.values.memory import Arenas

_CROWDED = 16 * wire.PIPE_BUF

Groups = Sequence[Sequence[int]]
Addressed = tuple[Outgoing, bytes, int]  # a record for a channel, and the note of its transaction


class Outbox:
    """The sending side of an endpoint. Methods that change anything hold `lock`."""

    def __init__(self, lock: threading.RLock, arenas: Arenas, writer: Writer, epoch: int, mortal: bool) -> None:
        self._lock = lock
        self._arenas = arenas
        self._writer = writer
        self._peers = writer.peers
        self._placement = Placement(arenas, mortal)
        self._epoch = epoch
        self.channels: dict[int, Outgoing] = {}
        self.local: dict[int, tuple[Queue, int]] = {}  # channels that end in this process: queue and depth
        self.promised: list[Addressed] = []  # of a feed, and not among the records yet
        self.waiting = 0  # messages of all channels for which a queue has no room
        self.dropped = 0
        self.relay: Callable[[], Any] | None = None  # makes tickets for readers in this process
        self._resent: list[Outgoing] = []  # their receivers have new lives, which may not have everything yet

    # ---- room --------------------------------------------------------------------------------------------------------

    def room(self, groups: Groups) -> bool:
        """Whether every instance of every consumer could take one more message now."""
        for group in groups:
            for number in group:
                channel = self.channels.get(number)
                if channel is not None and (channel.waiting or not channel.room()) and not channel.overwrite:
                    return False
        return True

    def held_up(self, groups: Groups) -> bool:
        """Whether results of earlier calls still wait for room: the next call has to wait with them."""
        for group in groups:
            for number in group:
                channel = self.channels.get(number)
                if channel is not None:
                    if channel.waiting and not channel.overwrite:
                        return True
                else:
                    queue, depth = self.local[number]
                    if queue.backlog() >= depth:
                        return True
        return False

    def ask(self, groups: Groups) -> bool:
        """Be told when there is room for these. False if nobody was asked: there is room by now."""
        asked = False
        with self._lock:
            for group in groups:
                for number in group:
                    channel = self.channels.get(number)
                    if channel is not None and not channel.overwrite:
                        if not channel.asked and not channel.room():
                            self._ask(channel)
                        asked |= channel.asked
        return asked

    def _ask(self, channel: Outgoing) -> None:
        record = wire.short_record(wire.WANT, channel.epoch, self._epoch, channel.number, channel.sent)
        self._writer.post(channel.peer, record)
        channel.asked = True  # last: an interrupt before it makes it ask twice, after it not at all

    def room_again(self, number: int, receiver_epoch: int) -> None:
        """A receiver that was asked says that there is room."""
        channel = self.channels[number]
        if receiver_epoch != channel.epoch:
            return
        channel.asked = False
        self._release_waiting(channel)
        if channel.waiting:
            self._ask(channel)

    # ---- sending -----------------------------------------------------------------------------------------------------

    def emit(self, groups: Groups, message: Message) -> None:
        """Send to every consumer; where one has several instances, to the one that is due."""
        with self._lock:
            if len(groups) == 1 and len(groups[0]) == 1 and groups[0][0] in self.channels:  # the usual edge
                channel = self.channels[groups[0][0]]
                self._send_or_hold(channel, self._record_for(channel, message), message.trans_id)
                return
            for channel, record, note in self.records_for(groups, message):
                self._send_or_hold(channel, record, note)

    def records_for(self, groups: Groups, message: Message) -> list[Addressed]:
        """The records of a message. Readers in this process have it at once."""
        if len(groups) == 1 and len(groups[0]) == 1 and groups[0][0] in self.channels:
            channel = self.channels[groups[0][0]]
            return [(channel, self._record_for(channel, message), message.trans_id)]
        numbers = [group[0] if len(group) == 1 else group[choose(message, len(group))] for group in groups]
        if self.local:
            for number in numbers:
                if number in self.local:
                    self._hand_over(self.local[number][0], message)
            numbers = [number for number in numbers if number in self.channels]
        if not numbers:
            return []
        if message.payload.form == LOCAL:
            message = codec.localize(message)
        placed = self._placement.place(message.payload, len(numbers))
        shared = placed.kept or len(numbers) > 1
        addressed = []
        for number, descriptors in zip(numbers, placed.descriptors, strict=True):
            channel = self.channels[number]
            record = self._record(channel, message, descriptors, shared)
            addressed.append((channel, self._marked(record, message, channel.peer, placed), message.trans_id))
        return addressed

    def _hand_over(self, queue: Queue, message: Message) -> None:
        """To a reader in this process."""
        other = codec.private(message)
        other.again = message.again
        other.ticket = None if self.relay is None else self.relay()
        queue.arrive(other)

    def _record_for(self, channel: Outgoing, message: Message) -> bytes:
        """The record for one receiver."""
        if message.payload.form == LOCAL:
            message = codec.localize(message)
        descriptors = wire.inline_chunks(message.payload)
        if descriptors is not None:
            return self._record(channel, message, descriptors, False)
        placed = self._placement.place(message.payload, 1)
        record = self._record(channel, message, placed.descriptors[0], placed.kept)
        return self._marked(record, message, channel.peer, placed)

    def _record(self, channel: Outgoing, message: Message, descriptors: bytes, shared: bool) -> bytes:
        address = (channel.epoch, self._epoch, channel.number, channel.sent)
        return wire.data_record(message, descriptors, len(message.payload.chunks), address, shared)

    def _marked(self, record: bytes, message: Message, process: int, placed: Placed) -> bytes:
        """A record that says whose memory it carries."""
        record = self._giving(record, process, placed)
        return wire.marked(record, wire.HANDED) if message.again and placed.forwarded else record

    def _giving(self, record: bytes, process: int, placed: Placed) -> bytes:
        """A record with memory of this process, if that is where its payload was placed."""
        if not placed.own:
            return record
        self._peers[process].carries_memory = True
        return wire.marked(record, wire.GIVES)

    def copy_record(self, message: Message, process: int, number: int) -> bytes:
        """A message as a record of no channel: for whoever watches (see `engines/embedded/tapping.py`)."""
        placed = self._placement.place(message.payload, 1)
        return self._giving(wire.tap_record(message, placed.descriptors[0], number), process, placed)

    def catch_up(self) -> None:
        """Send what was promised; an interrupt may have come before it was."""
        while self.promised:
            channel, record, note = self.promised[0]
            self._send_or_hold(channel, record, note)
            del self.promised[0]

    def _send_or_hold(self, channel: Outgoing, record: bytes, note: int) -> None:
        if record[wire.BITS_AT] & wire.REMADE:
            if channel.lost and channel.gone(note):
                self._drop(record)
                return
            note |= REMADE
        if not channel.waiting and self._fits(channel):
            self._send(channel, record, note)
            return
        if not channel.overwrite:
            if not channel.asked:
                self._ask(channel)
        elif len(channel.waiting) >= channel.depth:
            self._drop(channel.waiting.popleft()[0])
            self.waiting -= 1
        atomic.hold_record(self, channel, record, note)

    def _fits(self, channel: Outgoing) -> bool:
        return self._peers[channel.peer].size < _CROWDED if channel.overwrite else channel.room()

    def _send(self, channel: Outgoing, record: bytes, note: int) -> None:
        if len(channel.retained) > 2 * channel.depth:
            channel.prune()
        peer = self._peers[channel.peer]
        if peer.size > wire.PIPE_BUF:
            self._writer.write(peer, False)
        atomic.send_record(channel, peer, record, note)

    def _drop(self, record: bytes) -> None:
        """Forget a message that was never sent; reading it gives its tokens back."""
        wire.accept(wire.read_data(record, 0, record[wire.BITS_AT], self._arenas)[1])
        self.dropped += 1

    def _release_waiting(self, channel: Outgoing) -> None:
        while channel.waiting and self._fits(channel):
            record, note = channel.waiting[0]
            if channel.lost and note >= REMADE and channel.gone(note - REMADE):
                self._drop(record)
            else:
                self._send(channel, wire.readdressed(record, channel.epoch, channel.sent), note)
            del channel.waiting[0]
            self.waiting -= 1

    def flush(self) -> bool:
        """Hand over what is ready to go; False if a pipe would not take all of it."""
        with self._lock:
            if self.promised:
                self.catch_up()
            clear = self._writer.write_all()
            if clear and self._resent:
                for channel in self._resent:
                    channel.settled()
                self._resent.clear()
            return clear

    def tell(self, process: int, record: bytes) -> None:
        """Send a notice."""
        with self._lock:
            self._writer.post(process, record)

    def stuck(self) -> list[int]:
        """Pipes that did not take all."""
        with self._lock:
            return self._writer.stuck()

    def commit(self) -> None:
        """Nothing of what was sent would be made again by a next life."""
        for channel in self.channels.values():
            channel.marks[channel.committed_at] = channel.sent

    # ---- others that were started again ------------------------------------------------------------------------------

    def restarted(self, process: int, epoch: int) -> None:
        """A process has a new life: it gets again what its former one had not finished."""
        with self._lock:
            self.catch_up()
            peer = self._peers.get(process)
            if peer is None:
                return
            peer.forget()
            for channel in self.channels.values():
                if channel.peer == process:
                    self._resend(channel, epoch)

    def join(self, epochs: dict[int, int]) -> None:
        """The lives of others, for a process that joins later than they: has our former life sent to the present ones?"""
        for channel in self.channels.values():
            epoch = epochs.get(channel.peer, 0)
            if epoch != channel.epoch:
                self._resend(channel, epoch)
            elif channel.born:
                self._begin(channel)

    def _resend(self, channel: Outgoing, epoch: int) -> None:
        """What is left of our former life's messages is their ids: those transactions fail, unless we made them again."""
        lost, records = channel.restarted(epoch)
        self._begin(channel)
        remade = Counter(wire.transaction_of(each) for each in records if lost and each[wire.BITS_AT] & wire.REMADE)
        for trans_id in lost:
            if remade[trans_id]:
                remade[trans_id] -= 1
                at = next(at for at, each in enumerate(records) if _is_remade(each, trans_id))
                self._again(channel, records.pop(at), trans_id)
            else:
                channel.lost[trans_id] += 1
                message = failure(codes.FUNC_FAILED, trans_id=trans_id)
                message.again = True
                address = (epoch, self._epoch, channel.number, channel.sent)
                self._again(channel, wire.data_record(message, b"", 0, address, False), trans_id)
        for record in records:
            mark = REMADE if record[wire.BITS_AT] & wire.REMADE else 0
            self._again(channel, record, wire.transaction_of(record) | mark)
        channel.appended()
        self._resent.append(channel)
        self._release_waiting(channel)
        if channel.waiting and not channel.overwrite:
            self._ask(channel)

    def _begin(self, channel: Outgoing) -> None:
        """Not written before what follows is counted: the receiver looks at that."""
        peer = self._peers[channel.peer]
        numbers = (channel.sent, channel.committed, channel.born)
        peer.records.append(wire.begin_record(channel.epoch, self._epoch, channel.number, numbers))
        peer.size += len(peer.records[-1])

    def _again(self, channel: Outgoing, record: bytes, note: int) -> None:
        peer = self._peers[channel.peer]
        peer.records.append(wire.readdressed(record, channel.epoch, channel.sent, True))
        peer.size += len(record)
        channel.append(peer.records[-1], note)

    def clear(self) -> None:
        """Nothing can be sent any more."""
        self.channels.clear()
        self.local.clear()
        self._peers.clear()
        self.promised.clear()
        self._resent.clear()


def _is_remade(record: bytes, trans_id: int) -> bool:
    return bool(record[wire.BITS_AT] & wire.REMADE) and wire.transaction_of(record) == trans_id
