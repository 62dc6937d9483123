"""The log in plog form: one line per event, to a file per process or to standard output.

The file is opened when the first line passes the level, so that a program without trouble leaves none behind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from softnpu.base import callsite
from softnpu.base.config import LogSettings

DEBUG, INFO, WARNING, ERROR, NONE = range(5)
EVENT = 5
_NAMES = {DEBUG: "DEBUG", INFO: "INFO", WARNING: "WARNING", ERROR: "ERROR", EVENT: "EVENT"}
_CONTROL = dict.fromkeys((*range(32), 127), "?") | {ord(char): " " for char in "\r\n\t"}  # a line, and no escapes
_FILE_LIMIT = 20 * 1000 * 1000


def no_line(file: str) -> str:
    """The place of what no line of a program wrote, such as a worker's own words: the file's name and line 0."""
    return f"{file}:0"


class Log:
    """Writes lines; keeps the level as a plain int so that callers can skip building text."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self._lock = threading.RLock()
        self._fd = -1
        self._pid = 0
        self._stamp = 0
        self.configure(settings or LogSettings())
        self._comm = _process_name()

    def configure(self, settings: LogSettings) -> None:
        """Take new settings; the file of the old ones is closed."""
        with self._lock:
            self.flush()
            self.settings = settings
            self.level = min([settings.level, *settings.modules.values()])
            self._written = 0
            self._broken = False

    def enabled(self, level: int, module: str = "ASCENDCL") -> bool:
        """Whether a line of this level and module would be written."""
        if level == EVENT:
            return self.settings.events and self.settings.level < NONE
        return level >= self.settings.modules.get(module, self.settings.level)

    def write(self, level: int, text: str, module: str = "ASCENDCL", function: str = "", place: str = "") -> None:
        """Write one line if its level passes; never raises."""
        if not self.enabled(level, module):
            return
        if (
            self._fd < 0 and sys.is_finalizing()
        ):  # a destructor at the very end: opening a file needs imports that are gone
            return
        if not place:
            file, number, name = callsite.caller()
            place, function = f"{os.path.basename(file)}:{number}", function or name
        now = time.time()
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(now))
        micro = int(now % 1 * 1_000_000)
        flat = text.translate(_CONTROL)
        line = (
            f"[{_NAMES[level]}] {module}({os.getpid()},{self._comm}):{stamp}.{micro // 1000:03d}.{micro % 1000:03d} "
            f"[{place}]{threading.get_native_id()} {function}: {flat}\n"
        )
        self._emit(line)

    def _emit(self, line: str) -> None:
        if self.settings.to_stdout:
            self._print(line)
            return
        data = line.encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                full = self._written and self._written + len(data) > _FILE_LIMIT
                if self._fd < 0 or self._pid != os.getpid() or full:
                    self._open()
                if self._fd >= 0:
                    os.write(self._fd, data)
                    self._written += len(data)
                    if self.settings.sync:
                        os.fsync(self._fd)
            except (OSError, ValueError) as error:
                self._give_up(f"{self.settings.directory} cannot be written", error)

    def _print(self, line: str) -> None:
        # No lock: sys.stdout may be an object of the program, whose write may wait for a thread that logs.
        try:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            sys.stdout.write(line.encode(encoding, "backslashreplace").decode(encoding))
            sys.stdout.flush()
        except Exception as error:
            self._give_up("standard output cannot be written", error)

    def _open(self) -> None:
        if self._broken:
            return
        if self._fd >= 0 and self._pid == os.getpid():
            os.close(self._fd)
        self._fd, self._pid, self._written = -1, os.getpid(), 0
        folder = self.settings.directory / "debug" / "plog"
        folder.mkdir(parents=True, exist_ok=True)
        self._stamp = max(int(time.time() * 1000), self._stamp + 1)  # two files in one millisecond need two names
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(self._stamp // 1000)) + f"{self._stamp % 1000:03d}"
        self._fd = os.open(folder / f"plog-{self._pid}_{stamp}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._prune(folder)

    def _prune(self, folder: Path) -> None:
        """Remove this process's oldest files beyond the kept number."""
        mine = sorted(folder.glob(f"plog-{self._pid}_*.log"))
        for old in mine[: -self.settings.files]:
            old.unlink(missing_ok=True)

    def _give_up(self, what: str, error: Exception) -> None:
        """Say once on stderr that the log cannot be written; a log must not take its program down."""
        if not self._broken:
            self._broken = True
            with contextlib.suppress(Exception):
                sys.stderr.write(f"softnpu: log lines are lost, {what} ({error})\n")

    def flush(self) -> None:
        """Close the file; the next line opens a new one."""
        with self._lock:
            if self._fd >= 0 and self._pid == os.getpid():
                os.close(self._fd)
            self._fd = -1


def _process_name() -> str:
    """The name of this process as the system shows it."""
    try:
        return Path("/proc/self/comm").read_text(encoding="utf-8", errors="replace").strip() or "python"
    except OSError:
        return "python"


_log: Log | None = None


def log() -> Log:
    """The log of this process, made from the environment on first use."""
    global _log
    if _log is None:
        _log = Log()
    return _log


def reset() -> None:
    """Read the environment anew (`acl.init` and tests); the next line opens a new file."""
    if _log is not None:
        _log.configure(LogSettings())


def _after_fork() -> None:
    """A forked child opens its own file; the parent's lock may be held by a thread that the child does not have."""
    global _log
    _log = None


os.register_at_fork(after_in_child=_after_fork)
