"""Messages between nodes of one process: no channel keeps them, so what they were made from is not finished before they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from softnpu.flow.running.runner import Runner
from softnpu.flow.values.memory import Arenas, Returned


class Relay:
    """The ticket of all that one call gave to its neighbours; `tickets` are those of the call."""

    __slots__ = ("count", "late", "tickets")

    def __init__(self, tickets: list[Any]) -> None:
        self.tickets = tickets
        self.count = 1  # the call itself
        self.late: list[Returned] = []


class Relays:
    """All that are open."""

    def __init__(self, arenas: Arenas, finish: Callable[[Any], None]) -> None:
        self._arenas = arenas
        self._finish = finish
        self._open: dict[Relay, None] = {}  # by age

    def of(self, runner: Runner) -> Relay:
        """For one more message of the call that is going on."""
        relay: Relay | None = runner.relay
        if relay is None:
            relay = runner.relay = Relay(runner.tickets)
            self._open[relay] = None
        relay.count += 1
        return relay

    def finished(self, ticket: Any) -> None:
        """A message, or a call, is done with."""
        if type(ticket) is not Relay:
            self._finish(ticket)
            return
        ticket.count -= 1
        if not ticket.count:
            del self._open[ticket]
            for each in ticket.tickets:
                self.finished(each)
            if self._arenas.late is not None:
                self._arenas.late += ticket.late

    def open(self) -> bool:
        """Whether there are any."""
        return bool(self._open)

    def settle(self) -> None:
        """Memory of messages that are not finished is returned with the last of them that is open now."""
        late = self._arenas.late
        if self._open and late:
            newest = next(reversed(self._open))
            for _ in range(len(late)):
                newest.late.append(late.popleft())
        else:
            self._arenas.settle()
