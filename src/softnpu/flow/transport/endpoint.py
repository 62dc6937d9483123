"""One process's end of all its channels: an outbox, an inbox, and the lock and pipes that both use."""

from __future__ import annotations

import select
import threading

from softnpu.flow.transport.channels import Incoming, Outgoing, plan_at
from softnpu.flow.transport.inbox import Inbox, Owner
from softnpu.flow.transport.layout import APPLICATION, Layout
from softnpu.flow.transport.outbox import Outbox
from softnpu.flow.transport.writer import Writer
from softnpu.flow.values.memory import Arenas

_LONGEST_WAIT = 1 << 30  # milliseconds; who waits longer looks around in between


class Endpoint:
    """Made of its parts. `pipes` are the one that this process reads, and those that it writes, by process."""

    def __init__(
        self,
        process: int,
        layout: Layout,
        arenas: Arenas,
        marks: memoryview,
        pipes: tuple[int, dict[int, int]],
        owner: Owner,
        epoch: int = 0,
        new: bool = True,
    ) -> None:
        mine, others = pipes
        self.lock = threading.RLock()
        self.arenas = arenas
        self._marks = marks
        writer = Writer(arenas.own, others)
        self.outbox = Outbox(self.lock, arenas, writer, epoch, process != APPLICATION)
        self.inbox = Inbox(self.lock, mine, arenas, writer, self.outbox, owner, epoch)
        for each in layout.channels:
            number, depth = each.number, each.depth
            if each.source == process and each.target == process:
                self.outbox.local[number] = owner.queue(each.runner, each.index), depth
            elif each.source == process:
                self.outbox.channels[number] = Outgoing(number, each.target, depth, each.overwrite, marks, layout.words)
            elif each.target == process:
                queue = owner.queue(each.runner, each.index)
                incoming = Incoming(number, each.source, depth, queue.arrive, marks, layout.words, new)
                incoming.sink = getattr(queue, "messages", None)
                self.inbox.channels[number] = incoming
        if process != APPLICATION and len(self.inbox.channels) > 1:
            self.inbox.together(marks, plan_at(list(self.inbox.channels), layout.words))

    def wait(self, timeout: float | None, alarm: int = -1) -> bool:
        """Sleep until something comes, a full pipe has room again, or `alarm` can be read; False if the time was up."""
        poll = select.poll()
        poll.register(self.inbox.fd, select.POLLIN)
        if alarm >= 0:
            poll.register(alarm, select.POLLIN)
        for descriptor in self.outbox.stuck():
            poll.register(descriptor, select.POLLOUT)
        return bool(poll.poll(None if timeout is None else min(max(0, -(-timeout * 1000 // 1)), _LONGEST_WAIT)))

    def close(self) -> None:
        """Let go of everything; nothing can be sent or received any more."""
        with self.lock:
            self.inbox.close()
            self.outbox.clear()
            self._marks.release()
            self.arenas.close()
