"""What a running graph shows of itself, the same for every engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from softnpu.flow.plan import Plan
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.transport.channels import SENT, TAKEN, count
from softnpu.flow.transport.layout import Channel, Layout, Seat, arrange

OnCalls = Callable[[list[Any]], None]


class Source:
    """A session without anything to see (the stub); the others add what they have."""

    engine = "stub"

    def __init__(self, session: Any) -> None:
        self.session = session
        self.plan: Plan = session.plan
        self.layout: Layout = self._layout()
        self.seats: list[Seat] = []
        self._into: dict[int, list[Channel]] = {}
        for channel in self.layout.channels:
            self._into.setdefault(channel.runner, []).append(channel)

    @property
    def rows(self) -> list[Cells]:
        """The numbers of all seats. Ask again each time: at its end an engine moves them."""
        return []

    def _layout(self) -> Layout:
        return arrange(self.plan, one_process=True)

    def into(self, seat: int) -> list[Channel]:
        """Channels that end at a node instance; -1 is the application."""
        return self._into.get(seat, [])

    def depth(self, channel: Channel) -> int:
        """Messages that were sent on a channel and have not left the queue at its end."""
        return 0

    def taken(self, channel: Channel) -> int | None:
        """Messages that left the queue at the end of a channel; None where nobody counts."""
        return None

    def sent(self, channel: Channel) -> int | None:
        """Messages that were sent on a channel; None where nobody counts."""
        return None

    def queue(self, seat: int) -> int:
        """Messages that wait for a node instance."""
        return sum(self.depth(channel) for channel in self.into(seat))

    def pid(self, row: dict[str, int]) -> int:
        """The process of a row."""
        return row["pid"] or os.getpid()

    def listen(self, on_calls: OnCalls | None) -> None:
        """Who hears of every call; only with the setting `timeline`."""

    def look(self) -> None:
        """Take in what came from workers, without waiting."""

    def failure(self) -> str:
        """Why the graph has ended, if it has."""
        return ""


class InlineSource(Source):
    """All in this process: queues are asked directly."""

    engine = "inline"

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.seats = self.layout.seats

    @property
    def rows(self) -> list[Cells]:
        """See Source."""
        rows: list[Cells] = self.session.rows
        return rows

    def _layout(self) -> Layout:
        layout: Layout = self.session.layout
        return layout

    def depth(self, channel: Channel) -> int:
        """The first channel into a queue stands for what is in it: the queue does not know who sent what."""
        mine = self.session._channels[channel.number]
        first = next(other for other in self.into(channel.runner) if other.index == channel.index)
        return len(mine.waiting) + (mine.queue.backlog() if first is channel else 0)

    def listen(self, on_calls: OnCalls | None) -> None:
        """See Source."""
        self.session.on_calls = on_calls


class SupervisedSource(Source):
    """Workers somewhere: their rows come to the application one way or another."""

    engine = "ray"

    def __init__(self, session: Any) -> None:
        self.supervisor = session.supervisor
        super().__init__(session)
        self.seats = self.layout.seats

    @property
    def rows(self) -> list[Cells]:
        """See Source."""
        rows: list[Cells] = self.supervisor.rows
        return rows

    def _layout(self) -> Layout:
        layout: Layout = self.supervisor.layout
        return layout

    def queue(self, seat: int) -> int:
        """What the worker itself says."""
        return int(self.rows[seat].words[cells.BACKLOG])

    def listen(self, on_calls: OnCalls | None) -> None:
        """See Source."""
        self.supervisor.on_calls = on_calls

    def failure(self) -> str:
        """See Source."""
        return str(self.supervisor.failure)


class EmbeddedSource(SupervisedSource):
    """Processes of this machine: counters of all channels are in shared memory."""

    engine = "embedded"

    def _mark(self, channel: Channel, which: int) -> int:
        try:
            marks = self.supervisor.marks()
            return 0 if marks is None else int(marks[self.layout.words * channel.number + which])
        except ValueError:  # another thread has closed the graph in between, and its memory is gone
            return 0

    def depth(self, channel: Channel) -> int:
        """Sent by one side, taken by the other: it includes what is still in the pipe."""
        return max(0, count(self._mark(channel, SENT)) - self._mark(channel, TAKEN))

    def taken(self, channel: Channel) -> int | None:
        """See Source."""
        return self._mark(channel, TAKEN)

    def sent(self, channel: Channel) -> int | None:
        """See Source."""
        return count(self._mark(channel, SENT))

    def queue(self, seat: int) -> int:
        """Nodes of one process hand messages over without a channel; their worker says how many wait."""
        if any(channel.source == channel.target for channel in self.into(seat)):
            return super().queue(seat)
        return Source.queue(self, seat)

    def look(self) -> None:
        """See Source."""
        self.session.look()


def source_of(session: Any) -> Source:
    """The right one for a session."""
    if hasattr(session, "supervisor"):
        return EmbeddedSource(session) if hasattr(session.supervisor, "marks") else SupervisedSource(session)
    return InlineSource(session) if hasattr(session, "rows") else Source(session)
