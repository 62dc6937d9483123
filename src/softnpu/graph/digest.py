"""Digests of an `.om`: what atc wrote can be told from what a disk, a transfer or a hand has changed since.

The last item of the kernel store holds one number for each part. Engines trust their programs, so a changed one must not
reach them; a changed weight would only show as a wrong result. This guards against damage, not against a forger.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from softnpu.graph import container
from softnpu.graph.inout import damaged
from softnpu.graph.program import kernel_item

_NAME = "softnpu.digest"
_NUMBERS = struct.Struct("<4I")  # of the description, the graph, the programs, the weights
_HEAD = b"".join(kernel_item(_NAME, bytes(_NUMBERS.size)))[: -_NUMBERS.size]
ITEM_BYTES = len(_HEAD) + _NUMBERS.size
_BLOCK = 4096
_STEP = 16 << 20  # bytes of weights at a time; a multiple of the block

Part = bytes | memoryview


def item(description: Part, graph: Part, programs: Iterable[Part], weights: Iterable[Part]) -> bytes:
    """The item that ends the kernel store."""
    store = 0
    for part in programs:
        store = zlib.crc32(part, store)
    return _HEAD + _NUMBERS.pack(zlib.crc32(description), zlib.crc32(graph), store, of_weights(weights))


def check(partitions: Mapping[int, memoryview]) -> int | None:
    """Raise when a part is not what it was; returns the number of the weights, None for a model without digests."""
    store = partitions.get(container.TBE_KERNELS, memoryview(b""))
    if len(store) < ITEM_BYTES or store[-ITEM_BYTES : -_NUMBERS.size] != _HEAD:
        return None
    *wanted, weights = _NUMBERS.unpack(store[-_NUMBERS.size :])
    empty = memoryview(b"")
    parts = (
        partitions.get(container.MODEL_INOUT_INFO, empty),
        partitions.get(container.MODEL_DEF, empty),
        store[:-ITEM_BYTES],
    )
    for name, part, number in zip(("description", "graph", "program"), parts, wanted, strict=True):
        if zlib.crc32(part) != number:
            raise damaged(f"its {name} was changed after it was written")
    return int(weights)


def check_weights(weights: memoryview, wanted: int | None) -> None:
    """Raise when the weights are not what they were, or when the model does not say what they should be."""
    if wanted is None:
        raise damaged("it has no digests, so another version wrote it or its end is missing")
    if of_weights([weights]) != wanted:
        raise damaged("its weights were changed after they were written")


def of_weights(pieces: Iterable[Part]) -> int:
    """The digest of weights given in pieces: a checksum of the sums of their blocks.

    Sums run at the speed of memory, several times faster than a checksum of every byte, and notice a changed value as
    surely as 32 bits can. Changes that cancel in the sum of 8-byte words of one block of 4 KiB go unnoticed: words that
    change places, or one that grows by what another loses.
    """
    number, rest = 0, b""
    for piece in pieces:
        data = memoryview(piece).cast("B")
        if rest:
            taken = min(_BLOCK - len(rest), len(data))
            rest, data = rest + bytes(data[:taken]), data[taken:]
            if len(rest) < _BLOCK:
                continue
            number, rest = zlib.crc32(_sums(memoryview(rest)), number), b""
        whole = len(data) - len(data) % _BLOCK
        for at in range(0, whole, _STEP):
            number = zlib.crc32(_sums(data[at : min(at + _STEP, whole)]), number)
        rest = bytes(data[whole:])
    return zlib.crc32(rest, number)


def _sums(data: memoryview) -> bytes:
    words = np.frombuffer(data, "<u8").reshape(-1, _BLOCK // 8)
    return bytes(np.add.reduce(words, axis=1).astype("<u8"))
