"""Accepts any graph and runs nothing: for programs that only build graphs."""

from __future__ import annotations

from softnpu.flow import codes
from softnpu.flow.atomic import Taken
from softnpu.flow.engines.outputs import Fetched
from softnpu.flow.message import Message
from softnpu.flow.plan import Plan


class Session:
    """Takes everything, gives nothing."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def feed_many(self, items: list[tuple[int, Message]], timeout: float | None) -> int:
        """Accepted and forgotten."""
        return codes.SUCCESS

    def fetch(self, indexes: list[int], timeout: float | None, align: bool, taken: Taken | None = None) -> Fetched:
        """There will never be a result, so there is nothing to wait for."""
        return [], None, codes.QUEUE_EMPTY

    def put_back(self, taken: Taken) -> None:
        """Nothing was taken."""

    def close(self) -> None:
        """Nothing to end."""
