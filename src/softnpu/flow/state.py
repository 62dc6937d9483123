"""What `init` set up, and the graphs of the program."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from softnpu.flow.application.graph import FlowGraph


class State:
    """What `init` set up; there is one per program, and a forked child has no part in it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.options: dict[str, str] | None = None
        self.graphs: list[FlowGraph] = []
        self.owner = 0


state = State()
