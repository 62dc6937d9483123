"""The workers of a graph: started together, watched, started again when one dies, ended together."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from softnpu.base import config
from softnpu.flow import codes, log
from softnpu.flow.engines.embedded import pipes
from softnpu.flow.engines.embedded.process_spec import ProcessSpec
from softnpu.flow.engines.embedded.zygote import zygote
from softnpu.flow.engines.notices import RESTARTED
from softnpu.flow.engines.outputs import Outputs
from softnpu.flow.engines.supervisor import CommonSupervisor, Supervised
from softnpu.flow.errors import DfException
from softnpu.flow.plan import Plan
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import EPOCHS, Queue, recover
from softnpu.flow.transport.endpoint import Endpoint
from softnpu.flow.transport.layout import APPLICATION
from softnpu.flow.values.memory import ARENA_SIZE, Arenas, Bytes
from softnpu.runtime.memory import segment

_GRACE = 1.0


class WorkerProcess(Supervised):
    """One worker process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.lives = 0
        self.pid = 0
        self.life: socket.socket | None = None

    @property
    def epoch(self) -> int:
        """Its life, as records say it."""
        return self.lives % EPOCHS


class Supervisor(CommonSupervisor):
    """Owns the processes, the pipes and the memory of a session."""

    def __init__(self, plan: Plan, outputs: Outputs, tell: Callable[[], None]) -> None:
        super().__init__(plan, outputs)
        self._tell = tell
        try:
            self._pipes = pipes.make(self.layout.processes + 2)
        except OSError as problem:
            text = f"{self.layout.processes} pipes cannot be made: {problem}; see ulimit -n"
            raise DfException(f"The graph {plan.name} cannot be deployed: {text}", codes.FAILED) from problem
        self._call, self._caller = self._pipes.pop()
        self.alarm, self._alarm = self._pipes.pop()
        self._segment = segment.create((self.layout.processes + 2) * ARENA_SIZE, "softnpu-flow")
        self._arenas = Arenas(self._segment, 1)
        self._window = segment.Window(self._segment, 0, self.layout.shared_bytes())
        self.rows = [Cells(self._window.buffer, seat.number) for seat in self.layout.seats]
        writes = {number: pipe[1] for number, pipe in enumerate(self._pipes) if number != APPLICATION}
        self.endpoint = Endpoint(
            APPLICATION,
            self.layout,
            self._arenas,
            self.layout.marks(self._window.buffer),
            (self._pipes[APPLICATION][0], writes),
            self,
        )
        self.outbox = self.endpoint.outbox
        self.workers = [WorkerProcess(number) for number in range(1, self.layout.processes)]
        self._stuck = False
        self._watch = threading.Thread(target=self._supervise, daemon=True, name="dataflow supervisor")
        self.on_tap: Callable[[int, bytes], None] | None = None

    # ---- what the endpoint wants -------------------------------------------------------------------------------------

    def queue(self, seat: int, index: int) -> Queue:
        """See Owner."""
        return self._outputs.queues[index]

    def notice(self, kind: int, number: int, data: bytes) -> None:
        """See Owner."""
        if kind == wire.TAP and self.on_tap is not None:
            self.on_tap(number, data)
        if kind == wire.NOTICE:
            name, *content = pickle.loads(data)
            self._told(self.workers[number - 1], name, content)

    def _tell_others(self, worker: Supervised, *content: Any) -> None:
        for other in self.workers:
            if other is not worker:
                self._notify(other.number, *content)
        self.outbox.flush()

    # ---- starting ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all workers and wait until their functions are loaded; DfException if one cannot be."""
        try:
            for worker in self.workers:
                self._spawn(worker, {})
            self._watch.start()
            while not all(worker.ready for worker in self.workers) and not self.failure:
                self.endpoint.wait(None, self.alarm)
                self.quiet()
                self.endpoint.inbox.read()
        except OSError as problem:
            self.failure = f"a process could not be started: {problem}"
        except BaseException:
            self.close()
            raise
        if self.failure:
            self.close()
            raise DfException(f"The graph {self.plan.name} cannot be deployed: {self.failure}", codes.FAILED)

    def _spawn(self, worker: WorkerProcess, fatal: dict[int, dict[int, int]]) -> None:
        ours, theirs = socket.socketpair()
        peers = sorted(self.layout.peers(worker.number))
        for seat in self.layout.seats_of(worker.number):
            self.rows[seat.number].words[cells.STATE] = cells.STARTING
        with tempfile.TemporaryFile() as content, pipes.standard() as standard:
            pickle.dump(self._surroundings(self._environment(worker), self.settings.memory_limit), content)
            pickle.dump(self._spec(worker, fatal, peers), content)
            content.flush()
            content.seek(0)
            ends = [self._pipes[worker.number][0], *(self._pipes[peer][1] for peer in peers)]
            descriptors = [theirs.fileno(), content.fileno(), *standard, self._segment, *ends]
            worker.ready = False
            worker.pid = zygote().start(descriptors)
        theirs.close()
        if worker.life is not None:
            worker.life.close()
        worker.life = ours

    def _spec(self, worker: WorkerProcess, fatal: dict[int, dict[int, int]], peers: list[int]) -> ProcessSpec:
        return ProcessSpec(
            process=worker.number,
            life=worker.lives,
            plan=self._part(worker.number),
            layout=self.layout,
            work_path=os.getcwd(),
            strict=self.settings.strict,
            watched=bool(self.settings.timeline),
            epoch=worker.epoch,
            epochs={other.number: other.epoch for other in self.workers},
            peers=peers,
            arena=worker.number + 1,
            fatal=fatal,
        )

    def _environment(self, worker: WorkerProcess) -> dict[str, str]:
        environment = config.whole_environment()
        for seat in self.layout.seats_of(worker.number):
            node = self.plan.nodes[seat.node]
            if node.visible_device:
                environment["ASCEND_RT_VISIBLE_DEVICES"] = str(max(node.instances[seat.instance].device, 0))
        return environment

    def allocate(self, nbytes: int, align: int) -> Bytes:
        """Memory that can be fed without a copy."""
        return self._arenas.own.allocate(nbytes)

    # ---- watching ----------------------------------------------------------------------------------------------------

    def quiet(self) -> None:
        """The alarm was heard."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.alarm, 4096)

    def ring(self) -> None:
        """Wake whoever waits for results."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._alarm, b"!")
        self._tell()

    def unblock(self) -> None:
        """A pipe is full: the watching thread writes on when there is room."""
        self._stuck = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._caller, b"!")

    def _supervise(self) -> None:
        while not self._closing:
            poll = select.poll()
            poll.register(self._call, select.POLLIN)
            lives = {}
            for worker in self.workers:
                if worker.life is not None:
                    lives[worker.life.fileno()] = worker
                    poll.register(worker.life.fileno(), select.POLLIN)
            if self._stuck:
                for descriptor in self.outbox.stuck():
                    poll.register(descriptor, select.POLLOUT)
            for descriptor, _ in poll.poll():
                if descriptor == self._call:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._call, 4096)
                elif descriptor in lives:
                    self._died(lives[descriptor])
            if self._stuck and not self._closing:
                self._stuck = not self.outbox.flush()

    def _died(self, worker: WorkerProcess) -> None:
        assert worker.life is not None
        worker.life.close()
        worker.life = None
        if self._closing:
            return
        text = f"the process {worker.pid} of node {self._names(worker)} ended"
        try:
            text += f" {_how(zygote().exit_code(worker.pid))}"
            if not self._was_ready(worker) or not self._may_restart(worker):
                self.failure = self.failure or text
                self.ring()
                return
            log.error("%s; it is started again", text)
            with self.endpoint.lock:
                fatal = self._fatal(worker)
                numbers = self.layout.into(worker.number)
                recover(self.layout.marks(self._window.buffer), numbers, self.layout.words)
                pipes.drain(self._pipes[worker.number][0])
                worker.lives += 1
                self._spawn(worker, fatal)
                self._announce(worker)
        except Exception as problem:  # whatever it is: without this thread nobody would hear of any death
            self.failure = f"{text}, and could not be started again: {problem}"
            self.ring()  # not under the lock: who is told looks at once

    def _was_ready(self, worker: WorkerProcess) -> bool:
        """Whether it had loaded its functions; that it said so may not have been read yet."""
        rows = [self.rows[seat.number].words[cells.STATE] for seat in self.layout.seats_of(worker.number)]
        return worker.ready or cells.STARTING not in rows

    def _fatal(self, worker: WorkerProcess) -> dict[int, dict[int, int]]:
        """Per seat: the function and transaction that were being worked on."""
        calls = {}
        for seat in self.layout.seats_of(worker.number):
            row = self.rows[seat.number].read()
            if row["state"] == cells.CALLING and row["trans_id"]:
                calls[seat.number] = {row["function"]: row["trans_id"]}
        return calls

    def _announce(self, worker: WorkerProcess) -> None:
        """Everybody who sends to it sends again what was not finished."""
        self.outbox.restarted(worker.number, worker.epoch)
        for peer in self.layout.peers(worker.number) - {APPLICATION}:
            self._notify(peer, RESTARTED, worker.number, worker.epoch)
        if not self.outbox.flush():
            self._stuck = True

    def _notify(self, process: int, *content: Any) -> None:
        self.outbox.tell(process, wire.plain_record(wire.NOTICE, pickle.dumps(content)))

    # ---- ending ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ask all workers to end, then see to it."""
        self._closing = True
        with contextlib.suppress(BlockingIOError):
            os.write(self._caller, b"!")
        if self._watch.is_alive() and threading.current_thread() is not self._watch:
            self._watch.join()
        for worker in self.workers:
            if worker.life is not None:
                self.outbox.tell(worker.number, wire.plain_record(wire.STOP))
        self.outbox.flush()
        left = self._wait_for_end(_GRACE)
        for worker in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)
        self._wait_for_end(_GRACE)
        with self.endpoint.lock:  # somebody may still be copying what it feeds
            for pair in (*self._pipes, (self.alarm, self._alarm), (self._call, self._caller)):
                for descriptor in pair:
                    os.close(descriptor)
            os.close(self._segment)
            self._pipes = []
            final = bytearray(self._window.buffer[: cells.ROW * len(self.rows)])
            self.rows = [Cells(final, seat.number) for seat in self.layout.seats]
            self.endpoint.close()
            self._window.close()

    def _wait_for_end(self, seconds: float) -> list[WorkerProcess]:
        """Members that are still there after so long; the inbox is emptied meanwhile, so that nobody waits to write."""
        until = time.monotonic() + seconds
        while True:
            left = [worker for worker in self.workers if worker.life is not None]
            rest = until - time.monotonic()
            if not left or rest <= 0:
                return left
            poll = select.poll()
            lives = {worker.life.fileno(): worker for worker in left if worker.life is not None}
            for descriptor in lives:
                poll.register(descriptor, select.POLLIN)
            poll.register(self.endpoint.inbox.fd, select.POLLIN)
            for descriptor, _ in poll.poll(rest * 1000):
                if descriptor in lives:
                    life = lives[descriptor].life
                    assert life is not None
                    life.close()
                    lives[descriptor].life = None
                else:
                    self.endpoint.inbox.read()
            self.outbox.flush()

    def marks(self) -> memoryview | None:
        """The words of all channels; None once there are none any more. Whoever looks at them lets go soon."""
        return None if not self._pipes else self.layout.marks(self._window.buffer)

    def statistics(self) -> list[dict[str, Any]]:
        """One row for each node instance."""
        return self._statistics(self.rows)


def _how(code: int | None) -> str:
    if code is None:
        return "unexpectedly"
    if code < 0:
        return f"by signal {signal.Signals(-code).name}"
    return f"with exit code {code}"
