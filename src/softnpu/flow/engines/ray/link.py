"""One process's end of all its channels, over calls: bounded queues by credits, nothing lost when a receiver dies.

A sender keeps what it sent until the receiver has finished with it, and a message is finished when its results have
arrived at the next. So a new life of an actor gets again what its former one had not finished. What it makes again of it
carries the same origin as before; receivers know the origins that they have had, and skip those.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from softnpu.flow.engines.ray import records
from softnpu.flow.engines.ray.lines import Line
from softnpu.flow.engines.ray.records import Item, Origin, Record
from softnpu.flow.message import LOCAL, Message
from softnpu.flow.rules.route import choose
from softnpu.flow.transport.channels import Queue
from softnpu.flow.transport.layout import Channel, Groups, Layout
from softnpu.flow.values import codec

CREDIT_DELAY = 0.002
_CROWDED = 1 << 20

Ticket = tuple["Incoming", int, int]  # channel, life of its sender, number


class Outgoing:
    """The sender's end of a channel."""

    def __init__(self, channel: Channel, line: Line) -> None:
        self.number = channel.number
        self.depth = channel.depth
        self.overwrite = channel.overwrite
        self.line = line
        self.sent = 0
        self.taken = 0  # so many left the receiver's queue
        self.retained: deque[tuple[int, Record]] = deque()
        self.waiting: deque[Record] = deque()

    def fits(self) -> bool:
        """Whether one more may be sent."""
        return self.line.size < _CROWDED if self.overwrite else self.sent - self.taken < self.depth

    def send(self, record: Record) -> None:
        """Hand one over to the line."""
        self.retained.append((self.sent, record))
        self.line.post(record.item(self.number, self.sent), record.refs, record.size)
        self.sent += 1

    def credited(self, taken: int, floor: int) -> None:
        """The receiver says how many it took, and below which one all are finished."""
        self.taken = max(self.taken, taken)
        while self.retained and self.retained[0][0] < floor:
            self.retained.popleft()

    def again(self) -> None:
        """The receiver is a new one: all that is not finished goes to it, under the same numbers."""
        self.taken = self.retained[0][0] if self.retained else self.sent
        for sequence, record in self.retained:
            self.line.post(record.item(self.number, sequence), record.refs, record.size)


class Incoming:
    """The receiver's end of a channel."""

    def __init__(self, channel: Channel, queue: Queue) -> None:
        self.number = channel.number
        self.peer = channel.source
        self.depth = channel.depth
        self.queue = queue
        self.life = -1  # of the sender
        self.taken = self.floor = self.reported = 0
        self._done: set[int] = set()
        self._origins: deque[Origin] = deque(maxlen=4 * channel.depth + 64)
        self._before: set[Origin] = set()  # what came from former lives of the sender

    def begin(self, life: int, first: int) -> None:
        """The first message of a sender, or of a new life of it."""
        self.life = life
        self.taken = self.floor = self.reported = first
        self._done.clear()
        self._before = set(self._origins)

    def known(self, origin: Origin | None) -> bool:
        """Whether a former life of the sender had sent this already."""
        if origin is None:
            return False
        if origin in self._before:
            return True
        self._origins.append(origin)
        return False

    def finish(self, sequence: int) -> None:
        """A message is done with: what was made of it has arrived."""
        self._done.add(sequence)
        while self.floor in self._done:
            self._done.remove(self.floor)
            self.floor += 1


class Link:
    """Sends and receives for one process. Methods that change anything hold `lock`."""

    def __init__(
        self,
        address: tuple[int, int],
        layout: Layout,
        lines: dict[int, Line],
        queue: Callable[[int, int], Queue],
        put: Callable[[Any], Any],
    ) -> None:
        process, self._life = address
        self.lock = threading.RLock()
        self.waiting = 0  # messages for which a queue has no room
        self.dropped = 0
        self.lines = lines
        self._put = put
        self._out: dict[int, Outgoing] = {}
        self._in: dict[int, Incoming] = {}
        self._local: dict[int, tuple[Queue, int]] = {}
        self._due: set[Incoming] = set()
        self.urgent = False  # a sender may be waiting for these credits
        self._credited_at = 0.0
        self._fences: deque[tuple[list[tuple[Line, int]], list[Ticket]]] = deque()
        for channel in layout.channels:
            if channel.source == channel.target == process:
                self._local[channel.number] = queue(channel.runner, channel.index), channel.depth
            elif channel.source == process:
                self._out[channel.number] = Outgoing(channel, lines[channel.target])
            elif channel.target == process:
                self._in[channel.number] = Incoming(channel, queue(channel.runner, channel.index))

    # ---- sending -----------------------------------------------------------------------------------------------------

    def room(self, groups: Groups) -> bool:
        """Whether every instance of every consumer could take one more message now."""
        channels = (self._out[number] for group in groups for number in group)
        return not any(channel.waiting or not channel.fits() for channel in channels)

    def held_up(self, groups: Groups) -> bool:
        """Whether results of earlier calls still wait for room: the next call has to wait with them."""
        for number in (number for group in groups for number in group):
            if number in self._local:
                queue, depth = self._local[number]
                if queue.backlog() >= depth:
                    return True
            elif self._out[number].waiting and not self._out[number].overwrite:
                return True
        return False

    def emit(self, groups: Groups, message: Message, origin: Origin | None = None) -> None:
        """Send to every consumer; where one has several instances, to the one that is due."""
        with self.lock:
            numbers = [group[choose(message, len(group))] for group in groups]
            for number in numbers:
                if number in self._local:
                    self._local[number][0].arrive(codec.private(message))
            channels = [self._out[number] for number in numbers if number in self._out]
            if not channels:
                return
            if message.payload.form == LOCAL:
                message = codec.localize(message)
            record = Record(*records.pack(message, self._put), origin)
            for channel in channels:
                self._send(channel, record)

    def _send(self, channel: Outgoing, record: Record) -> None:
        if not channel.waiting and channel.fits():
            channel.send(record)
            return
        channel.waiting.append(record)
        self.waiting += 1
        if channel.overwrite and len(channel.waiting) > channel.depth:
            channel.waiting.popleft()
            self.waiting -= 1
            self.dropped += 1

    def _release(self, channel: Outgoing) -> None:
        while channel.waiting and channel.fits():
            self.waiting -= 1
            channel.send(channel.waiting.popleft())

    def tell(self, process: int, *notice: Any) -> None:
        """Send something that is not a message."""
        with self.lock:
            self.lines[process].post((records.NOTICE, *notice))

    def flush(self) -> None:
        """Send what is ready to go. Credits wait for each other a little: each is a call."""
        with self.lock:
            if self._due:
                now = time.monotonic()
                if self.urgent or now - self._credited_at >= CREDIT_DELAY:
                    self._credited_at = now
                    self._credit_all()
            for channel in self._out.values():
                if channel.overwrite and channel.waiting:
                    self._release(channel)
            for line in self.lines.values():
                if line.items:
                    line.go()

    def patience(self) -> float | None:
        """How long `flush` may be put off; None: until something happens."""
        return CREDIT_DELAY if self._due else None

    def carried(self) -> bool:
        """Whether everything that was sent has arrived, credits too; sends what is left."""
        with self.lock:
            self.urgent = True
            self.flush()
            return not self._fences and not self._due and all(line.acked == line.posted for line in self.lines.values())

    # ---- receiving ---------------------------------------------------------------------------------------------------

    def arrived(self, sender: int, life: int, items: list[Item], objects: list[Any]) -> list[Item]:
        """Take in what came in one call; returns the notices in it."""
        notices = []
        with self.lock:
            for item in items:
                if item[0] == records.DATA:
                    self._arrived(life, item, objects)
                elif item[0] == records.CREDIT:
                    self._credited(life < self.lines[sender].life, *item[1:])
                else:
                    notices.append(item[1:])
        return notices

    def _arrived(self, life: int, item: Item, objects: list[Any]) -> None:
        _, number, sequence, origin, body = item
        message = records.unpack(body, objects)
        channel = self._in[number]
        if life < channel.life:
            return
        if life > channel.life:
            channel.begin(life, sequence)
        message.ticket = (channel, life, sequence)
        if channel.known(origin):
            self.taken(message)
            self._finish([message.ticket])
        else:
            channel.queue.arrive(message)

    def _credited(self, late: bool, number: int, life: int, taken: int, floor: int) -> None:
        """A late one is of a receiver that is gone: what it had finished counts, its queue does not."""
        if life == self._life:
            channel = self._out[number]
            channel.credited(0 if late else taken, floor)
            self._release(channel)

    def taken(self, message: Message) -> None:
        """A message left its queue: the sender may send another."""
        if message.ticket is None:
            return
        channel, life, _ = message.ticket
        if life == channel.life:
            with self.lock:
                channel.taken += 1
                self._due.add(channel)
                if (channel.taken - channel.reported) * 4 >= channel.depth:
                    self.urgent = True

    def results_out(self, tickets: list[Ticket]) -> None:
        """All results of these messages are on the lines: they are finished when the lines have carried them."""
        with self.lock:
            fence = [(line, line.posted) for line in self.lines.values() if line.acked < line.posted]
            self._fences.append((fence, tickets))
            self._pass_fences()

    def answered(self, number: int, life: int, end: int) -> None:
        """A line says what it has carried."""
        with self.lock:
            line: Any = self.lines[number]
            line.answered(life, end)
            self._pass_fences()
            self.flush()

    def _pass_fences(self) -> None:
        while self._fences and all(line.acked >= end for line, end in self._fences[0][0]):
            self._finish(self._fences.popleft()[1])

    def _finish(self, tickets: list[Ticket]) -> None:
        for channel, life, sequence in tickets:
            if life == channel.life:
                channel.finish(sequence)
                self._due.add(channel)

    def finished(self, ticket: Ticket) -> None:
        """A message has come to its end here."""
        with self.lock:
            self._finish([ticket])

    def _credit_all(self) -> None:
        for channel in self._due:
            channel.reported = channel.taken
            credit = (records.CREDIT, channel.number, channel.life, channel.taken, channel.floor)
            self.lines[channel.peer].post(credit)
        self._due.clear()
        self.urgent = False

    # ---- others that were started again ------------------------------------------------------------------------------

    def renewed(self, process: int, life: int, handle: Any) -> None:
        """A process has a new life: it gets again what its former one had not finished."""
        with self.lock:
            line = self.lines.get(process)
            if line is None or life < line.life:
                return
            if life == line.life and line.first_meeting(handle):
                self.flush()
                return
            line.renewed(life, handle)
            for channel in self._out.values():
                if channel.line is line:
                    channel.again()
                    self._release(channel)
            self._pass_fences()
            self.flush()
