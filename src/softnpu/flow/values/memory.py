"""Payloads in shared memory: each process writes blocks of its own arena, others read them in place.

A block has 64 tokens. Whoever holds some of them may read the block; sending a message on hands tokens over, and
releasing one is a store of a byte that nobody else writes. A block whose tokens all came back is free again. So no lock
and no count is shared between processes, and nothing can be left locked by one that was killed.

A token is held by the writer of the arena, given out, or returned; the sizes of the blocks stand in the arena, too. So a
writer that is started again goes on with the arena of its former life: what that one held is free.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from softnpu.runtime.memory.segment import Window

TOKENS = 64
_MAX_BLOCKS = 1 << 16
_TABLE = TOKENS * _MAX_BLOCKS
_FIRST = _TABLE + 8 * _MAX_BLOCKS  # where the bytes of blocks begin, after their tokens and sizes
ARENA_SIZE = 1 << 36  # addresses, not memory
_SMALLEST = 4096
_HELD = bytes(TOKENS)
_RETURNED = b"\x01" * TOKENS
_GIVEN = b"\x02" * TOKENS
_GRANTED = [True]
_GLANCES = 8
_LARGE = 1 << 18
_KEPT_WHEN_IDLE = 32 << 20

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Returned = tuple[memoryview, int, int]  # tokens of a block: from which, to which


class BlockView(np.ndarray[Any, np.dtype[np.uint8]]):
    """The bytes of a block, as long as somebody looks at them; its tokens go back when the last view is gone."""

    home: Any  # the arenas it belongs to: another session cannot pass it on
    arena: int
    block: int
    start: int
    tokens: memoryview
    lo = 0
    hi = 0
    grant = _GRANTED  # whether the message that it came with was received; else it will be read again

    def __del__(self) -> None:
        if self.hi > self.lo and self.grant[0]:
            late = self.home.late
            if late is None:
                self.tokens[self.lo : self.hi] = _RETURNED[self.lo : self.hi]
            else:
                late.append((self.tokens, self.lo, self.hi))
            self.hi = self.lo


def rounded(nbytes: int) -> int:
    """The size of the block for so many bytes: sixteen steps between powers of two; large powers would share cache lines."""
    if nbytes <= _SMALLEST:
        return _SMALLEST
    step = max(_SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 5))
    return -(-nbytes // step) * step


class ArenaView:
    """An arena as another process reads it."""

    def __init__(self, fd: int, number: int, home: Any) -> None:
        self.number = number
        self._home = home
        self._window = Window(fd, number * ARENA_SIZE, ARENA_SIZE)
        self.bytes = self._window.array
        self._tokens = memoryview(self._window.buffer)[:_TABLE]

    def close(self) -> None:
        """Unmap; what was viewed stays as long as somebody looks at it."""
        self.bytes = np.empty(0, np.uint8)
        self._tokens.release()
        self._window.close()
        del self._window  # `Arenas` and each arena know each other: the memory is not to wait for the garbage collector

    def block_view(self, block: int, start: int, nbytes: int, lo: int, hi: int) -> BlockView:
        """Bytes of a block, with the tokens that came with them."""
        view = BlockView.__new__(
            BlockView, (nbytes,), np.uint8, self._window.buffer, start
        )  # on an array views would skip it
        view.home = self._home
        view.arena = self.number
        view.block = block
        view.start = start
        view.tokens = self._tokens[block * TOKENS : (block + 1) * TOKENS]
        view.lo = lo
        view.hi = hi
        return view


class Arena(ArenaView):
    """The arena that this process writes."""

    def __init__(self, fd: int, number: int, home: Any) -> None:
        super().__init__(fd, number, home)
        self._lock = threading.Lock()
        self._lanes: dict[int, deque[tuple[int, int]]] = {}
        self._grown: dict[int, int] = {}
        self._known: dict[int, list[tuple[int, int]]] = {}  # blocks that were seen to be free
        self._blocks = 0
        self._top = _FIRST
        self._sizes = memoryview(self._window.buffer)[_TABLE:_FIRST].cast("Q")
        self.foreign = False  # this process is a fork of the one that writes here
        self._take_over()

    def _take_over(self) -> None:
        """Blocks of a former life: what it did not give out is free."""
        while self._blocks < _MAX_BLOCKS and (size := self._sizes[self._blocks]):
            tokens = self._tokens[self._blocks * TOKENS : (self._blocks + 1) * TOKENS]
            tokens[:] = bytes(tokens).replace(b"\x00", b"\x01")
            self._lanes.setdefault(size, deque()).append((self._blocks, self._top))
            self._grown[size] = 0
            self._blocks += 1
            self._top += size

    def close(self) -> None:
        """See ArenaView."""
        self._sizes.release()
        super().close()

    def give(self, block: int, lo: int, hi: int) -> None:
        """These tokens leave this process."""
        self._tokens[block * TOKENS + lo : block * TOKENS + hi] = _GIVEN[lo:hi]

    def take(self, nbytes: int) -> tuple[int, int]:
        """A free block: its number and where its bytes begin. MemoryError when there is none."""
        size = rounded(nbytes)
        with self._lock:
            lane = self._lanes.get(size)
            if lane is None:
                lane = self._lanes[size] = deque()
                self._grown[size] = 0
            free = self._first_free(size, lane) if size >= _LARGE else self._oldest_free(size, lane)
            if free is not None:
                self._tokens[free[0] * TOKENS : (free[0] + 1) * TOKENS] = _HELD
                return free
            if self._blocks == _MAX_BLOCKS or self._top + size > ARENA_SIZE:
                raise MemoryError(f"The arena is full: {self._blocks} blocks, {self._top} bytes are still being read.")
            block, start = self._blocks, self._top
            self._sizes[block] = size
            self._blocks += 1
            self._top += size
            self._grown[size] += 1
            lane.append((block, start))
            return block, start

    def _first_free(self, size: int, lane: deque[tuple[int, int]]) -> tuple[int, int] | None:
        """Large blocks: the first ones that are free, so that few of them are in use and stay in the caches."""
        known = self._known.get(size)
        if not known:
            known = self._known[size] = [each for each in reversed(lane) if self._free(each[0])]
        return known.pop() if known else None

    def _oldest_free(self, size: int, lane: deque[tuple[int, int]]) -> tuple[int, int] | None:
        """Small blocks: the one that was given out longest ago is probably free; look at all before growing further."""
        glances = min(_GLANCES, len(lane))
        if self._grown[size] * 2 >= len(lane):
            glances = len(lane)
            self._grown[size] = 0
        for _ in range(glances):
            lane.rotate(-1)
            if self._free(lane[-1][0]):
                return lane[-1]
        return None

    def _free(self, block: int) -> bool:
        return self._tokens[block * TOKENS : (block + 1) * TOKENS] == _RETURNED

    def allocate(self, nbytes: int) -> Bytes:
        """Writable bytes that can be sent without a copy; all tokens are this process's."""
        if self.foreign:
            room = np.empty(nbytes + _SMALLEST, np.uint8)
            return room[-room.ctypes.data % _SMALLEST :][:nbytes]
        block, start = self.take(max(nbytes, 1))
        return self.block_view(block, start, nbytes, 0, TOKENS)

    def put(self, chunk: Any) -> tuple[int, int, int]:
        """Copy bytes into a block; returns block, start and length. Its tokens are the caller's to give out."""
        content = as_bytes(chunk)
        block, start = self.take(content.nbytes)
        self.bytes[start : start + content.nbytes] = content
        return block, start, content.nbytes

    def trim(self) -> None:
        """Give the memory of free blocks back to the system, but for a little that the next message will want."""
        kept = 0
        with self._lock:
            for size, lane in self._lanes.items():
                for block, start in lane:
                    if self._free(block):
                        kept += size
                        if kept > _KEPT_WHEN_IDLE:
                            self._window.give_back(start, size)

    def used(self) -> tuple[int, int]:
        """Bytes of all blocks, and of those that somebody still reads."""
        with self._lock:
            held = sum(size for size, lane in self._lanes.items() for block, _ in lane if not self._free(block))
        return self._top - _FIRST, held


class _Nowhere(deque[Returned]):
    """For a fork of this process: the tokens are its parent's to return."""

    def append(self, returned: Returned) -> None:
        """Nothing."""


class Arenas:
    """All arenas of a session by number; those of others are mapped when a message first names them."""

    def __init__(self, fd: int, own: int) -> None:
        self._fd = fd
        self.own = Arena(fd, own, self)
        self._views: dict[int, ArenaView] = {own: self.own}
        self.late: deque[Returned] | None = None  # tokens to be returned when `settle` is called
        _living.add(self)

    def disown(self) -> None:
        """In a fork: nothing of this is written any more."""
        self.late = _Nowhere()
        self.own.foreign = True

    def settle(self) -> None:
        """Return tokens of messages that are finished. Before that their sender may have to send them again."""
        if self.late:
            for _ in range(len(self.late)):  # not those that a destructor in another thread adds meanwhile
                tokens, lo, hi = self.late.popleft()
                tokens[lo:hi] = _RETURNED[lo:hi]

    def block_view(self, arena: int, block: int, start: int, nbytes: int, lo: int, hi: int) -> BlockView:
        """The bytes that a message speaks of."""
        view = self._views.get(arena)
        if view is None:
            view = self._views[arena] = ArenaView(self._fd, arena, self)
        return view.block_view(block, start, nbytes, lo, hi)

    def close(self) -> None:
        """Unmap all arenas."""
        for view in self._views.values():
            view.close()
        self._views.clear()


_living: weakref.WeakSet[Arenas] = weakref.WeakSet()


def _forked() -> None:
    for arenas in _living:
        arenas.disown()


os.register_at_fork(after_in_child=_forked)


def block_view_of(array: Any) -> BlockView | None:
    """The view of a block that an array looks into, if it does."""
    while type(array) is np.ndarray:
        array = array.base
    return array if type(array) is BlockView and array.hi > array.lo else None


def as_bytes(chunk: Any) -> Bytes:
    """The bytes of a buffer or of a contiguous array of any type, without a copy."""
    if isinstance(chunk, np.ndarray):
        return chunk.reshape(-1).view(np.uint8)
    return np.frombuffer(chunk, np.uint8)
