"""Pipes to other processes, written without waiting: what a full pipe does not take waits here, in order.

An exception may come out of a signal handler at any call (and at the end of any loop), also in the middle of `feed`. What
belongs together is therefore done in lines without a call, after everything that may fail.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import Outgoing
from softnpu.flow.transport.memory import Atlas


class Peer:
    """The way to another process."""

    __slots__ = ("batch", "fd", "heavy", "number", "records", "sending", "size", "to", "wrote")

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fd = fd
        self.to = (fd,)
        self.heavy = False  # whether there were records with memory of this process
        self.forget()

    def forget(self) -> None:
        """Nothing is on its way."""
        self.records: list[bytes] = []
        self.size = 0  # of all that is not written
        self.sending = b""  # a few of them that are written at once
        self.batch = 0  # their size
        self.wrote: list[int] = []  # what the system said to it


class Writer:
    """What is on its way to other processes. Methods that change anything hold `lock`."""

    def __init__(self, atlas: Atlas, outboxes: dict[int, int]) -> None:
        self.lock = threading.RLock()
        self._atlas = atlas
        self._peers = {number: Peer(number, fd) for number, fd in outboxes.items()}
        self._resent: list[Outgoing] = []  # their receivers have new lives, which may not have everything yet
        self.todo: list[Any] = []  # what was promised and is not among the records yet

    def catch_up(self) -> None:
        """See Sender."""
        raise NotImplementedError

    def _post(self, peer: Peer, record: bytes) -> None:
        size = peer.size + len(record)
        peer.records += (record,)
        peer.size = size
        if size > wire.PIPE_BUF:
            self._write(peer, False)

    def tell(self, process: int, record: bytes) -> None:
        """Send a notice."""
        with self.lock:
            self._post(self._peers[process], record)

    def stuck(self) -> list[int]:
        """Pipes that did not take all."""
        with self.lock:
            return [peer.fd for peer in self._peers.values() if peer.size]

    def flush(self) -> bool:
        """Hand over what is ready to go; False if a pipe would not take all of it."""
        with self.lock:
            if self.todo:
                self.catch_up()
            clear = True
            for peer in self._peers.values():
                if peer.size and not self._write(peer, True):
                    clear = False
            if clear and self._resent:
                for channel in self._resent:
                    channel.settled()
                self._resent.clear()
            return clear

    def _write(self, peer: Peer, everything: bool) -> bool:
        """Write whole records, several at once where they fit; the last, incomplete batch only if `everything` must go."""
        while peer.size and (everything or peer.size > wire.PIPE_BUF):
            if not peer.sending:
                self._load(peer)
            if not peer.wrote:
                try:  # one step: an interrupt comes before or after it
                    peer.wrote.extend(map(os.write, peer.to, (peer.sending,)))
                except BlockingIOError:
                    return False
                except BrokenPipeError:  # the other process ended, and nobody will start it again
                    peer.forget()
                    return True
            peer.size -= peer.batch
            peer.sending = b""
            del peer.wrote[0]
        return True

    def _load(self, peer: Peer) -> None:
        """The next batch."""
        records = peer.records
        size = peer.size
        count = len(records)
        if size > wire.PIPE_BUF:
            count, size = 1, len(records[0])
            while count < len(records) and size + len(records[count]) <= wire.PIPE_BUF:
                size += len(records[count])
                count += 1
        if peer.heavy:
            self._give(records[:count])
        content = records[0] if count == 1 else b"".join(records[:count])
        peer.sending = content
        peer.batch = size
        del records[:count]

    def _give(self, records: list[bytes]) -> None:
        own = self._atlas.own
        for record in records:
            if record[wire.BITS_AT] & wire.GIVES:
                for _, arena, block, _, _, lo, hi in wire.references(record):
                    if arena == own.number:
                        own.give(block, lo, hi)
