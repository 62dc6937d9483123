"""Connects the processes of a group: Gloo's group, which moves the bytes, and the board on which ranks of one host see each other."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store, TCPStore

from torch_npu import _environment
from torch_npu._C import _distributed_c10d as _hccl
from torch_npu._errors import ErrCode, dist_error

_SHARED = Path("/dev/shm")
_MOST_SECONDS = 1 << 31
_SHORTEST_CONNECT = 120  # of the product
_LOOPBACK = ("localhost", "::1", "127.")


def _limit(name: str, low: int) -> timedelta | None:
    """A timeout from the environment."""
    if not _environment.text(name):
        return None
    return timedelta(seconds=_environment.number(name, low, low, _MOST_SECONDS))


def _address(store: Store) -> str:
    """Where this process is reached: as HCCL_IF_IP says, on the loopback where the others look for the store there, else '' (Gloo's
    choice, which is the address of the host's name)."""
    asked = _environment.text("HCCL_IF_IP")
    if asked:
        return asked
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    host = store.host if isinstance(store, TCPStore) else ""
    return "127.0.0.1" if host.startswith(_LOOPBACK) else ""


def _in_time(make: Callable[[], ProcessGroupGloo], patience: timedelta) -> ProcessGroupGloo:
    """What `make` makes. Gloo tries a peer that is gone several times, each as long as the timeout; nobody can end it meanwhile."""
    results: list[ProcessGroupGloo] = []
    errors: list[RuntimeError] = []

    def work() -> None:
        try:
            results.append(make())
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(min(patience.total_seconds(), threading.TIMEOUT_MAX))
    if errors:
        raise errors[0]
    if not results:
        raise RuntimeError("timed out.")
    return results[0]


def _gloo(store: Store, rank: int, size: int, timeout: timedelta) -> ProcessGroupGloo:
    address = _address(store)
    options: Any = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    options._timeout = min(timeout, _limit("HCCL_CONNECT_TIMEOUT", _SHORTEST_CONNECT) or timeout)
    options._devices = [
        ProcessGroupGloo.create_device(hostname=address) if address else ProcessGroupGloo.create_default_device()
    ]
    options._threads = 2
    try:
        _meet(store, rank, size, options._timeout)
        group = _in_time(lambda: ProcessGroupGloo(store, rank, size, options), options._timeout)
    except RuntimeError as error:
        raise type(error)(
            f"HCCL: rank {rank} of {size} cannot connect to the other ranks within {options._timeout}: {error} "
            "Every rank must be started, with the same WORLD_SIZE and a RANK of its own." + dist_error(ErrCode.HCCL)
        ) from error
    group._set_default_timeout(min(timeout, _limit("HCCL_EXEC_TIMEOUT", 1) or timeout))
    return group


def _meet(store: Store, rank: int, size: int, timeout: timedelta) -> None:
    """Wait until every rank has come, to be able to say which one has not."""
    store.set(f"here/{rank}", str(os.getpid()))
    others = [f"here/{other}" for other in range(size)]
    try:
        store.wait(others, timeout)
    except RuntimeError as error:
        absent = [str(other) for other, key in enumerate(others) if not store.check([key])]
        raise type(error)(f"of the ranks {', '.join(absent)} nothing was heard.") from error


def _host() -> str:
    """What processes must have in common to see the same memory and the same process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{boot.read_text().strip() if boot.exists() else ''} {os.readlink('/proc/self/ns/pid')}"


def _board(store: Store, rank: int, size: int) -> str:
    """The file of the board, made by rank 0; '' on other hosts, and where there is no shared memory."""
    if size == 1 or not _SHARED.is_dir():
        return ""
    if rank == 0:
        handle, path = tempfile.mkstemp(prefix="softnpu-hccl-", dir=_SHARED)
        os.ftruncate(handle, _hccl._board_bytes(size))
        os.close(handle)
        store.set("board", f"{_host()}\n{path}")
    host, _, path = store.get("board").decode().partition("\n")
    return path if host == _host() and os.access(path, os.R_OK | os.W_OK) else ""


def connect(group: Any, store: Store, timeout: timedelta) -> None:
    """Give a ProcessGroupHCCL its connections. Called by its constructor, and to repair it after an abort."""
    rank, size = group.rank(), group.size()
    gloo = _gloo(PrefixStore("gloo", store), rank, size, timeout)
    board = ""
    try:
        board = _board(store, rank, size)
        group._connect(gloo, board)
        if size > 1:
            gloo.barrier().wait()  # type: ignore[attr-defined]
    except RuntimeError as error:
        raise type(error)(
            f"HCCL: rank {rank} of {size} lost another rank while the group was made: {error}{dist_error(ErrCode.HCCL)}"
        ) from error
    finally:
        if board and rank == 0:
            os.unlink(board)  # all have mapped it
