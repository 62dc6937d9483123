"""What an encode channel of `acl.himpi` hands out: packets in memory that belongs to the channel until it is released."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.struct import Fields
from softnpu.media.v2.venc.structs import PACK
from softnpu.runtime.device import Device
from softnpu.runtime.memory.memory import Memory

_FRONT = 64  # packets begin inside their allocation: the program cannot free them by mistake


@dataclass(eq=False)
class Block:
    """Memory of the channel with the packets of one picture; freed with the last of them."""

    address: int
    size: int
    packs: int


@dataclass(eq=False)
class Unit:
    """One encoded picture: its packets, in order. `failed` says why there is none."""

    pts: int
    input_address: int
    number: int = 0
    size: int = 0
    packs: deque[Fields] = field(default_factory=deque)
    failed: str = ""

    def add(self, address: int, length: int, last: bool, contents: int = 0) -> None:
        """A packet at an address; `contents` counts the further pieces inside it (parameter sets before the picture)."""
        pack = PACK.blank()
        pack.addr = pack.phys_addr = address
        pack.len = length
        pack.pts = self.pts
        pack.input_addr = self.input_address
        pack.is_frame_end = int(last)
        pack.data_num = contents
        self.packs.append(pack)
        self.size += length


class Store:
    """The stream buffer of a channel. The channel's lock guards it."""

    def __init__(self, device: Device, memory: Memory) -> None:
        self._device = device
        self._memory = memory
        self._blocks: dict[int, Block] = {}  # by the address of a packet
        self._bare = 0  # packets out that have no memory here
        self.used = 0

    def write(self, unit: Unit, data: bytes, parts: list[tuple[int, int]], contents: int) -> None:
        """Put a picture into memory, as packets of (offset, length)."""
        address = self._memory.allocate(self._device, _FRONT + len(data), 0, kind="media", align=128)
        self._memory.store(address + _FRONT, data)
        block = Block(address, len(data), len(parts))
        for index, (offset, length) in enumerate(parts):
            unit.add(address + _FRONT + offset, length, index == len(parts) - 1, contents)
            self._blocks[address + _FRONT + offset] = block
        self.used += block.size

    def hand_out(self, packs: list[Fields]) -> None:
        """Packets go to the program."""
        self._bare += sum(pack.addr not in self._blocks for pack in packs)

    def take_back(self, packs: list[Fields]) -> None:
        """`venc_release_stream`."""
        for pack in packs:
            block = self._blocks.pop(pack.addr, None)
            if block is not None:
                self._count_down(block)
            elif self._bare:
                self._bare -= 1
            else:
                raise himpi_error(
                    "venc",
                    "ILLEGAL_PARAM",
                    f"no packet with the address {pack.addr:#x} is out",
                    "release each stream of venc_get_stream once, as it came",
                )

    def _count_down(self, block: Block) -> None:
        block.packs -= 1
        if not block.packs:
            self.used -= block.size
            self._free(block)

    def _free(self, block: Block) -> None:
        allocation = self._memory.atlas.find(block.address)
        if allocation is not None and allocation.live:  # acl.finalize may have been quicker
            self._memory.release(allocation)

    def close(self) -> None:
        """The channel ends: its memory goes, released or not."""
        for block in set(self._blocks.values()):
            self._free(block)
        self._blocks.clear()
        self.used = 0
