"""Pipes between the processes of a graph."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

_PIPE_SIZE = 1 << 18


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # more than this user may have: the usual size does
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
    return read, write


def make(count: int) -> list[tuple[int, int]]:
    """So many pipes, or none."""
    pipes: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            pipes.append(_pipe())
    except OSError:
        for each in pipes:
            os.close(each[0])
            os.close(each[1])
        raise
    return pipes


def drain(descriptor: int) -> None:
    """Empty a pipe, up to a boundary between records: they are written whole."""
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 1 << 16):
            pass


@contextlib.contextmanager
def standard() -> Iterator[list[int]]:
    """stdout and stderr as descriptors that exist."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        descriptors = []
        for number in (1, 2):
            try:
                os.fstat(number)
                descriptors.append(number)
            except OSError:
                descriptors.append(nowhere)
        yield descriptors
    finally:
        os.close(nowhere)
