"""The check that every pointer entering the API goes through: which addresses may be touched, and by how many bytes."""

from __future__ import annotations

from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import kind_of, with_article
from softnpu.runtime.memory.atlas import CHUNK_SHIFT, Allocation, Atlas
from softnpu.runtime.memory.foreign import Pins, thread_of, usable_prefix
from softnpu.runtime.memory.kinds import on_device


class ShortRead(NpuError):
    """Only the first `usable` bytes of a foreign source can be read; `copy` makes do with them, others fail."""

    def __init__(self, usable: int, error: NpuError) -> None:
        super().__init__(error.code, error.text, error.remedy)
        self.usable = usable


class Addresses:
    """What lives under an address: memory of ours, objects that the program pinned, or memory that is not ours."""

    def __init__(self, atlas: Atlas) -> None:
        self.atlas = atlas
        self.pins = Pins()
        self.strict = False  # SOFTNPU_CHECK=strict: no reading past the size that was asked for

    def reach(self, address: int, size: int, write: bool) -> Allocation | None:
        """Check that `size` bytes at `address` may be touched; the allocation, or None for memory we did not make."""
        chunk = self.atlas.chunks.get(address >> CHUNK_SHIFT)
        if chunk is None:
            self._reach_foreign(address, size, write)
            return None
        allocation = chunk.at(address)
        if allocation is None or not allocation.live or address >= allocation.end:
            raise self.lost(address)
        if address + size > (allocation.address + allocation.size if self.strict else allocation.end):
            raise self._outside(address, size, allocation)
        if allocation.note:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in {allocation.describe()}: {allocation.note}",
                "map physical memory there first (acl.rt.map_mem)",
            )
        return allocation

    def _reach_foreign(self, address: int, size: int, write: bool) -> None:
        room = self.pins.room(address, write)
        if room is not None:
            if size <= room:
                return
            if write or self.strict:
                raise NpuError(
                    codes.RT_PARAM_INVALID,
                    f"{size} bytes at {address:#x} reach {size - room} bytes past the end of the bytes object or array there",
                    "copy less, or pass a larger object",
                )
        if write and (thread := thread_of(address, size)) is not None:
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} is where thread {thread} lives, and no memory to write to",
                "a thread id is not a pointer; check the order of the arguments",
            )
        reachable = self.atlas.outside(address, size)
        if reachable is None or kind_of(address) is not None:
            raise self.lost(address)
        usable = usable_prefix(address, reachable, write)
        if usable >= size:
            return
        error = self.lost(address, size, write)
        if usable == 0 or write or self.strict:
            raise error
        raise ShortRead(usable, error)

    def _outside(self, address: int, size: int, allocation: Allocation) -> NpuError:
        offset = address - allocation.address
        position = f"at offset {offset} " if offset else ""
        return NpuError(
            codes.RT_PARAM_INVALID,
            f"{size} bytes {position}reach {address + size - allocation.address - allocation.size} bytes past the end of {allocation.describe()}",
            "copy less, or allocate more",
        )

    def lost(self, address: int, size: int = 0, write: bool = False) -> NpuError:
        """The error for an address under which nothing lives."""
        if address == 0:
            return NpuError(
                codes.INVALID_PARAM, "the pointer is null (0)", "check the ret of the call that should have made it"
            )
        claimed = kind_of(address)
        if claimed is not None:
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} is {with_article(claimed)} handle and no address",
                "check the order of the arguments",
            )
        allocation = self.atlas.find(address)
        if allocation is not None and not allocation.live:
            freed = allocation.note or "freed already"
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} points into memory that was {freed}: {allocation.describe()}",
                "do not use or free a pointer after its free call; set the variable to None there",
            )
        owner = self.atlas.segment_of(address)
        if owner is not None:
            return NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in the address space of {owner}, but nothing is allocated there",
                "check the offset that was added to the pointer",
            )
        verb = "written" if write else "read"
        extent = f" for {size} bytes" if size else ""
        return NpuError(
            codes.RT_PARAM_INVALID,
            f"{address:#x} is no memory of this process that can be {verb}{extent}",
            "pass a pointer from acl.rt.malloc, malloc_host or acl.util.*_to_ptr whose object is still alive",
        )

    def explain(self, value: int) -> str:
        """What an address points into, for messages about values that should have been something else."""
        allocation = self.atlas.find(value)
        if allocation is None:
            return ""
        return f"it points into {allocation.describe()}" + ("" if allocation.live else ", which was freed")

    def both_on_host(self, dst: int, src: int) -> bool:
        """Whether neither pointer is device memory."""
        return not (on_device(self.atlas.find(dst)) or on_device(self.atlas.find(src)))
