"""One process's end of all its channels: an inbox that others write to, and what is on its way to them (see `sending`)."""

from __future__ import annotations

import os
import select
from typing import Protocol

from softnpu.flow.message import Message
from softnpu.flow.planning.layout import APPLICATION, Layout
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import Incoming, Outgoing, plan_at, write
from softnpu.flow.transport.memory import Atlas
from softnpu.flow.transport.sending import Groups as Groups
from softnpu.flow.transport.sending import Queue as Queue
from softnpu.flow.transport.sending import Sender
from softnpu.flow.transport.sending import private as private

_AT_MOST = (1 << 16,)
_WORDS = (wire.WANT, wire.ROOM, wire.BEGIN)
_LONGEST_WAIT = 1 << 30  # milliseconds; who waits longer looks around in between


class Owner(Protocol):
    """What an endpoint belongs to: a worker, or the session of the application."""

    def queue(self, seat: int, index: int) -> Queue:
        """The queue that a channel ends in."""

    def notice(self, kind: int, number: int, data: bytes) -> None:
        """A record that is not a message."""


class Endpoint(Sender):
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
        new: bool = True,
    ) -> None:
        self.inbox, outboxes = pipes
        super().__init__(atlas, outboxes, epoch, process != APPLICATION)
        self.process = process
        self._owner = owner
        self._rest = b""
        self._came: list[bytes] = []
        self._broken_off = False  # an interrupt came before all of it was handled
        self._from = (self.inbox,)
        self._asked: set[Incoming] = set()  # their senders wait for room
        self._in: dict[int, Incoming] = {}
        for each in layout.channels:
            number, depth = each.number, each.depth
            if each.source == process and each.target == process:
                self._local[number] = owner.queue(each.runner, each.index), depth
            elif each.source == process:
                self._out[number] = Outgoing(number, each.target, depth, each.overwrite, marks, layout.words)
            elif each.target == process:
                queue = owner.queue(each.runner, each.index)
                self._in[number] = Incoming(number, each.source, depth, queue.arrive, marks, layout.words, new)
                self._in[number].sink = getattr(queue, "messages", None)
        self._marks = marks
        self.changed: dict[Incoming, None] = {}
        if process != APPLICATION and len(self._in) > 1:
            self._plan_at = plan_at(list(self._in), layout.words)
            for channel in self._in.values():
                channel.together = self.changed

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
            if self.todo:
                self.catch_up()
            came = b"".join(self._came)
            self._rest += came  # no call from here on
            self._came = []
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
                        channel = self._in[number]
                        sequence, message = wire.read_data(buffer, at, bits, self._atlas)
                        if sender != channel.epoch:
                            channel.begin(sender, sequence)
                        if bits & wire.REMADE and channel.known(message.trans_id):
                            self._known(channel, sequence, message, bits)
                        else:
                            grant = message.ticket  # with a sink: no call from here on
                            message.ticket = (channel, sequence)
                            if grant is not None:
                                grant[0] = True
                            if channel.sink is None:
                                channel.deliver(message)
                            else:
                                channel.sink += (message,)
                        channel.next = sequence + 1
                elif kind in _WORDS:
                    if receiver == self.epoch:
                        self._word(kind, number, sender, buffer, at)
                else:
                    self._owner.notice(kind, number, buffer[at + head.size : at + length])
                at += length
        finally:  # what was handled is not handled twice, even if an interrupt comes
            self._rest = buffer[at:]

    def _word(self, kind: int, number: int, sender: int, buffer: bytes, at: int) -> None:
        """A word about a channel."""
        if kind == wire.WANT:
            self._wanted(self._in[number], sender, wire.number_of(buffer, at))
        elif kind == wire.ROOM:
            self._room_again(self._out[number], sender)
        else:
            self._in[number].begin(sender, *wire.beginning_of(buffer, at))

    def _known(self, channel: Incoming, sequence: int, message: Message, bits: int) -> None:
        """A message that came already."""
        channel.take()
        channel.finish(sequence)
        if bits & wire.HANDED:  # the tokens came with the first one: they are not to be returned twice
            for lease in message.payload.chunks:
                lease.hi = lease.lo
        wire.accept(message)

    def _wanted(self, channel: Incoming, sender: int, sent: int) -> None:
        """A sender that has sent so many waits for room; it may be there already."""
        if sender != channel.epoch:
            channel.begin(sender, sent)
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
        channel: Incoming = message.ticket[0]
        channel.take()
        if channel.asked < 0 or channel.free() * 4 < channel.depth:
            return False
        self._answer(channel)
        return True

    def finished(self, ticket: tuple[Incoming, int]) -> None:
        """The results of a message are on their way: its sender may forget it."""
        channel, sequence = ticket
        channel.finish(sequence)

    def write(self) -> None:
        """Say how far this process is, where several channels have to be said together."""
        write(list(self.changed), self._marks, self._plan_at)
        self.changed.clear()

    def firm(self) -> None:
        """All that was made is out, and all that it was made from is finished: nothing of it would be made again."""
        for channel in self._in.values():
            if not channel.even():
                return
        marks = self._marks
        for out in self._out.values():
            marks[out.firm_at] = out.sent

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

    def close(self) -> None:
        """Let go of everything; nothing can be sent or received any more."""
        with self.lock:
            for channel in self._in.values():
                channel.close()
            for table in (self._out, self._in, self._local, self._peers):
                table.clear()
            for rest in (self.todo, self._resent, self._asked, self.changed):
                rest.clear()
            self._marks.release()
            self._atlas.close()
