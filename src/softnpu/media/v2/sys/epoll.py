"""Event waiters of `acl.himpi` over those of the operating system."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable

from softnpu import constants
from softnpu.media.v2.errors import himpi_error
from softnpu.media.v2.sys.ready import Ready, no_descriptor

# Their flags, and those of the operating system.
_FLAGS = (
    (constants.HI_DVPP_EPOLL_IN, select.EPOLLIN),
    (constants.HI_DVPP_EPOLL_OUT, select.EPOLLOUT),
    (constants.HI_DVPP_EPOLL_ET, select.EPOLLET),
)
_HELP = "take it from vdec_get_fd or venc_get_fd, before close_fd"


class Epoll:
    """One waiter. Closing it wakes whoever waits in it."""

    def __init__(self) -> None:
        try:
            self._os = select.epoll()
        except OSError as error:
            raise no_descriptor(error) from error
        self.fd = self._os.fileno()
        self._bell = Ready()  # rings when the waiter is closed
        try:
            self._bell_fd = self._bell.fd
            self._os.register(self._bell_fd, select.EPOLLIN)
        except BaseException:
            self._os.close()
            raise
        self._data: dict[int, int] = {}
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call
        self._waiting = 0
        self._closed = False

    def control(self, operation: int, fd: int, events: int, data: int) -> None:
        """Add, change or remove a descriptor."""
        mask = sum(theirs for ours, theirs in _FLAGS if events & ours)
        try:
            if operation == constants.HI_DVPP_EPOLL_CTL_ADD:
                self._os.register(fd, mask)
            elif operation == constants.HI_DVPP_EPOLL_CTL_MOD:
                self._os.modify(fd, mask)
            else:
                self._os.unregister(fd)
        except FileExistsError as error:
            raise himpi_error(
                "sys", "EXIST", f"fd {fd} is in the waiter already", "change it with HI_DVPP_EPOLL_CTL_MOD"
            ) from error
        except (OSError, ValueError) as error:
            raise himpi_error("sys", "UNEXIST", f"fd {fd} is not in the waiter: {error}", "add it first") from error
        if operation == constants.HI_DVPP_EPOLL_CTL_DEL:
            self._data.pop(fd, None)
        else:
            self._data[fd] = data

    def wait(self, most: int, timeout_ms: int) -> list[tuple[int, int]]:
        """(events, data) of the descriptors that are ready, at most so many; other threads run meanwhile."""
        if most < 1:
            raise himpi_error("sys", "ILLEGAL_PARAM", f"room for {most} events is given", "ask for at least 1")
        if timeout_ms < -1:
            raise himpi_error(
                "sys", "ILLEGAL_PARAM", f"the time limit is {timeout_ms} ms", "-1 waits for ever, 0 does not wait"
            )
        with self._lock:
            if self._closed:
                raise unknown(self.fd)
            self._waiting += 1
        try:
            events = self._os.poll(None if timeout_ms < 0 else timeout_ms / 1000, most + 1)
        finally:
            self._leave()
        ready = [(fd, mask) for fd, mask in events if fd != self._bell_fd]
        if len(ready) < len(events):
            raise unknown(self.fd)
        return [(_ours(mask), self._data.get(fd, 0)) for fd, mask in ready[:most]]

    def _leave(self) -> None:
        with self._lock:
            self._waiting -= 1
            last = self._closed and not self._waiting
        if last:
            self._release()

    def close(self) -> None:
        """Wake those who wait; the last of them gives the descriptors back."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            last = not self._waiting
        if last:
            self._release()
        else:
            self._bell.set()

    def _release(self) -> None:
        self._os.close()
        self._bell.close()


def _ours(mask: int) -> int:
    return sum(ours for ours, theirs in _FLAGS[:2] if mask & theirs)


class Epolls:
    """The waiters of a process by their descriptors."""

    def __init__(self, is_channels: Callable[[int], bool]) -> None:
        self._is_channels = is_channels
        self._open: dict[int, Epoll] = {}

    def create(self, size: int) -> int:
        """A new waiter. The size is a hint that must be positive, as in the operating system."""
        if size <= 0:
            raise himpi_error("sys", "ILLEGAL_PARAM", f"the size of the waiter is {size}", "pass at least 1")
        waiter = Epoll()
        self._open[waiter.fd] = waiter
        return waiter.fd

    def get(self, fd: int) -> Epoll:
        """The waiter of a descriptor."""
        waiter = self._open.get(fd)
        if waiter is None:
            raise unknown(fd)
        return waiter

    def control(self, epfd: int, operation: int, fd: int, events: int, data: int) -> None:
        """`sys_ctl_epoll`."""
        waiter = self.get(epfd)
        if operation not in (
            constants.HI_DVPP_EPOLL_CTL_ADD,
            constants.HI_DVPP_EPOLL_CTL_MOD,
            constants.HI_DVPP_EPOLL_CTL_DEL,
        ):
            raise himpi_error(
                "sys", "ILLEGAL_PARAM", f"operation {operation} is not known", "1 adds, 2 changes, 3 removes"
            )
        if operation != constants.HI_DVPP_EPOLL_CTL_DEL and not self._is_channels(fd):
            raise himpi_error("sys", "ILLEGAL_PARAM", f"fd {fd} is not that of an open channel", _HELP)
        waiter.control(operation, fd, events, data)

    def close(self, fd: int) -> None:
        """`sys_close_epoll`."""
        waiter = self._open.pop(
            fd, None
        )  # at once: the number may belong to another waiter as soon as this one is closed
        if waiter is None:
            raise unknown(fd)
        waiter.close()

    def close_all(self) -> None:
        """Close what the program left open."""
        for fd in list(self._open):
            waiter = self._open.pop(fd, None)
            if waiter is not None:
                waiter.close()


def unknown(fd: int) -> Exception:
    """The error for a descriptor that is no waiter's."""
    return himpi_error("sys", "UNEXIST", f"no event waiter has the descriptor {fd}", "use the one of sys_create_epoll")
