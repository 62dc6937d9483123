"""A small process that makes the workers: it has imported what every worker needs, so that a new one is a fork away.

This is the application's end of it; what runs in it is `zygote_process`. It holds no state of the application and runs no thread. When the application is gone, however it ended, it kills all
workers and ends. Messages in both directions are small pickled tuples behind their length; descriptors come first.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import socket
import subprocess
import sys
import threading
from typing import Any

_LENGTH = 8
_MOST_DESCRIPTORS = 250  # at once


def send(sock: socket.socket, message: Any, descriptors: list[int] | None = None) -> None:
    data = pickle.dumps((message, len(descriptors or [])))
    sock.sendall(len(data).to_bytes(_LENGTH, "little") + data)
    for first in range(0, len(descriptors or []), _MOST_DESCRIPTORS):
        socket.send_fds(sock, [b"d"], (descriptors or [])[first : first + _MOST_DESCRIPTORS])


def receive(sock: socket.socket) -> tuple[Any, list[int]] | None:
    """A message and its descriptors; None when the other side is gone."""
    try:
        message, count = pickle.loads(_exactly(sock, int.from_bytes(_exactly(sock, _LENGTH), "little")))
        descriptors: list[int] = []
        while len(descriptors) < count:
            mark, some, _, _ = socket.recv_fds(sock, 1, _MOST_DESCRIPTORS)
            if not mark or not some:
                return None
            descriptors += some
    except (ConnectionError, EOFError):
        return None
    return message, descriptors


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Zygote:
    """Starts workers for all sessions of this process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = (
            "import sys; sys.path[:] = "
            f"{sys.path!r}; from softnpu.flow.engines.embedded.zygote_process import main; main({theirs.fileno()})"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", command], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/"
        )
        theirs.close()
        self._sock = ours
        self._lock = threading.Lock()
        self._started: list[int] = []
        self._codes: dict[int, int] = {}

    def alive(self) -> bool:
        """Whether it can still start workers."""
        return self.process.poll() is None

    def start(self, descriptors: list[int]) -> int:
        """Fork a worker, which reads what it is to do from a descriptor; its process id. OSError if the zygote is gone."""
        with self._lock:
            send(self._sock, "start", descriptors)
            while not self._started:
                self._take(receive(self._sock))
            return self._started.pop()

    def _take(self, received: tuple[Any, list[int]] | None) -> None:
        if received is None:
            raise ConnectionResetError("The process that starts the workers of DataFlow is gone.")
        message, _ = received
        if message[0] == "started":
            self._started.append(message[1])
        else:
            self._codes[message[1]] = message[2]

    def exit_code(self, pid: int, timeout: float = 0.2) -> int | None:
        """How a worker ended, as subprocess has it; None if it cannot be known."""
        with self._lock, contextlib.suppress(OSError):
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            while pid not in self._codes:
                if not poll.poll(timeout * 1000):
                    break
                self._take(receive(self._sock))
        return self._codes.pop(pid, None)

    def close(self) -> None:
        """End it and all workers."""
        self._sock.close()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_current: tuple[int, Zygote] | None = None
_guard = threading.Lock()


def zygote() -> Zygote:
    """The zygote of this process; a new one if there is none, if it died, or if this process is a fork of another."""
    global _current
    with _guard:
        if _current is None or _current[0] != os.getpid() or not _current[1].alive():
            if _current is None:
                atexit.register(_close)
            elif _current[0] == os.getpid():
                _current[1].close()
            _current = os.getpid(), Zygote()
        return _current[1]


def _close() -> None:
    if _current is not None and _current[0] == os.getpid():
        _current[1].close()
