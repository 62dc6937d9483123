"""The log in plog form: one line per event, to a file per process or to standard output.

The file is opened when the first line passes the level, so that a program without trouble leaves none behind.
"""

from __future__ import annotations

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
_FILE_LIMIT = 20 * 1000 * 1000


class Log:
    """Writes lines; keeps the level as a plain int so that callers can skip building text."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self._lock = threading.RLock()
        self._fd = -1
        self._pid = 0
        self.configure(settings or LogSettings())
        self._comm = Path(sys.argv[0] or "python").name[:15] if sys.argv else "python"

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
        if not place:
            file, number, name = callsite.caller()
            place, function = f"{os.path.basename(file)}:{number}", function or name
        now = time.time()
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(now))
        micro = int(now % 1 * 1_000_000)
        flat = text.replace("\n", " ")
        line = (
            f"[{_NAMES[level]}] {module}({os.getpid()},{self._comm}):{stamp}.{micro // 1000:03d}.{micro % 1000:03d} "
            f"[{place}]{threading.get_native_id()} {function}: {flat}\n"
        )
        self._emit(line)

    def _emit(self, line: str) -> None:
        data = line.encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                if self.settings.to_stdout:
                    sys.stdout.write(line)
                    sys.stdout.flush()
                    return
                if self._fd < 0 or self._pid != os.getpid() or self._written > _FILE_LIMIT:
                    self._open()
                if self._fd >= 0:
                    os.write(self._fd, data)
                    self._written += len(data)
                    if self.settings.sync:
                        os.fsync(self._fd)
            except (OSError, ValueError) as error:
                self._give_up(error)

    def _open(self) -> None:
        if self._broken:
            return
        if self._fd >= 0 and self._pid == os.getpid():
            os.close(self._fd)
        self._fd, self._pid, self._written = -1, os.getpid(), 0
        folder = self.settings.directory / "debug" / "plog"
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now % 1 * 1000):03d}"
        self._fd = os.open(folder / f"plog-{self._pid}_{stamp}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self._prune(folder)

    def _prune(self, folder: Path) -> None:
        """Remove this process's oldest files beyond the kept number."""
        mine = sorted(folder.glob(f"plog-{self._pid}_*.log"))
        for old in mine[: -self.settings.files]:
            old.unlink(missing_ok=True)

    def _give_up(self, error: Exception) -> None:
        """Say once on stderr that the log cannot be written; a log must not take its program down."""
        if not self._broken:
            self._broken = True
            try:
                sys.stderr.write(
                    f"softnpu: log lines are lost, {self.settings.directory} cannot be written ({error})\n"
                )
            except (OSError, ValueError):
                return

    def flush(self) -> None:
        """Close the file; the next line opens a new one."""
        with self._lock:
            if self._fd >= 0 and self._pid == os.getpid():
                os.close(self._fd)
            self._fd = -1


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
