"""Copies and fills that happen now. What may be copied is said in `copy_checks.py`."""

from __future__ import annotations

from softnpu.base.log import WARNING, log
from softnpu.runtime.backends.base import Backend
from softnpu.runtime.memory.copy_checks import DEFAULT_KIND, check_direction, check_peers
from softnpu.runtime.memory.reach import Addresses, ShortRead


class Copies:
    """Checks both ends, then lets the backend move the bytes."""

    def __init__(self, addresses: Addresses, backend: Backend) -> None:
        self._addresses = addresses
        self._backend = backend

    def copy(self, dst: int, src: int, count: int, kind: int) -> None:
        """Check both ends and copy."""
        addresses = self._addresses
        try:
            source = addresses.reach(src, count, False)
        except ShortRead as short:
            log().write(
                WARNING,
                f"{count} bytes are read at {src:#x}, only {short.usable} exist there; the rest is left as it is",
                "RUNTIME",
                "memcpy",
            )
            source, count = None, short.usable
        target = addresses.reach(dst, count, True)
        if source is not None and target is not None and source.device is not target.device:
            check_peers(source, target)
        if kind != DEFAULT_KIND and addresses.strict:
            check_direction(source, target, kind)
        if dst != src:
            self._backend.copy(dst, src, count)

    def copy_2d(self, dst: int, dpitch: int, src: int, spitch: int, width: int, height: int, kind: int) -> None:
        """Check both rectangles and copy row by row."""
        addresses = self._addresses
        target = addresses.reach(dst, dpitch * (height - 1) + width, True)
        source = addresses.reach(src, spitch * (height - 1) + width, False)
        if source is not None and target is not None and source.device is not target.device:
            check_peers(source, target)
        if kind != DEFAULT_KIND and addresses.strict:
            check_direction(source, target, kind)
        self._backend.copy_2d(dst, dpitch, src, spitch, width, height)

    def fill(self, address: int, value: int, count: int) -> None:
        """Check the range and set its bytes."""
        self._addresses.reach(address, count, True)
        self._backend.fill(address, value & 0xFF, count)
