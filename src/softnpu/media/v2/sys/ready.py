"""Readiness of a channel as a file descriptor, for `sys_wait_epoll`, `select` and `poll`."""

from __future__ import annotations

import contextlib
import os
import threading

from softnpu.base.errors import NpuError, codes


class Ready:
    """Whether a channel has results. The descriptor exists from the first look at `fd` until `close`.

    `set` may be called for each result: a waiter with the edge flag wakes for each of them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call
        self._is_set = False
        self._fd = -1

    @property
    def fd(self) -> int:
        """A descriptor of the operating system that is readable while results are there."""
        with self._lock:
            if self._fd < 0:
                self._fd = _event()
                if self._is_set:
                    os.eventfd_write(self._fd, 1)
            return self._fd

    def has(self, fd: int) -> bool:
        """Whether this is its descriptor now."""
        return fd >= 0 and self._fd == fd

    def set(self) -> None:
        """Results are there."""
        with self._lock:
            self._is_set = True
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """The last result was taken."""
        with self._lock:
            self._is_set = False
            if self._fd >= 0:
                with contextlib.suppress(BlockingIOError):  # it was not set
                    os.eventfd_read(self._fd)

    def close(self) -> None:
        """Give the descriptor back; the next look at `fd` makes a new one."""
        with self._lock:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


def _event() -> int:
    try:
        return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    except OSError as error:
        raise no_descriptor(error) from error


def no_descriptor(error: OSError) -> NpuError:
    """The operating system gives no more descriptors."""
    return NpuError(
        codes.BAD_ALLOC, f"no file descriptor could be made: {error}", "close descriptors that are no longer needed"
    )
