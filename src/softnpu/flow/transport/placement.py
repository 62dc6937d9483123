"""Where the bytes of a payload are put: into the record itself, or into a block of shared memory that the record names."""

from __future__ import annotations

from typing import Any, NamedTuple

from softnpu.flow.message import RAW, TENSOR, Payload
from softnpu.flow.transport import wire
from softnpu.flow.values.memory import TOKENS, Arenas, block_view_of


class Placed(NamedTuple):
    """A payload in its place."""

    descriptors: list[bytes]  # of its chunks, for each receiver
    kept: bool = False  # this process keeps looking at the bytes
    forwarded: bool = False  # memory of another process is handed on
    own: bool = False  # memory of this one is given away, and may outlive it


class Placement:
    """Places payloads for one process. `mortal`: it may be started again, and what it gave away is not its next life's."""

    def __init__(self, arenas: Arenas, mortal: bool) -> None:
        self._arenas = arenas
        self._mortal = mortal

    def place(self, payload: Payload, receivers: int) -> Placed:
        """Where the chunks are, for each receiver."""
        content = wire.inline_chunks(payload)
        if content is not None:
            return Placed([content] * receivers)
        parts: list[list[bytes]] = [[] for _ in range(receivers)]
        kept = forwarded = own = False
        for chunk in payload.chunks:
            for first in range(0, receivers, TOKENS):  # each needs a token at least; usually once
                where = self._reference(chunk, payload, parts[first : first + TOKENS])
                kept |= where.kept
                forwarded |= where.forwarded
                own |= where.own
        return Placed([b"".join(part) for part in parts], kept, forwarded, own)

    def _reference(self, chunk: Any, payload: Payload, parts: list[list[bytes]]) -> Placed:
        """Tokens of the block that already holds a chunk, or of a new one; each receiver gets a share."""
        view = block_view_of(chunk) if payload.owned or payload.form in (TENSOR, RAW) else None
        receivers = len(parts)
        if view is not None and view.home is self._arenas and view.hi - view.lo > receivers:
            arena, block, nbytes = view.arena, view.block, chunk.nbytes
            start = view.start + chunk.__array_interface__["data"][0] - view.__array_interface__["data"][0]
            lo, hi = view.lo if payload.owned else view.lo + 1, view.hi
            view.hi = lo
            kept = not payload.owned
            forwarded = arena != self._arenas.own.number
        else:
            arena = self._arenas.own.number
            block, start, nbytes = self._arenas.own.put(chunk)
            lo, hi, kept, forwarded = 0, TOKENS, False, False
        share = (hi - lo) // receivers
        for index, part in enumerate(parts):
            last = hi if index == receivers - 1 else lo + share
            part.append(wire.reference_chunk(arena, block, start, nbytes, lo, last))
            lo = last
        return Placed([], kept, forwarded, self._mortal and not forwarded)
