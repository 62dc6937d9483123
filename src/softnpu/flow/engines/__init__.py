"""The engines. All of them run the same plan by the same rules; `start` picks one."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from softnpu.flow import codes, settings
from softnpu.flow.atomic import Taken
from softnpu.flow.engines.outputs import Fetched
from softnpu.flow.errors import DfException
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan


class Session(Protocol):
    """A running graph."""

    def feed_many(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """Messages into inputs of the graph, all or none; a code. A transaction id of 0 is filled in."""

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, taken: Taken | None = None) -> Fetched:
        """One result of each output, the envelope they share, and a code. What it takes it notes in `taken`, too."""

    def put_back(self, taken: Taken) -> None:
        """The program did not get what is in `taken`: the next fetch gives it."""

    def close(self) -> None:
        """End it; nothing of it stays behind."""


# Where the session of each engine is. An engine is imported when a graph starts on it: that takes 10 ms, Ray a second.
_SESSIONS = {
    "embedded": "softnpu.flow.engines.embedded.session",
    "inline": "softnpu.flow.engines.inline",
    "ray": "softnpu.flow.engines.ray.session",
    "stub": "softnpu.flow.engines.stub",
}


def start(plan: Plan, options: dict[str, str] | None = None) -> Any:
    """Run a plan on the engine that the options or the environment name."""
    if options:
        plan.options = {**plan.options, **options}
    name = settings.load(plan.options).engine
    if name not in _SESSIONS:
        raise DfException(f"There is no engine {name!r}; choose embedded, inline, ray or stub.", codes.PARAM_INVALID)
    return importlib.import_module(_SESSIONS[name]).Session(plan)
