"""The process of one node instance, or of all nodes of one device."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import sys
import threading
import time
import traceback
from collections import deque
from functools import partial
from typing import Any

from softnpu.flow import log
from softnpu.flow.engines.embedded.process_spec import ProcessSpec
from softnpu.flow.engines.embedded.relay import Relay, Relays
from softnpu.flow.engines.embedded.tapping import arm
from softnpu.flow.engines.notices import CALLED, FAILED, RAISED, READY, RESTARTED, TAP
from softnpu.flow.engines.spec import Surroundings
from softnpu.flow.functions import running
from softnpu.flow.message import Message
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.running.runner import Runner, instance_of
from softnpu.flow.running.streams import wait_while
from softnpu.flow.transport import wire
from softnpu.flow.transport.channels import Queue
from softnpu.flow.transport.endpoint import Endpoint
from softnpu.flow.transport.layout import APPLICATION, Seat
from softnpu.flow.values import tensor
from softnpu.flow.values.memory import Arenas
from softnpu.runtime.memory.segment import Window

_CALLS_PER_ROUND = 64
_ROUND_NANOSECONDS = 500_000
_CALLS_PER_REPORT = 32
_ROUNDS = 4
_IDLE_SECONDS = 2.0
_OOM_SCORE = "500"
_LEAVE_SECONDS = 0.5
_MOST_TEXT = 3000  # a notice is one record


class Worker:
    """Reads the inbox, calls the functions, sends their results; one thread unless a function is a stream's."""

    def __init__(self, spec: ProcessSpec, descriptors: list[int]) -> None:
        self.process = spec.process
        self.layout = spec.layout
        self.plan = spec.plan
        segment, inbox, *outboxes = descriptors
        self._arenas = Arenas(segment, spec.arena)
        self._arenas.late = deque()
        self._room = threading.Condition()
        self._ending = False
        self._threads = False  # of stream functions
        self._behind = False  # messages could not be finished, because results waited for room
        self._alarm, self._waker = -1, -1
        self._watched: list[tuple[int, int, int, int, int, int]] = []
        seats = self.layout.seats_of(self.process)
        window = Window(segment, 0, self.layout.shared_bytes())
        self._runners = {seat.number: self._runner(spec, seat, Cells(window.buffer, seat.number)) for seat in seats}
        self._routes = {
            seat.number: [
                self.layout.routes[(seat.number, each)] for each in range(self.plan.nodes[seat.node].output_num)
            ]
            for seat in seats
        }
        peers = dict(zip(spec.peers, outboxes, strict=True))
        shared = self._arenas, self.layout.marks(window.buffer)
        life = spec.epoch, not spec.life
        self.endpoint = Endpoint(self.process, self.layout, *shared, (inbox, peers), self, *life)
        self._outbox, self._inbox = self.endpoint.outbox, self.endpoint.inbox
        self._outbox.join(spec.epochs)
        self._several = len(self._runners) > 1
        self._relays = Relays(self._arenas, self._inbox.finished)
        tensor.add_provider(lambda nbytes, _align: self._arenas.own.allocate(nbytes))

    def _runner(self, spec: ProcessSpec, seat: Seat, row: Cells) -> Runner:
        node = self.plan.nodes[seat.node]
        instance = instance_of(self.plan, node, seat.instance, spec.work_path)
        runner = Runner(self.plan, node, seat.number, instance, row, self)
        runner.strict = spec.strict
        runner.watched = spec.watched
        runner.fatal = spec.fatal.get(seat.number, {})
        runner.words[cells.PID] = os.getpid()
        runner.words[cells.LIFE] = spec.life
        return runner

    # ---- what the endpoint wants -------------------------------------------------------------------------------------

    def queue(self, seat: int, index: int) -> Queue:
        """See Owner."""
        return self._runners[seat].inputs[index]

    def notice(self, kind: int, number: int, data: bytes) -> None:
        """See Owner."""
        if kind == wire.STOP:
            self._ending = True
        elif kind == wire.NOTICE:
            name, *rest = pickle.loads(data)
            if name == RAISED:
                self._raised(*rest)
            elif name == RESTARTED:
                self._outbox.restarted(*rest)
            elif name == TAP:
                arm(self, *rest)

    def _raised(self, seat: int, trans_id: int, code: int, context_id: int) -> None:
        for number, runner in self._runners.items():
            if number != seat:
                runner.raised(trans_id, code, context_id)

    def report(self, *content: Any) -> None:
        """Tell the application something rare."""
        self._outbox.tell(APPLICATION, wire.plain_record(wire.NOTICE, pickle.dumps(content), number=self.process))

    # ---- what the runners want ---------------------------------------------------------------------------------------

    def emit(self, seat: int, output: int, message: Message) -> None:
        """See Host."""
        groups = self._routes[seat][output]
        if groups:
            if self._several:
                self._outbox.relay = partial(self._relays.of, self._runners[seat])
            self._outbox.emit(groups, message)

    def held_up(self, seat: int) -> bool:
        """See Host."""
        outbox = self._outbox
        if not outbox.waiting and len(self._runners) == 1:
            return False
        return any(outbox.held_up(groups) for groups in self._routes[seat])

    def taken(self, message: Message) -> None:
        """See Host."""
        if not self._several or type(message.ticket) is not Relay:
            with self.endpoint.lock:
                self._inbox.taken(message)

    def raised(self, seat: int, code: int, context_id: int, trans_id: int, envelope: Message | None = None) -> None:
        """See Host."""
        head = envelope or Message()
        times = (head.start_time, head.end_time, head.flags, head.user_data)
        self.report(RAISED, seat, trans_id, code, context_id, *times)
        self._raised(seat, trans_id, code, context_id)

    def progressed(self) -> None:
        """See Host."""
        with self.endpoint.lock:
            self._inbox.answer()
            clear = self._flush(False)
        if not clear and self._threads and threading.current_thread() is not threading.main_thread():
            with contextlib.suppress(BlockingIOError):  # whoever sleeps does not know that a pipe is full now
                os.write(self._waker, b"!")

    def wait_for_room(self, seat: int, until: float | None) -> None:
        """See Host."""
        wait_while(self._room, lambda: not self._ending and self.held_up(seat), until)

    def called(self, seat: int, function: int, trans_id: int, began: int, ended: int, code: int) -> None:
        """See Host."""
        self._watched.append((seat, function, trans_id, began, ended, code))

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def start(self) -> bool:
        """Load the user's code; False when it would not."""
        for runner in self._runners.values():
            running.become(runner.instance)
            try:
                runner.start()
            except BaseException:
                text = traceback.format_exc().encode()  # printed by whoever gets it as an exception
                self.report(FAILED, runner.instance.node, text[-_MOST_TEXT:].decode(errors="ignore"))
                self._outbox.flush()
                return False
        self.report(READY, self.process)
        self._outbox.flush()
        self._threads = any(runner.threads for runner in self._runners.values())
        if self._threads:
            self._alarm, self._waker = os.pipe()
            os.set_blocking(self._alarm, False)
            os.set_blocking(self._waker, False)
        for runner in self._runners.values():
            runner.enter_streams()
        return True

    def run(self) -> None:
        """Until the application says stop."""
        rounds = 0
        active = False
        while not self._ending:
            came = self._inbox.read()
            if self._behind and not self._outbox.waiting:
                self._flush()
            if self._work():
                active = True
                rounds += 1
                if rounds == _ROUNDS:
                    rounds = 0
                    self._flush()
            elif not came and not self._is_over():
                rounds = 0
                self._inbox.answer()
                clear = self._flush()
                active = self._sleep(active and clear)

    def _sleep(self, active: bool) -> bool:
        """Until something comes; after a while of nothing give memory back. Whether that is still to be done."""
        timeout = self._sleep_at_most()
        if timeout is None and active:
            timeout = _IDLE_SECONDS
        woken = self.endpoint.wait(timeout, self._alarm)
        if self._threads:
            with contextlib.suppress(BlockingIOError):
                os.read(self._alarm, 4096)
        if woken or timeout != _IDLE_SECONDS:
            return active
        self._arenas.own.trim()
        return False

    def _is_over(self) -> bool:
        return self._ending

    def _sleep_at_most(self) -> float | None:
        deadlines = [each for each in (runner.deadline() for runner in self._runners.values()) if each is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _work(self) -> bool:
        """Call what is ready, for a while; whether there was anything."""
        runners = self._runners.values()
        since = time.perf_counter_ns()
        calls = 0
        for runner in runners:
            if runner.ticking:
                runner.tick()
        working = True
        while working and not self._ending:
            working = False
            for runner in runners:
                if runner.step():
                    calls += 1
                    working = True
            if calls >= _CALLS_PER_ROUND or time.perf_counter_ns() - since > _ROUND_NANOSECONDS:
                self._flush()
                break
        return bool(calls)

    def _flush(self, between: bool = True) -> bool:
        """Send what is made; then the messages it was made from are finished. `between`: no call is going on."""
        outbox, inbox = self._outbox, self._inbox
        if self._watched and (self._ending or len(self._watched) >= _CALLS_PER_REPORT):
            self._report_calls()
        with self.endpoint.lock:  # nothing is made in between: what is finished now is out
            clear = outbox.flush()
            self._behind = outbox.waiting > 0
            if clear and not self._behind:
                for runner in self._runners.values():
                    if runner.finished:
                        done, runner.finished = runner.finished, []
                        finished = self._relays.finished if self._several else inbox.finished
                        for ticket in done:
                            finished(ticket)
                if inbox.changed:
                    inbox.write_progress()
                several = self._several
                if between and not (several and self._relays.open()):
                    inbox.commit()
                (self._relays if several else self._arenas).settle()
        if len(self._runners) > 1:  # queues between them are no channels
            for runner in self._runners.values():
                runner.words[cells.BACKLOG] = runner.backlog()
        if self._threads:
            with self._room:
                self._room.notify_all()
        return clear

    def _report_calls(self) -> None:
        events, self._watched = self._watched, []
        for first in range(0, len(events), _CALLS_PER_REPORT):
            self.report(CALLED, events[first : first + _CALLS_PER_REPORT])

    def end(self) -> None:
        """Let go of the user's code."""
        for runner in self._runners.values():
            runner.end()
            runner.words[cells.STATE] = cells.ENDED
        until = time.monotonic() + _LEAVE_SECONDS
        for runner in self._runners.values():
            for thread in runner.threads:  # they were freed: let them tidy up
                thread.join(max(0.0, until - time.monotonic()))
            try:
                runner.body.close()
            except Exception:
                log.error("node %s, at its end: %s", runner.instance.node, traceback.format_exc())
        self._flush()


def _watch_application(life: int) -> None:
    """End with the application, even in the middle of a call that never returns."""
    with contextlib.suppress(OSError):
        os.read(life, 1)
    os._exit(0)


def _settle(surroundings: Surroundings, standard: list[int]) -> None:
    """Become a process of the application: its directory, environment, outputs and paths."""
    for target, source in zip((1, 2), standard, strict=True):
        os.dup2(source, target)
        os.close(source)
    surroundings.take_over(surroundings.environment, surroundings.path)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)  # only a wish: if memory runs out, it shall be this process that ends
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # a sleeper that is woken lets the waker go on: it has more to hand over
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    surroundings.limit_memory()


def main(descriptors: list[int]) -> None:
    """The life of a worker."""
    life, content, out, err, *rest = descriptors
    with open(content, "rb") as file:
        surroundings: Surroundings = pickle.load(file)
        _settle(surroundings, [out, err])
        threading.Thread(target=_watch_application, args=(life,), daemon=True, name="life").start()
        spec: ProcessSpec = pickle.load(file)
    code = 1
    try:
        worker = Worker(spec, rest)
        if worker.start():
            worker.run()
            worker.end()
            code = 0
    except BaseException:
        log.error("The worker of DataFlow ends: %s", traceback.format_exc())
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
