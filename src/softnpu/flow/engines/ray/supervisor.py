"""The actors of a graph: started together, started again when one dies, ended together."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from typing import Any

from softnpu.base import config
from softnpu.flow import codes, log
from softnpu.flow.engines.outputs import Outputs
from softnpu.flow.engines.ray import records
from softnpu.flow.engines.ray.actor import POLL, ActorSpec, NodeActor
from softnpu.flow.engines.ray.cluster import Places, RayUse
from softnpu.flow.engines.ray.lines import Calls, Clerk, Line
from softnpu.flow.engines.ray.link import Link
from softnpu.flow.engines.supervisor import CommonSupervisor, Supervised
from softnpu.flow.errors import DfException
from softnpu.flow.plan import Plan
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.transport.layout import APPLICATION

_GRACE = 1.0
_QUESTION_SECONDS = 2.0
_FRESH_SECONDS = 0.1
_OURS = ("ASCEND_", "SOFTNPU_")  # variables that go to machines of a cluster too


class WorkerActor(Supervised):
    """One actor."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.life = 0
        self.handle: Any = None
        self.over = False
        self.seen = 0


class Supervisor(CommonSupervisor):
    """Owns the actors of a session, and the thread that hears from them."""

    def __init__(self, plan: Plan, outputs: Outputs) -> None:
        super().__init__(plan, outputs)
        self.changed = threading.Condition()
        self._name = uuid.uuid4().hex[:12]
        self._row_bytes = bytearray(cells.ROW * len(self.layout.seats))
        self._rows = [Cells(self._row_bytes, seat.number) for seat in self.layout.seats]
        self._refreshed = 0.0
        self.workers = [WorkerActor(number) for number in range(1, self.layout.processes)]
        self._clerk = Clerk("dataflow supervisor", self._pause)
        lines: dict[int, Line] = {
            worker.number: Calls(worker.number, (APPLICATION, 0), self._clerk, self._answered)
            for worker in self.workers
        }
        self._ray_use = RayUse(plan)
        self._ray = self._ray_use.ray
        self.link = Link((APPLICATION, 0), self.layout, lines, lambda _, index: outputs.queues[index], self._ray.put)
        self._actor = self._ray.remote(concurrency_groups={POLL: 1})(NodeActor)
        try:
            self._places = Places(self._ray, plan, self.layout)
        except BaseException:
            self._ray_use.release()
            raise

    # ---- starting ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all actors and wait until their functions are loaded; DfException if one cannot be."""
        try:
            for worker in self.workers:
                self._spawn(worker, {})
            self._clerk.start()
            others = [(worker.number, worker.life, worker.handle) for worker in self.workers]
            for worker in self.workers:
                peers = self.layout.peers(worker.number)
                worker.handle.meet.remote(*(each for each in others if each[0] in peers))
                self.link.renewed(worker.number, worker.life, worker.handle)
                self._poll(worker)
            with self.changed:
                self.changed.wait_for(lambda: self.failure or all(worker.ready for worker in self.workers))
        except BaseException:
            self.close()
            raise
        if self.failure:
            self.close()
            raise DfException(f"The graph {self.plan.name} cannot be deployed: {self.failure}", codes.FAILED)

    def _spawn(self, worker: WorkerActor, peers: dict[int, tuple[int, Any]]) -> None:
        worker.ready = False
        worker.seen = 0
        limit = self.settings.memory_limit if self._ray_use.local else 0
        spec = ActorSpec(
            process=worker.number,
            life=worker.life,
            plan=self._part(worker.number),
            layout=self.layout,
            work_path=os.getcwd(),
            strict=self.settings.strict,
            watched=bool(self.settings.timeline),
            session=self._name,
            peers=peers,
            surroundings=self._surroundings(self._environment(worker), limit),
            reserved="resources" in self._places.options(worker.number),
        )
        worker.handle = self._actor.options(**self._places.options(worker.number)).remote(spec)

    def _environment(self, worker: WorkerActor) -> dict[str, str]:
        """A Ray of our own runs on this machine and gets all; another one what concerns the software NPU."""
        environment = {
            name: value
            for name, value in config.whole_environment().items()
            if (self._ray_use.local and not name.startswith("RAY_")) or name.startswith(_OURS)
        }
        for seat in self.layout.seats_of(worker.number):
            node = self.plan.nodes[seat.node]
            if node.visible_device and "resources" not in self._places.options(worker.number):
                environment["ASCEND_RT_VISIBLE_DEVICES"] = str(max(node.instances[seat.instance].device, 0))
        return environment

    # ---- hearing from them -------------------------------------------------------------------------------------------

    def _pause(self) -> float | None:
        self.link.flush()
        return self.link.patience()

    def _answered(self, number: int, life: int, end: int) -> None:
        self.link.answered(number, life, end)

    def _poll(self, worker: WorkerActor) -> None:
        """Ask for what comes next; the answer also is how the end of an actor becomes known."""
        life = worker.life
        question = worker.handle.collect.options(concurrency_group=POLL).remote(worker.seen)
        question.future().add_done_callback(lambda future: self._clerk.do(lambda: self._heard(worker, life, future)))

    def _heard(self, worker: WorkerActor, life: int, future: Any) -> None:
        if life != worker.life:
            return
        try:
            items, refs, end, over = future.result()
            objects = self._ray.get(refs) if refs else []
        except self._ray.exceptions.RayError as problem:
            self._died(worker, problem)
            return
        for name, *content in self.link.arrived(worker.number, life, items, objects):
            self._told(worker, name, content)
        worker.seen = max(worker.seen, end)
        worker.over = over
        if not over:
            self._poll(worker)
        elif not self._closing:
            self.failure = self.failure or f"node {self._names(worker)} ended by itself"
        self.link.flush()
        self._tell()

    def _tell(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _pass_on(self, worker: Supervised, *content: Any) -> None:
        with self.link.lock:
            super()._pass_on(worker, *content)

    def _tell_others(self, worker: Supervised, *content: Any) -> None:
        for other in self.workers:
            if other is not worker:
                self.link.tell(other.number, *content)

    # ---- deaths ------------------------------------------------------------------------------------------------------

    def _died(self, worker: WorkerActor, problem: Exception) -> None:
        worker.over = True
        if self._closing:
            self._tell()
            return
        text = f"the actor of node {self._names(worker)} ended: {problem}"
        if not worker.ready or not self._may_restart(worker):
            self.failure = self.failure or text
            self._tell()
            return
        log.error("%s; it is started again", text)
        self._end(worker)
        worker.over = False
        worker.life += 1
        reach = self.layout.peers(worker.number) - {APPLICATION}
        peers = [other for other in self.workers if other.number in reach]
        self._spawn(worker, {other.number: (other.life, other.handle) for other in peers})
        for other in peers:
            other.handle.meet.remote((worker.number, worker.life, worker.handle))
        self.link.renewed(worker.number, worker.life, worker.handle)
        self._poll(worker)

    def _end(self, worker: WorkerActor) -> None:
        """See to it that an actor is gone, also one that only does not answer."""
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(worker.handle, no_restart=True)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask all actors to end, then see to it."""
        self._closing = True
        started = [worker for worker in self.workers if worker.handle is not None]
        for worker in started:
            self.link.tell(worker.number, records.STOP)
        self.link.flush()
        with self.changed:
            self.changed.wait_for(lambda: all(worker.over for worker in started), _GRACE)
        ended = [worker.handle.forget.remote() for worker in started]
        if ended:
            self._ray.wait(ended, num_returns=len(ended), timeout=_GRACE)
        for worker in started:
            self._end(worker)
        self._clerk.do(None)
        if self._clerk.is_alive() and threading.current_thread() is not self._clerk:
            self._clerk.join()
        self._places.release()
        self._ray_use.release()

    @property
    def rows(self) -> list[Cells]:
        """What the node instances are doing, not older than a moment."""
        if not self._closing and time.monotonic() - self._refreshed > _FRESH_SECONDS:
            self._refresh()
        return self._rows

    def _refresh(self) -> None:
        """Ask the actors for their numbers; one that does not answer keeps its last ones."""
        asked = {worker.number: worker.handle.rows.remote() for worker in self.workers}
        answered, _ = self._ray.wait(list(asked.values()), num_returns=len(asked), timeout=_QUESTION_SECONDS)
        for number, question in asked.items():
            if question in answered:
                with contextlib.suppress(self._ray.exceptions.RayError):  # it is being started again
                    for seat, row in zip(self.layout.seats_of(number), self._ray.get(question), strict=True):
                        self._row_bytes[seat.number * cells.ROW : (seat.number + 1) * cells.ROW] = row
        self._refreshed = time.monotonic()

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        if not self._closing:
            self._refresh()
        return self._statistics(self._rows)
