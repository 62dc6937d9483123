"""Where in the user's program a call came from."""

from __future__ import annotations

import os
import sys
from types import FrameType

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), name) + os.sep
    for name in ("acl", "softnpu")
)


def caller() -> tuple[str, int, str]:
    """File, line and function of the nearest frame that is not ours (`("?", 0, "?")` when there is none)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if not name.startswith(_OWN) and not name.startswith("<softnpu"):
            return name, frame.f_lineno, code.co_name
        frame = frame.f_back
    return "?", 0, "?"


def where() -> str:
    """The same as `file:line`."""
    name, line, _ = caller()
    return f"{name}:{line}"


_LIBRARY = (os.path.dirname(os.__file__) + os.sep, "<frozen")


def from_outside(error: BaseException) -> bool:
    """Whether an exception was raised by the program's own code (a signal handler) while it was inside one of our calls."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = trace.tb_frame.f_code.co_filename if trace is not None else "<softnpu"
    return not name.startswith((*_OWN, "<softnpu", *_LIBRARY)) and "site-packages" not in name
