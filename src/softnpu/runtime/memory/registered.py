"""Host memory that the program registers for the device."""

from __future__ import annotations

import threading

from softnpu.base.errors import NpuError, codes
from softnpu.base.handles import kind_of
from softnpu.runtime.memory.kinds import on_device
from softnpu.runtime.memory.reach import Addresses


class Registered:
    """Ranges of `acl.rt.host_register`."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._ranges: dict[int, int] = {}  # bytes by address
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call

    def clear(self) -> None:
        """Forget them all."""
        self._ranges.clear()

    def _range_of(self, address: int) -> int | None:
        ranges = list(self._ranges.items())
        return next((start for start, size in ranges if start <= address < start + size), None)

    def register(self, address: int, size: int, write: bool = True) -> int:
        """Map host memory for the device; the device address is the same, since memory is shared here."""
        if address == 0 or size == 0:
            raise NpuError(
                codes.INVALID_PARAM,
                f"the range has address {address:#x} and size {size}",
                "pass host memory with at least one byte",
            )
        allocation = self._addresses.reach(address, size, write)
        if allocation is not None and on_device(allocation):
            raise NpuError(
                codes.RT_PARAM_INVALID,
                f"{address:#x} lies in {allocation.describe()}, which is no host memory",
                "register memory of acl.rt.malloc_host, or of the program's own",
            )
        with self._lock:
            ranges = list(self._ranges.items())
            if any(address < start + length and start < address + size for start, length in ranges):
                raise NpuError(
                    codes.HOST_MEMORY_ALREADY_REGISTERED,
                    f"{address:#x} lies in a range that is registered already",
                    "call acl.rt.host_unregister first",
                )
            self._ranges[address] = size
        return address

    def pointer(self, address: int) -> int:
        """The device address of registered host memory."""
        if self._range_of(address) is None:
            raise self._unregistered(address)
        return address

    def unregister(self, address: int) -> None:
        """Undo `register`."""
        if address == 0:
            raise self._addresses.lost(address)
        if self._ranges.pop(address, None) is None:
            raise self._unregistered(address)

    def _unregistered(self, address: int) -> NpuError:
        return NpuError(
            codes.HOST_MEMORY_NOT_REGISTERED, f"{address:#x} is not registered", "call acl.rt.host_register first"
        )

    def locate(self, address: int) -> tuple[int, int]:
        """aclrtMemLocationType of a pointer and the id of its device (host 0, device 1, unknown 2)."""
        if address == 0 or kind_of(address) is not None:
            raise self._addresses.lost(address)
        allocation = self._addresses.atlas.find(address)
        if allocation is None:
            return (0 if self._range_of(address) is not None else 2), 0
        if not allocation.live:
            raise self._addresses.lost(address)
        return (1, allocation.device.index) if allocation.device is not None else (0, 0)
