"""The engines. All of them run the same plan by the same rules; `start` picks one."""

from __future__ import annotations

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


def start(plan: Plan, options: dict[str, str] | None = None) -> Any:
    """Run a plan on the engine that the options or the environment name."""
    if options:
        plan.options = {**plan.options, **options}
    name = settings.load(plan.options).engine
    if name == "embedded":
        from softnpu.flow.engines.embedded.session import Session as Embedded

        return Embedded(plan)
    if name == "inline":
        from softnpu.flow.engines.inline import Session as Inline

        return Inline(plan)
    if name == "ray":
        from softnpu.flow.engines.ray.session import Session as OnRay

        return OnRay(plan)
    if name == "stub":
        from softnpu.flow.engines.stub import Session as Stub

        return Stub(plan)
    raise DfException(f"There is no engine {name!r}; choose embedded, inline, ray or stub.", codes.PARAM_INVALID)
