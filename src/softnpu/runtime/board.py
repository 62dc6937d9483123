"""What other processes see of this one: a small mapped file per process, readable after its writer was killed.

The writer side is `Board`, called on hot paths; the reader side is `read_all`, called by npu-smi. A file is 4096 bytes
of native 8-byte words: a header of 16 words, then 16 device slots of 16 words. Every update is one 8-byte store, so a
reader never needs a lock and a writer killed at any point leaves a file that still makes sense.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import struct
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from softnpu.base import config

__all__ = ["MAX_SLOTS", "SIZE", "Board", "DeviceUse", "ProcessUse", "read", "read_all", "used_by_others"]

SIZE = 4096
MAX_SLOTS = 16
MAGIC = b"SOFTNPU\0"
VERSION = 1

# magic, version, pid, start time, name, slots, boot, pid namespace; a CRC-32 of these follows in one more word.
_HEADER = struct.Struct("=8sQQQ16sQQQ")
_CHECK = struct.Struct("=Q")
_WORDS = 16
_FIRST = 16
_SLOT = struct.Struct("=9Q")
_DEVICE, _OPEN, _USED, _PEAK, _STREAMS, _CONTEXTS, _BUSY, _TASKS, _SINCE = range(9)
_LIMIT = 1 << 62  # no honest counter gets there: a slot beyond it is damaged

# Compiled when boards are first read: most programs never do.
_BOARD_NAME = r"(\d{1,10})-(\d{1,19})\.board"
_PART_NAME = r"\.(\d{1,10})-(\d{1,19})\.part"
_PART_AGE_S = 60.0
_SWEEP_AT_OPEN = 64


@dataclass(frozen=True)
class DeviceUse:
    """What one process does on one device; times are nanoseconds, `running_since` on the monotonic clock (0: idle)."""

    device: int
    open: bool
    used: int
    peak: int
    streams: int
    contexts: int
    busy_ns: int
    tasks: int
    running_since: int


@dataclass(frozen=True)
class ProcessUse:
    """One process with the devices it knows."""

    pid: int
    name: str
    start_time: int
    path: Path
    devices: tuple[DeviceUse, ...]


class _Header:
    __slots__ = ("name", "pid", "place", "slots", "start_time")

    def __init__(self, pid: int, start_time: int, name: str, slots: int, place: tuple[int, int]) -> None:
        self.pid, self.start_time, self.name, self.slots, self.place = pid, start_time, name, slots, place


class Board:
    """The writer's side: one per process, opened when the runtime starts, closed when it ends."""

    __slots__ = (
        "__weakref__", "_base", "_busy", "_inode", "_lock", "_peaks", "_pid", "_running", "_since", "_tasks", "_words",
        "path", "shared", "slots",
    )  # fmt: skip

    def __init__(self, words: memoryview[int], slots: int, path: Path | None, inode: int) -> None:
        self._words = words
        self._pid = os.getpid()
        self._inode = inode
        self._base = tuple(_FIRST + _WORDS * slot for slot in range(slots))
        # What has been stored is remembered here, because reading a word back costs as much as storing it.
        self._peaks, self._busy, self._tasks = [0] * slots, [0] * slots, [0] * slots
        self._running, self._since = [0] * slots, [0] * slots
        self._lock = threading.RLock()
        self.path = path
        self.shared = path is not None
        self.slots = slots

    @classmethod
    def open(cls, directory: Path, physical_ids: Sequence[int]) -> Board:
        """Publish this process in `directory`; where that cannot be written the board works but `shared` is False."""
        if len(physical_ids) > MAX_SLOTS:
            raise ValueError(f"a board has {MAX_SLOTS} device slots, {len(physical_ids)} devices were given")
        image = _image(physical_ids)
        try:
            board = cls._publish(directory, image, len(physical_ids))
        except (OSError, ValueError):  # mmap says ValueError where a file system cannot map
            board = cls(memoryview(bytearray(image)).cast("Q"), len(physical_ids), None, 0)
        _boards.add(board)
        return board

    @classmethod
    def _publish(cls, directory: Path, image: bytes, slots: int) -> Board:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sweep(directory)
        stem = f"{os.getpid()}-{_start_time(os.getpid())}"
        part, path = directory / f".{stem}.part", directory / f"{stem}.board"
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Written in full, not just sized: a store into a page that a full disk cannot back would be SIGBUS.
            if os.write(handle, image) != SIZE:
                raise OSError(f"{part}: short write")
            words = memoryview(mmap(handle, SIZE)).cast("Q")
            inode = os.fstat(handle).st_ino
            os.rename(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return cls(words, slots, path, inode)

    def owned(self) -> bool:
        """Whether this process opened the board; False in a forked child, which opens its own."""
        return self._pid == os.getpid()

    def set_memory(self, slot: int, used: int) -> None:
        """Publish the bytes in use on a device and keep their peak."""
        base = self._base[slot]
        self._words[base + _USED] = used
        if used > self._peaks[slot]:
            self._peaks[slot] = used
            self._words[base + _PEAK] = used

    def set_counts(self, slot: int, contexts: int | None = None, streams: int | None = None) -> None:
        """Publish how many contexts and streams a device has; None leaves a number as it is."""
        base = self._base[slot]
        if contexts is not None:
            self._words[base + _CONTEXTS] = contexts
        if streams is not None:
            self._words[base + _STREAMS] = streams

    def set_open(self, slot: int, is_open: bool) -> None:
        """Publish whether this process has the device open."""
        self._words[self._base[slot] + _OPEN] = 1 if is_open else 0

    def add_busy(self, slot: int, nanoseconds: int, tasks: int = 1) -> None:
        """Count work that was timed elsewhere; not for work between `task_started` and `task_ended`, which count it."""
        base = self._base[slot]
        with self._lock:  # read, add, write: two streams at once would lose one of the two
            self._busy[slot] = busy = self._busy[slot] + nanoseconds
            self._tasks[slot] = done = self._tasks[slot] + tasks
            self._words[base + _BUSY] = busy
            self._words[base + _TASKS] = done

    def task_started(self, slot: int) -> None:
        """Say that a stream of this device begins a task."""
        with self._lock:
            self._running[slot] = running = self._running[slot] + 1
            if running == 1:
                self._since[slot] = now = time.monotonic_ns()
                self._words[self._base[slot] + _SINCE] = now

    def task_ended(self, slot: int) -> None:
        """Say that a task ended; the device was busy from the first start to the last end, however many overlapped."""
        base = self._base[slot]
        with self._lock:
            self._tasks[slot] = done = self._tasks[slot] + 1
            self._words[base + _TASKS] = done
            running = self._running[slot] - 1
            if running < 0:  # begun before a fork or a close: not ours to time
                return
            self._running[slot] = running
            if running == 0:
                self._busy[slot] = busy = self._busy[slot] + time.monotonic_ns() - self._since[slot]
                self._words[base + _SINCE] = 0
                self._words[base + _BUSY] = busy

    def busy_ns(self, slot: int) -> int:
        """How long this process has kept the device busy, a task that still runs included."""
        with self._lock:
            running = time.monotonic_ns() - self._since[slot] if self._running[slot] else 0
            return self._busy[slot] + running

    def close(self) -> None:
        """Withdraw the file; later calls are harmless and go to private memory."""
        if self.owned() and self.path is not None:
            with contextlib.suppress(OSError):
                # A second board of this process has replaced the file under the same name: that one is not ours.
                if self.path.lstat().st_ino == self._inode:
                    self.path.unlink()
        self._detach()

    def _detach(self) -> None:
        # The map is dropped, never closed: a thread in the middle of a store keeps it alive until it is done.
        self._words = memoryview(bytearray(self._words)).cast("Q")
        self._lock = threading.RLock()
        self._running = [0] * self.slots
        self.path = None
        self.shared = False


# A forked child inherits the parent's map. It is detached right there, so that the hot paths need not ask for the pid.
_boards: weakref.WeakSet[Board] = weakref.WeakSet()


def _detach_in_child() -> None:
    for board in list(_boards):
        board._detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_detach_in_child)


def read_all(directory: Path) -> list[ProcessUse]:
    """The live processes of a directory by pid; files of dead ones are removed, anything else there is ignored."""
    uses = (_read_live(path) for path in _board_files(directory))
    return sorted((use for use in uses if use is not None), key=lambda use: (use.pid, use.start_time))


def used_by_others(device: int, directory: Path | None = None) -> int:
    """Bytes that other live processes use on a physical device."""
    others = (use for use in read_all(directory or config.runtime_dir()) if use.pid != os.getpid())
    return sum(use.used for process in others for use in process.devices if use.device == device)


def read(path: Path) -> ProcessUse | None:
    """What one file says, whether or not its process still lives; None when it is not a sound board file."""
    content = _load(path)
    header = _parse_header(content) if content is not None else None
    if content is None or header is None:
        return None
    devices = _parse_slots(content, header.slots)
    return None if devices is None else ProcessUse(header.pid, header.name, header.start_time, path, devices)


def _read_live(path: Path) -> ProcessUse | None:
    content = _load(path)
    header = _parse_header(content) if content is not None else None
    if content is None or header is None or path.name != f"{header.pid}-{header.start_time}.board":
        return None
    if header.place != _place():  # a container or another host shares the directory: its pids mean nothing here
        return None
    name = _live_name(header.pid, header.start_time)
    if name is None:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    devices = _parse_slots(content, header.slots)
    if devices is None:
        return None
    return ProcessUse(header.pid, _printable(name) or header.name, header.start_time, path, devices)


def _board_files(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return
    for name in names:
        if re.fullmatch(_BOARD_NAME, name, re.ASCII):
            yield directory / name
        elif match := re.fullmatch(_PART_NAME, name, re.ASCII):
            _remove_part(directory / name, int(match[1]), int(match[2]))


def _sweep(directory: Path) -> None:
    # Where nobody ever runs npu-smi the files of killed processes would pile up; a new process clears some.
    for path in itertools.islice(_board_files(directory), _SWEEP_AT_OPEN):
        _read_live(path)


def _remove_part(path: Path, pid: int, start_time: int) -> None:
    with contextlib.suppress(OSError):
        # The age guards one that a process in another pid namespace is just writing.
        if time.time() - path.lstat().st_mtime > _PART_AGE_S and _live_name(pid, start_time) is None:
            path.unlink()


def _load(path: Path) -> bytes | None:
    try:
        # Neither a link nor a pipe may be followed or waited for, and the size is checked before anything is read.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size != SIZE or not _trusted(status.st_uid):
            return None
        content = os.read(handle, SIZE)
    except OSError:
        return None
    finally:
        os.close(handle)
    return content if len(content) == SIZE else None


def _trusted(owner: int) -> bool:
    # Below /tmp another user may have made the directory first, and could tell us anything.
    return not hasattr(os, "geteuid") or os.geteuid() in (0, owner)


def _parse_header(content: bytes) -> _Header | None:
    magic, version, pid, start_time, name, slots, boot, namespace = _HEADER.unpack_from(content)
    (check,) = _CHECK.unpack_from(content, _HEADER.size)
    if magic != MAGIC or version != VERSION or check != zlib.crc32(content[: _HEADER.size]) or slots > MAX_SLOTS:
        return None
    return _Header(pid, start_time, _printable(name.rstrip(b"\0")), slots, (boot, namespace))


def _parse_slots(content: bytes, slots: int) -> tuple[DeviceUse, ...] | None:
    devices = []
    for slot in range(slots):
        words = _SLOT.unpack_from(content, 8 * (_FIRST + _WORDS * slot))
        if max(words) >= _LIMIT or words[_OPEN] > 1:
            return None
        device, is_open, *rest = words
        devices.append(DeviceUse(device, bool(is_open), *rest))
    return tuple(devices)


def _image(physical_ids: Sequence[int]) -> bytes:
    pid = os.getpid()
    name = (_look_up(pid) or (b"", 0))[0][:15]
    head = _HEADER.pack(MAGIC, VERSION, pid, _start_time(pid), name, len(physical_ids), *_place())
    image = bytearray(SIZE)
    image[: _HEADER.size] = head
    _CHECK.pack_into(image, _HEADER.size, zlib.crc32(head))
    for slot, device in enumerate(physical_ids):
        _CHECK.pack_into(image, 8 * (_FIRST + _WORDS * slot + _DEVICE), device)
    return bytes(image)


def _look_up(pid: int) -> tuple[bytes, int] | None:
    """Name and start time (field 22 of /proc/<pid>/stat) of a running process; None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
        # The name may hold blanks and parentheses: the fields are counted from the last closing one.
        name, rest = text.split(b"(", 1)[1].rsplit(b")", 1)
        fields = rest.split()
        return None if fields[0] in (b"Z", b"X") else (name, int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def _start_time(pid: int) -> int:
    return (_look_up(pid) or (b"", 0))[1]


def _live_name(pid: int, start_time: int) -> bytes | None:
    seen = _look_up(pid)
    if seen is not None:
        return seen[0] if seen[1] == start_time else None
    if start_time or os.name != "posix" or os.path.isdir("/proc/self"):
        return None
    try:  # no /proc (macOS): the writer had no start time either, so the pid alone must do
        os.kill(pid, 0)
    except OSError:
        return None
    return b""


def _place() -> tuple[int, int]:
    """This boot and this pid namespace: what a pid and a start time are relative to."""
    boot = namespace = 0
    with contextlib.suppress(OSError, ValueError):
        boot = int(Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", "")[:16], 16)
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
    return boot, namespace


def _printable(name: bytes) -> str:
    # A process may call itself anything, also an escape sequence for the terminal of whoever looks.
    return "".join(char if char.isprintable() else "?" for char in name.decode("utf-8", "replace").strip())
