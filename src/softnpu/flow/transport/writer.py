"""Pipes to other processes, written without waiting: what a full pipe does not take waits here, in order."""

from __future__ import annotations

import os

from softnpu.flow import atomic
from softnpu.flow.transport import wire
from softnpu.flow.values.memory import Arena


class Peer:
    """The way to another process."""

    __slots__ = ("batch", "batch_size", "carries_memory", "fds", "number", "records", "size", "written")

    def __init__(self, number: int, fd: int) -> None:
        self.number = number
        self.fds = (fd,)
        self.carries_memory = False  # whether there were records with memory of this process
        self.forget()

    def forget(self) -> None:
        """Nothing is on its way."""
        self.records: list[bytes] = []
        self.size = 0  # of all that is not written
        self.batch = b""  # a few of them that are written at once
        self.batch_size = 0
        self.written: list[int] = []  # what the system said to it


class Writer:
    """The pipes of one process. Whoever calls holds the lock of the endpoint."""

    def __init__(self, arena: Arena, pipes: dict[int, int]) -> None:
        self._arena = arena
        self.peers = {number: Peer(number, fd) for number, fd in pipes.items()}

    def post(self, process: int, record: bytes) -> None:
        """A record that nobody counts: a notice, or a word about a channel."""
        peer = self.peers[process]
        atomic.append_record(peer, record)
        if peer.size > wire.PIPE_BUF:
            self.write(peer, False)

    def stuck(self) -> list[int]:
        """Pipes that did not take all."""
        return [peer.fds[0] for peer in self.peers.values() if peer.size]

    def write_all(self) -> bool:
        """Hand over what is ready to go; False if a pipe would not take all of it."""
        clear = True
        for peer in self.peers.values():
            if peer.size and not self.write(peer, True):
                clear = False
        return clear

    def write(self, peer: Peer, everything: bool) -> bool:
        """Write whole records, several at once where they fit; the last, incomplete batch only if `everything` must go."""
        while peer.size and (everything or peer.size > wire.PIPE_BUF):
            if not peer.batch:
                self._load(peer)
            if not peer.written:
                try:
                    atomic.noting(peer.written, os.write, peer.fds, (peer.batch,))
                except BlockingIOError:
                    return False
                except BrokenPipeError:  # the other process ended, and nobody will start it again
                    peer.forget()
                    return True
            atomic.batch_written(peer)
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
        if peer.carries_memory:
            self._give(records[:count])
        atomic.load_batch(peer, records[0] if count == 1 else b"".join(records[:count]), size, count)

    def _give(self, records: list[bytes]) -> None:
        """Memory of this process that leaves it with these records."""
        own = self._arena
        for record in records:
            if record[wire.BITS_AT] & wire.GIVES:
                for _, arena, block, _, _, lo, hi in wire.references(record):
                    if arena == own.number:
                        own.give(block, lo, hi)
