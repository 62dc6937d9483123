"""pyACL in the process of a node. With the engine `inline` several nodes share one, which may initialise pyACL only once."""

from __future__ import annotations

import atexit
import functools
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from common import check, device

import acl


def enter() -> None:
    """Let the calling thread use the device; a node does so at the start of each call."""
    check(acl.rt.set_context(_context()))


@functools.cache
def _context() -> int:
    stack = ExitStack()
    context = stack.enter_context(device())
    atexit.register(stack.close)  # the engine runs such functions at the end of a node's process too
    return context
