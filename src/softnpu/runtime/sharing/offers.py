"""What a process offers to others: a small JSON file per key in the runtime directory.

The importer checks the list of allowed processes there and opens the exporter's descriptors through /proc, which the
kernel permits only to the same user.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from pathlib import Path
from threading import RLock

from softnpu.base import config
from softnpu.base.errors import NpuError, codes

KEY_BYTES = 65
_KEY = r"softnpu-[0-9a-f]{32}"


def key_length(length: int) -> int:
    """The caller's buffer must hold a key of 65 bytes."""
    if length < KEY_BYTES:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"a key needs {KEY_BYTES} bytes, {length} were offered", f"pass {KEY_BYTES}"
        )
    return length


def record(key: str) -> Path:
    """The file of a key; raises for what is no key."""
    if not re.fullmatch(_KEY, key, re.ASCII):
        raise NpuError(
            codes.RT_PARAM_INVALID, f"{key!r} is no key of shared memory", "pass the key that the exporting process got"
        )
    return config.runtime_dir() / f"{key}.share"


def publish(offer: Offer) -> str:
    """Offer something under a new key."""
    key = f"softnpu-{os.urandom(16).hex()}"
    write(key, offer)
    return key


def write(key: str, offer: Offer) -> None:
    """Write the file of a key."""
    path = record(key)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(vars(offer)), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"{path.parent} cannot be written: {error}",
            "set SOFTNPU_RUNTIME_DIR to a directory of yours",
        ) from error


class Offer:
    """What a key file says; its fields are the keys there."""

    def __init__(
        self,
        kind: str,
        pid: int,
        descriptors: list[list[int]],
        size: int,
        offset: int,
        allowed: list[int],
        open: bool,
    ) -> None:
        self.kind = kind
        self.pid = pid
        self.descriptors = descriptors  # number and inode of each
        self.size = size
        self.offset = offset
        self.allowed = allowed
        self.open = open

    def sound(self) -> bool:
        """Whether every field holds what it should: a file is not trusted because of its name."""
        numbers = [
            self.pid,
            self.size,
            self.offset,
            *self.allowed,
            *(number for pair in self.descriptors for number in pair),
        ]
        return (
            all(type(number) is int and number >= 0 for number in numbers)
            and all(len(pair) == 2 for pair in self.descriptors)
            and len(self.descriptors) >= 1
            and self.pid > 0
            and type(self.open) is bool
        )


def load(key: str, kind: str = "") -> Offer:
    """What stands behind a key."""
    path = record(key)
    try:
        offer = Offer(**json.loads(path.read_text(encoding="utf-8")))
        if not offer.sound():
            raise ValueError("the file is damaged")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} is not known: {error}", "import while the exporting process lives"
        ) from error
    if kind and offer.kind != kind:
        raise NpuError(
            codes.RT_PARAM_INVALID, f"key {key} does not stand for a {kind}", "pass the key to the matching import call"
        )
    return offer


def allow(lock: RLock, key: str, pids: list[int]) -> None:
    """Add processes that may import a key."""
    with lock:
        offer = load(key)
        if offer.pid != os.getpid():
            raise NpuError(
                codes.RT_NO_PERMISSION,
                f"key {key} was exported by another process",
                "only the exporter may add processes",
            )
        if any(pid < 0 for pid in pids):
            raise NpuError(codes.RT_PARAM_INVALID, f"{pids} holds a number that is no process id", "pass process ids")
        offer.allowed = sorted({*offer.allowed, *pids})
        write(key, offer)


def check_allowed(offer: Offer, key: str) -> None:
    """Raise unless this process may import."""
    if not offer.open and os.getpid() not in offer.allowed:
        raise NpuError(
            codes.RT_NO_PERMISSION,
            f"process {os.getpid()} is not on the list of key {key}",
            "let the exporter add it with the set_import_pid call, or export with the flag that turns the check off",
        )


def offered(descriptor: int) -> list[int]:
    """A descriptor as it is written into an offer: its number and what tells it from another file."""
    return [descriptor, os.fstat(descriptor).st_ino]


def open_all(offer: Offer, key: str, each: int) -> list[int]:
    """The exporter's descriptors as ours; each must be the memory it was, with at least `each` bytes."""
    opened: list[int] = []
    try:
        for number, inode in offer.descriptors:
            opened.append(os.open(f"/proc/{offer.pid}/fd/{number}", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK))
            status = os.fstat(opened[-1])
            # The number of a dead exporter may belong to another process by now, with other files.
            if not stat.S_ISREG(status.st_mode) or status.st_ino != inode or status.st_size < each:
                raise OSError(f"descriptor {number} is not the memory that was exported")
    except (OSError, OverflowError) as error:
        close(opened)
        if not os.path.isdir(f"/proc/{offer.pid}"):
            record(key).unlink(missing_ok=True)
        raise NpuError(
            codes.RT_IPC_ERROR,
            f"memory of process {offer.pid} cannot be opened: {error}",
            "the exporting process must be alive and belong to the same user",
        ) from error
    return opened


def close(descriptors: list[int]) -> None:
    """Close what is open."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
