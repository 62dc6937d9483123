"""What one process receives: the pipe that all others write to, and the ends of the channels that come in.

What a signal must not cut in two is in `atomic`.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol

from softnpu.flow import atomic
from softnpu.flow.message import Message
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import Incoming, Queue, write_progress
from softnpu.flow.transport.outbox import Outbox
from softnpu.flow.transport.writer import Writer
from softnpu.flow.values.memory import Arenas

_AT_MOST = (1 << 16,)
_ABOUT_CHANNELS = (wire.WANT, wire.ROOM, wire.BEGIN)


class Owner(Protocol):
    """What an endpoint belongs to: a worker, or the session of the application."""

    def queue(self, seat: int, index: int) -> Queue:
        """The queue that a channel ends in."""

    def notice(self, kind: int, number: int, data: bytes) -> None:
        """A record that is not a message."""


class Inbox:
    """The receiving side of an endpoint. Methods that change anything hold `lock`."""

    def __init__(
        self, lock: threading.RLock, fd: int, arenas: Arenas, writer: Writer, outbox: Outbox, owner: Owner, epoch: int
    ) -> None:
        self.fd = fd
        self._lock = lock
        self._fds = (fd,)
        self._arenas = arenas
        self._writer = writer
        self._outbox = outbox
        self._owner = owner
        self._epoch = epoch
        self.channels: dict[int, Incoming] = {}
        self.came: list[bytes] = []  # read, and not looked at
        self.unhandled = b""
        self.broken_off = False  # an interrupt came before all of it was handled
        self.changed: dict[Incoming, None] = {}  # their progress is to be written together
        self._marks: memoryview | None = None
        self._plan_at = 0
        self._asked: set[Incoming] = set()  # their senders wait for room

    def together(self, marks: memoryview, plan_at: int) -> None:
        """From now on the progress of all channels is written at once."""
        self._marks = marks
        self._plan_at = plan_at
        for channel in self.channels.values():
            channel.together = self.changed

    # ---- reading -----------------------------------------------------------------------------------------------------

    def read(self) -> bool:
        """Take in what is there, at most one buffer full; False if there is nothing."""
        try:
            atomic.noting(self.came, os.read, self._fds, _AT_MOST)
        except BlockingIOError:
            if not self.came and not self.broken_off:
                return False
        with self._lock:
            if self._outbox.promised:
                self._outbox.catch_up()
            atomic.take_in(self, b"".join(self.came))
            self._handle(self.unhandled)
            self.broken_off = False
        return True

    def _handle(self, buffer: bytes) -> None:
        at = 0
        end = len(buffer)
        head = wire.HEAD
        try:
            while end - at >= head.size:
                length, kind, bits, receiver, sender, number = head.unpack_from(buffer, at)
                if end - at < length:
                    break
                if kind == wire.DATA:
                    if receiver == self._epoch:
                        channel = self.channels[number]
                        sequence, message = wire.read_data(buffer, at, bits, self._arenas)
                        if sender != channel.epoch:
                            channel.begin(sender, sequence)
                        if bits & wire.REMADE and channel.known(message.trans_id):
                            self._had_before(channel, sequence, message, bits)
                        elif channel.sink is not None:
                            atomic.deliver(channel, channel.sink, message, sequence)  # and in the same step `at += …`
                        else:
                            self._arrived(channel, sequence, message)
                elif kind in _ABOUT_CHANNELS:
                    if receiver == self._epoch:
                        self._about_channel(kind, number, sender, buffer, at)
                else:
                    self._owner.notice(kind, number, buffer[at + head.size : at + length])
                at += length
        finally:  # what was handled is not handled twice, even if an interrupt comes
            self.unhandled = buffer[at:]

    def _arrived(self, channel: Incoming, sequence: int, message: Message) -> None:
        """A message for a queue that does something with it."""
        grant = message.ticket
        message.ticket = (channel, sequence)
        if grant is not None:
            grant[0] = True
        channel.deliver(message)
        channel.next = sequence + 1

    def _had_before(self, channel: Incoming, sequence: int, message: Message, bits: int) -> None:
        """A message that came already."""
        channel.take()
        channel.finish(sequence)
        if bits & wire.HANDED:  # the tokens came with the first one: they are not to be returned twice
            for view in message.payload.chunks:
                view.hi = view.lo
        wire.accept(message)
        channel.next = sequence + 1

    def _about_channel(self, kind: int, number: int, sender: int, buffer: bytes, at: int) -> None:
        if kind == wire.WANT:
            self._wanted(self.channels[number], sender, wire.number_of(buffer, at))
        elif kind == wire.ROOM:
            self._outbox.room_again(number, sender)
        else:
            self.channels[number].begin(sender, *wire.beginning_of(buffer, at))

    # ---- room --------------------------------------------------------------------------------------------------------

    def _wanted(self, channel: Incoming, sender: int, sent: int) -> None:
        """A sender that has sent so many waits for room; it may be there already."""
        if sender != channel.epoch:
            channel.begin(sender, sent)
        channel.asked = sent
        self._asked.add(channel)

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

    def _answer(self, channel: Incoming) -> None:
        record = wire.short_record(wire.ROOM, channel.epoch, self._epoch, channel.number, 0)
        self._writer.post(channel.peer, record)
        channel.asked = -1
        self._asked.discard(channel)

    def answer(self) -> None:
        """Tell senders that wait about any room that there is; before a sleep or a long call."""
        if self._asked:
            with self._lock:
                for channel in [each for each in self._asked if each.free() > 0]:
                    self._answer(channel)

    # ---- progress ----------------------------------------------------------------------------------------------------

    def finished(self, ticket: tuple[Incoming, int]) -> None:
        """The results of a message are on their way: its sender may forget it."""
        channel, sequence = ticket
        channel.finish(sequence)

    def write_progress(self) -> None:
        """Say how far this process is, where several channels have to be said together."""
        assert self._marks is not None
        write_progress(list(self.changed), self._marks, self._plan_at)
        self.changed.clear()

    def commit(self) -> None:
        """All that was made is out; if all that it was made from is finished, nothing of it would be made again."""
        for channel in self.channels.values():
            if not channel.even():
                return
        self._outbox.commit()

    def close(self) -> None:
        """Nothing can be received any more."""
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()
        self._asked.clear()
        self.changed.clear()
