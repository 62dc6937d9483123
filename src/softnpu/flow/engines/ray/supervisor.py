"""The actors of a graph: started together, started again when one dies, ended together."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from typing import Any

from softnpu.base import config
from softnpu.flow import codes, log
from softnpu.flow.engines.outputs import Outputs
from softnpu.flow.engines.ray import records
from softnpu.flow.engines.ray.actor import POLL, NodeActor
from softnpu.flow.engines.ray.cluster import Lease, Places
from softnpu.flow.engines.ray.lines import Calls, Clerk, Line
from softnpu.flow.engines.ray.link import Link
from softnpu.flow.engines.supervisor import CommonCrew, Worker
from softnpu.flow.errors import DfException
from softnpu.flow.plan import Plan
from softnpu.flow.planning.layout import APPLICATION
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells

_GRACE = 1.0
_QUESTION_SECONDS = 2.0
_FRESH_SECONDS = 0.1
_OURS = ("ASCEND_", "SOFTNPU_")  # variables that go to machines of a cluster too


class Member(Worker):
    """One actor."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.life = 0
        self.handle: Any = None
        self.over = False
        self.seen = 0


class Crew(CommonCrew):
    """Owns the actors of a session, and the thread that hears from them."""

    def __init__(self, plan: Plan, outputs: Outputs) -> None:
        super().__init__(plan, outputs)
        self.changed = threading.Condition()
        self._name = uuid.uuid4().hex[:12]
        self._board = bytearray(cells.ROW * len(self.layout.seats))
        self._rows = [Cells(self._board, seat.number) for seat in self.layout.seats]
        self._refreshed = 0.0
        self.members = [Member(number) for number in range(1, self.layout.processes)]
        self._clerk = Clerk("dataflow crew", self._pause)
        lines: dict[int, Line] = {
            member.number: Calls(member.number, (APPLICATION, 0), self._clerk, self._answered)
            for member in self.members
        }
        self._lease = Lease(plan)
        self._ray = self._lease.ray
        self.link = Link((APPLICATION, 0), self.layout, lines, lambda _, index: outputs.queues[index], self._ray.put)
        self._actor = self._ray.remote(concurrency_groups={POLL: 1})(NodeActor)
        try:
            self._places = Places(self._ray, plan, self.layout)
        except BaseException:
            self._lease.release()
            raise

    # ---- starting ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all actors and wait until their functions are loaded; DfException if one cannot be."""
        try:
            for member in self.members:
                self._spawn(member, {})
            self._clerk.start()
            others = [(member.number, member.life, member.handle) for member in self.members]
            for member in self.members:
                peers = self.layout.peers(member.number)
                member.handle.meet.remote(*(each for each in others if each[0] in peers))
                self.link.renewed(member.number, member.life, member.handle)
                self._poll(member)
            with self.changed:
                self.changed.wait_for(lambda: self.failure or all(member.ready for member in self.members))
        except BaseException:
            self.close()
            raise
        if self.failure:
            self.close()
            raise DfException(f"The graph {self.plan.name} cannot be deployed: {self.failure}", codes.FAILED)

    def _spawn(self, member: Member, peers: dict[int, tuple[int, Any]]) -> None:
        member.ready = False
        member.seen = 0
        spec = {
            "session": self._name,
            "process": member.number,
            "life": member.life,
            "peers": peers,
            "plan": self._part(member.number),
            "layout": self.layout,
            **self._common_spec(),
            "memory_limit": self.settings.memory_limit if self._lease.local else 0,
            "environment": self._environment(member),
            "reserved": "resources" in self._places.options(member.number),
        }
        member.handle = self._actor.options(**self._places.options(member.number)).remote(spec)

    def _environment(self, member: Member) -> dict[str, str]:
        """A Ray of our own runs on this machine and gets all; another one what concerns the software NPU."""
        found = {
            name: value
            for name, value in config.whole_environment().items()
            if (self._lease.local and not name.startswith("RAY_")) or name.startswith(_OURS)
        }
        for seat in self.layout.seats_of(member.number):
            node = self.plan.nodes[seat.node]
            if node.visible_device and "resources" not in self._places.options(member.number):
                found["ASCEND_RT_VISIBLE_DEVICES"] = str(max(node.instances[seat.instance].device, 0))
        return found

    # ---- hearing from them -------------------------------------------------------------------------------------------

    def _pause(self) -> float | None:
        self.link.flush()
        return self.link.patience()

    def _answered(self, number: int, life: int, end: int) -> None:
        self.link.answered(number, life, end)

    def _poll(self, member: Member) -> None:
        """Ask for what comes next; the answer also is how the end of an actor becomes known."""
        life = member.life
        question = member.handle.collect.options(concurrency_group=POLL).remote(member.seen)
        question.future().add_done_callback(lambda future: self._clerk.do(lambda: self._heard(member, life, future)))

    def _heard(self, member: Member, life: int, future: Any) -> None:
        if life != member.life:
            return
        try:
            items, refs, end, over = future.result()
            objects = self._ray.get(refs) if refs else []
        except self._ray.exceptions.RayError as problem:
            self._died(member, problem)
            return
        for name, *content in self.link.arrived(member.number, life, items, objects):
            self._told(member, name, content)
        member.seen = max(member.seen, end)
        member.over = over
        if not over:
            self._poll(member)
        elif not self._closing:
            self.failure = self.failure or f"node {self._names(member)} ended by itself"
        self.link.flush()
        self._tell()

    def _tell(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _pass_on(self, member: Worker, *content: Any) -> None:
        with self.link.lock:
            super()._pass_on(member, *content)

    def _tell_others(self, member: Worker, *content: Any) -> None:
        for other in self.members:
            if other is not member:
                self.link.tell(other.number, *content)

    # ---- deaths ------------------------------------------------------------------------------------------------------

    def _died(self, member: Member, problem: Exception) -> None:
        member.over = True
        if self._closing:
            self._tell()
            return
        text = f"the actor of node {self._names(member)} ended: {problem}"
        if not member.ready or not self._may_restart(member):
            self.failure = self.failure or text
            self._tell()
            return
        log.error("%s; it is started again", text)
        self._end(member)
        member.over = False
        member.life += 1
        reach = self.layout.peers(member.number) - {APPLICATION}
        peers = [other for other in self.members if other.number in reach]
        self._spawn(member, {other.number: (other.life, other.handle) for other in peers})
        for other in peers:
            other.handle.meet.remote((member.number, member.life, member.handle))
        self.link.renewed(member.number, member.life, member.handle)
        self._poll(member)

    def _end(self, member: Member) -> None:
        """See to it that an actor is gone, also one that only does not answer."""
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(member.handle, no_restart=True)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask all actors to end, then see to it."""
        self._closing = True
        started = [member for member in self.members if member.handle is not None]
        for member in started:
            self.link.tell(member.number, records.STOP)
        self.link.flush()
        with self.changed:
            self.changed.wait_for(lambda: all(member.over for member in started), _GRACE)
        ended = [member.handle.forget.remote() for member in started]
        if ended:
            self._ray.wait(ended, num_returns=len(ended), timeout=_GRACE)
        for member in started:
            self._end(member)
        self._clerk.do(None)
        if self._clerk.is_alive() and threading.current_thread() is not self._clerk:
            self._clerk.join()
        self._places.release()
        self._lease.release()

    @property
    def rows(self) -> list[Cells]:
        """What the node instances are doing, not older than a moment."""
        if not self._closing and time.monotonic() - self._refreshed > _FRESH_SECONDS:
            self._refresh()
        return self._rows

    def _refresh(self) -> None:
        """Ask the actors for their numbers; one that does not answer keeps its last ones."""
        asked = {member.number: member.handle.rows.remote() for member in self.members}
        answered, _ = self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=_QUESTION_SECONDS)
        for number, question in asked.items():
            if question in answered:
                with contextlib.suppress(self._ray.exceptions.RayError):  # it is being started again
                    for seat, row in zip(self.layout.seats_of(number), self._ray.get(question), strict=True):
                        self._board[seat.number * cells.ROW : (seat.number + 1) * cells.ROW] = row
        self._refreshed = time.monotonic()

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        if not self._closing:
            self._refresh()
        return self._statistics(self._rows)
