"""What went wrong lately: the text of `get_recent_err_msg` and the code of `get_last_error`."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

from softnpu.base import callsite
from softnpu.base.errors import NpuError

_KEPT = 16


class Recent:
    """Errors since they were last asked for, per thread or per process (`err_msg_mode`)."""

    def __init__(self) -> None:
        self.per_process = False
        self._shared: deque[str] = deque(maxlen=_KEPT)
        self._local = threading.local()

    def _texts(self) -> deque[str]:
        if self.per_process:
            return self._shared
        texts: deque[str] | None = getattr(self._local, "texts", None)
        if texts is None:
            texts = self._local.texts = deque(maxlen=_KEPT)
        return texts

    def note(self, function: str, error: NpuError) -> None:
        """Remember a failed call."""
        self._local.code = error.code
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime())
        lines = [f"{error.family}: [PID: {os.getpid()}] {stamp} {function} failed, {error}."]
        if error.remedy:
            lines.append(f"        Solution: {error.remedy}.")
        file, line, name = callsite.caller()
        lines.append(f"        TraceBack (most recent call last): {file}:{line} in {name}")
        self._texts().append("\n".join(lines))

    def take(self) -> str | None:
        """All texts since the last call, oldest first; None when there are none."""
        texts = self._texts()
        taken = []
        while texts:
            try:
                taken.append(texts.popleft())
            except IndexError:  # another thread took the last one
                break
        return "\n".join(taken) or None

    def clear(self) -> None:
        """Forget everything of all threads."""
        self.per_process = False
        self._shared = deque(maxlen=_KEPT)
        self._local = threading.local()

    def last_code(self, clear: bool) -> int:
        """The code of this thread's last failed call, 0 when there was none."""
        code: int = getattr(self._local, "code", 0)
        if clear:
            self._local.code = 0
        return code


recent = Recent()
