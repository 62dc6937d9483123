"""The zygote itself: forks a worker when asked, until the application is gone. See `zygote` for what it is."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
from collections.abc import Callable

from softnpu.flow.engines.embedded import worker
from softnpu.flow.engines.embedded.zygote import receive, send

_LOOK_SECONDS = 1.0


def main(descriptor: int) -> None:
    """Fork a worker for every request until the application is gone."""
    parent = os.getppid()
    sock = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(wake, select.POLLIN)
    gc.collect()
    gc.freeze()
    while True:
        readable = [each for each, _ in poll.poll(_LOOK_SECONDS * 1000)]
        if os.getppid() != parent:  # gone, although a fork of it may still hold the socket
            _end(children)
        if wake in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(wake, 4096)
            _reap(children, sock)
        if descriptor in readable and not _serve(sock, children, (wake, waker), worker.main):
            _end(children)


def _serve(sock: socket.socket, children: set[int], own: tuple[int, int], run: Callable[..., None]) -> bool:
    received = receive(sock)
    if received is None:
        return False
    _, descriptors = received
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (sock.detach(), *own):
            os.close(each)
        try:
            run(descriptors)
        finally:
            os._exit(70)
    children.add(pid)
    for each in descriptors:
        os.close(each)
    send(sock, ("started", pid))
    return True


def _reap(children: set[int], sock: socket.socket) -> None:
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        with contextlib.suppress(OSError):  # the application is gone: noticed by the next read
            send(sock, ("ended", pid, os.waitstatus_to_exitcode(status)))


def _end(children: set[int]) -> None:
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(0)
