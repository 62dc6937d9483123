"""What the supervisors of all engines with workers have in common: notices, deaths, the plan for each worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from softnpu.flow import settings
from softnpu.flow.engines import notices
from softnpu.flow.engines.outputs import Outputs
from softnpu.flow.engines.spec import Surroundings
from softnpu.flow.message import Message
from softnpu.flow.plan import BodySpec, Plan
from softnpu.flow.rules.transactions import Exceptions
from softnpu.flow.running.cells import Cells
from softnpu.flow.transport.layout import arrange

_RESTART_WINDOW = 10.0
_NOTHING = BodySpec("")


class Supervised:
    """One worker, as its supervisor sees it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ready = False
        self.deaths: list[float] = []


class CommonSupervisor:
    """The workers of a graph, wherever they are."""

    def __init__(self, plan: Plan, outputs: Outputs) -> None:
        self.plan = plan
        self.failure = ""  # why the graph has ended
        self.layout = arrange(plan)
        self.settings = settings.load(plan.options)
        self.on_calls: Callable[[list[Any]], None] | None = None
        self.on_ready: Callable[[int], None] | None = None
        self._outputs = outputs
        self._exceptions = Exceptions()
        self._closing = False

    # ---- notices -----------------------------------------------------------------------------------------------------

    def _told(self, worker: Supervised, name: str, content: list[Any]) -> None:
        """A worker says something."""
        if name == notices.READY:
            worker.ready = True
            if self.on_ready is not None:
                self.on_ready(worker.number)
        elif name == notices.FAILED:
            self.failure = self.failure or "node {} cannot be set up: {}".format(*content)
        elif name == notices.RAISED:
            self._pass_on(worker, *content)
        elif name == notices.CALLED and self.on_calls is not None:
            self.on_calls(content[0])

    def _pass_on(
        self, worker: Supervised, seat: int, trans_id: int, code: int, context_id: int, *envelope: Any
    ) -> None:
        """A transaction was ended by a node: everybody else hears of it, once."""
        if not self._exceptions.add(trans_id, code, context_id):
            return
        message = Message(trans_id=trans_id)
        message.start_time, message.end_time, message.flags, message.user_data = envelope
        self._outputs.raised(trans_id, message)
        self._tell_others(worker, notices.RAISED, seat, trans_id, code, context_id)

    def _tell_others(self, worker: Supervised, *content: Any) -> None:
        raise NotImplementedError

    # ---- what a worker is given --------------------------------------------------------------------------------------

    def _part(self, process: int) -> Plan:
        """The plan without the code of nodes that run elsewhere."""
        mine = {seat.node for seat in self.layout.seats_of(process)}
        nodes = [node if index in mine else replace(node, body=_NOTHING) for index, node in enumerate(self.plan.nodes)]
        return replace(self.plan, nodes=tuple(nodes))

    def _surroundings(self, environment: dict[str, str], memory_limit: int) -> Surroundings:
        """What a worker takes over of this process."""
        path = [os.getcwd() if each == "" else each for each in sys.path]
        return Surroundings(os.getcwd(), path, sys.argv[0] if sys.argv else "", environment, memory_limit)

    # ---- deaths ------------------------------------------------------------------------------------------------------

    def _names(self, worker: Supervised) -> str:
        return ", ".join(self.plan.nodes[seat.node].name for seat in self.layout.seats_of(worker.number))

    def _may_restart(self, worker: Supervised) -> bool:
        now = time.monotonic()
        worker.deaths = [each for each in worker.deaths if now - each < _RESTART_WINDOW]
        worker.deaths.append(now)
        return self.settings.on_death == "restart" and len(worker.deaths) <= self.settings.restarts

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def _statistics(self, rows: list[Cells]) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return [
            {"node": self.plan.nodes[seat.node].name, "instance": seat.instance, **row.read()}
            for seat, row in zip(self.layout.seats, rows, strict=True)
        ]
