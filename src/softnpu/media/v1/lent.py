"""What the system lends to a callback of VENC: memory that the program must not free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from softnpu.base.errors import NpuError, codes
from softnpu.runtime.memory.atlas import Allocation
from softnpu.runtime.parts import Part
from softnpu.runtime.process import process


class LentMemory(Part):
    """What callbacks have at the moment, by address."""

    def __init__(self) -> None:
        self.allocations: dict[int, Allocation] = {}


@contextmanager
def lent(allocation: Allocation | None) -> Iterator[None]:
    """While this lasts, `dvpp_free` refuses the memory."""
    if allocation is None:
        yield
        return
    book = process().part(LentMemory).allocations
    book[allocation.address] = allocation
    try:
        yield
    finally:
        if book.get(allocation.address) is allocation:
            del book[allocation.address]


def check_own(address: int) -> None:
    """Raise when the memory is lent. What went with its device is not: the address may be the program's by now."""
    allocation = process().part(LentMemory).allocations.get(address)
    if allocation is not None and allocation.live:
        raise NpuError(
            codes.INVALID_PARAM,
            f"{address:#x} is the output of a VENC channel, which belongs to the system",
            "copy what is needed in the callback and do not free it",
        )
