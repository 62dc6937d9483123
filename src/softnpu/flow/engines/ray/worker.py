"""Hosts the runners of one actor: a thread that takes in, calls and sends."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections import deque
from typing import Any

from softnpu.flow import log
from softnpu.flow.engines import notices
from softnpu.flow.engines.ray import records
from softnpu.flow.engines.ray.lines import Box, Calls, Clerk, Line
from softnpu.flow.engines.ray.link import Link, Ticket
from softnpu.flow.engines.ray.records import Item, Origin
from softnpu.flow.engines.spec import WorkerSpec
from softnpu.flow.functions import running
from softnpu.flow.message import Message
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.running.inputs import Bundle
from softnpu.flow.running.runner import Runner, instance_of
from softnpu.flow.running.streams import wait_while
from softnpu.flow.transport.layout import APPLICATION, Seat

_ROUND_SECONDS = 0.001
_CALLS_PER_REPORT = 256
_SEE_OFF_SECONDS = 2.0
_LOOK_SECONDS = 0.002

Arrival = tuple[int, int, list[Item], list[Any]]


class Worker:
    """The runners of one process of the layout. `deliver` may be called from any thread, `run` is the thread of the calls."""

    def __init__(self, spec: WorkerSpec, rows: Any, put: Any) -> None:
        self.process = spec.process
        self.layout = spec.layout
        self.plan = spec.plan
        self._inbox: deque[Arrival] = deque()
        self._news = threading.Event()
        self._room = threading.Condition()
        self._ending = False
        self._stepping: Runner | None = None
        self._cause: Ticket | None = None  # the first message that the present step took
        self._results: dict[int, int] = {}  # of the present step, by output
        self._several = self.plan.keeps_user_ids()
        self._watched: list[tuple[int, int, int, int, int, int]] = []
        self._seats = self.layout.seats_of(self.process)
        self._runners = {seat.number: self._runner(spec, seat, Cells(rows, at)) for at, seat in enumerate(self._seats)}
        self._clerk = Clerk("dataflow clerk", self._pause)
        self.box = Box(APPLICATION)
        self.link = self._connect(spec, put)
        self._clerk.start()

    def _runner(self, spec: WorkerSpec, seat: Seat, row: Cells) -> Runner:
        node = self.plan.nodes[seat.node]
        fatal = _fatal(row)
        runner = Runner(
            self.plan, node, seat.number, instance_of(self.plan, node, seat.instance, spec.work_path), row, self
        )
        runner.strict = spec.strict
        runner.watched = spec.watched
        runner.fatal = fatal
        runner.words[cells.PID] = os.getpid()
        runner.words[cells.LIFE] = spec.life
        return runner

    def _connect(self, spec: WorkerSpec, put: Any) -> Link:
        lines: dict[int, Line] = {APPLICATION: self.box}
        address = (self.process, spec.life)
        for peer in self.layout.peers(self.process) - {APPLICATION}:
            lines[peer] = Calls(peer, address, self._clerk, self._answered)
        return Link(address, self.layout, lines, lambda seat, index: self._runners[seat].inputs[index], put)

    # ---- from other threads ------------------------------------------------------------------------------------------

    def deliver(self, sender: int, life: int, items: list[Item], objects: list[Any]) -> None:
        """Something came."""
        self._inbox.append((sender, life, items, objects))
        self._news.set()

    def collect(self, seen: int, timeout: float) -> tuple[list[Item], list[Any], int, bool]:
        """What there is for the application, which has `seen` so many."""
        if seen:
            self._clerk.do(lambda: self._answered(APPLICATION, 0, seen))
        return self.box.collect(timeout)

    def rows(self) -> list[bytes]:
        """The numbers of each seat."""
        for runner in self._runners.values():
            runner.words[cells.BACKLOG] = runner.backlog()
        return [runner.words.tobytes() for runner in self._runners.values()]

    def _answered(self, number: int, life: int, end: int) -> None:
        self.link.answered(number, life, end)

    def _pause(self) -> float | None:
        self.link.flush()
        return self.link.patience()

    # ---- what the runners want ---------------------------------------------------------------------------------------

    def emit(self, seat: int, output: int, message: Message) -> None:
        """See Host."""
        groups = self.layout.routes[(seat, output)]
        if groups:
            self.link.emit(groups, message, self._origin(seat, output, message))

    def _origin(self, seat: int, output: int, message: Message) -> Origin | None:
        """The first message of the present call, and which result on this output it is; None for stream functions.

        A death between a result and the end of its call makes a failure of the same transaction. It counts as the same
        result, unless the graph is known to have nodes with several.
        """
        runner = self._stepping
        if runner is None or runner.seat != seat or runner.threads:
            return None
        ticket = runner.out.head.ticket if runner.out.head is not None else None
        if type(ticket) is Bundle:  # a batch: named after its first message, whenever that was taken
            cause = ticket[0] if ticket else None
        else:
            cause = self._cause or ticket
        if cause is None:
            return None
        count = self._results[output] = self._results.get(output, 0) + 1
        channel, life, sequence = cause
        return channel.number, life, sequence, -count if message.ret_code and self._several else count

    def held_up(self, seat: int) -> bool:
        """See Host."""
        if not self.link.waiting and len(self._runners) == 1:
            return False
        outputs = range(self._runners[seat].node.output_num)
        return any(self.link.held_up(self.layout.routes[(seat, output)]) for output in outputs)

    def taken(self, message: Message) -> None:
        """See Host."""
        if self._stepping is not None and self._cause is None:
            self._cause = message.ticket
        self.link.taken(message)

    def raised(self, seat: int, code: int, context_id: int, trans_id: int, envelope: Message | None = None) -> None:
        """See Host."""
        head = envelope or Message()
        times = (head.start_time, head.end_time, head.flags, head.user_data)
        self.link.tell(APPLICATION, notices.RAISED, seat, trans_id, code, context_id, *times)
        self._raised(seat, trans_id, code, context_id)

    def _raised(self, seat: int, trans_id: int, code: int, context_id: int) -> None:
        for number, runner in self._runners.items():
            if number != seat:
                runner.raised(trans_id, code, context_id)

    def progressed(self) -> None:
        """See Host."""
        self._flush()

    def wait_for_room(self, seat: int, until: float | None) -> None:
        """See Host."""
        wait_while(self._room, lambda: not self._ending and self.held_up(seat), until)

    def called(self, seat: int, function: int, trans_id: int, began: int, ended: int, code: int) -> None:
        """See Host."""
        self._watched.append((seat, function, trans_id, began, ended, code))
        if len(self._watched) >= _CALLS_PER_REPORT:
            self._report_calls()

    def _report_calls(self) -> None:
        if self._watched:
            events, self._watched = self._watched, []
            self.link.tell(APPLICATION, notices.CALLED, events)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """The life of the thread that calls."""
        try:
            if self._start():
                while not self._ending:
                    self._round()
                self._end()
        except BaseException:
            self._failed(next(iter(self._runners.values())), traceback.format_exc())
        finally:
            self._report_calls()
            self.link.flush()
            self._clerk.do(None)
            self.box.end()

    def _start(self) -> bool:
        for runner in self._runners.values():
            running.become(runner.instance)
            try:
                runner.start()
            except BaseException:
                self._failed(runner, traceback.format_exc())
                return False
        self.link.tell(APPLICATION, notices.READY)
        self.link.flush()
        for runner in self._runners.values():
            runner.enter_streams()
        return True

    def _failed(self, runner: Runner, text: str) -> None:
        self.link.tell(APPLICATION, notices.FAILED, runner.instance.node, text)

    def _round(self) -> None:
        self._news.clear()
        came = self._take_in()
        worked = self._work()
        self._flush()
        if not came and not worked:
            self._report_calls()
            self._news.wait(self._sleep())

    def _take_in(self) -> bool:
        came = bool(self._inbox)
        while self._inbox:
            for name, *content in self.link.arrived(*self._inbox.popleft()):
                if name == records.STOP:
                    self._ending = True
                elif name == notices.RAISED:
                    self._raised(*content)
                elif name == records.MEET:
                    self.link.renewed(*content)
        return came

    def _work(self) -> bool:
        """Call what is ready, for a while; whether there was anything."""
        until = time.monotonic() + _ROUND_SECONDS
        for runner in self._runners.values():
            runner.tick()
        worked = working = False
        while not self._ending:
            working = False
            for runner in self._runners.values():
                working |= self._step(runner)
            worked |= working
            if not working or time.monotonic() > until:
                return worked
        return worked

    def _step(self, runner: Runner) -> bool:
        self._stepping = runner
        self._cause = None
        self._results = {}
        runner.out.head = None
        fatal_before = len(runner.fatal)
        try:
            return runner.step()
        finally:
            self._stepping = None
            if len(runner.fatal) < fatal_before:
                self._see_off()

    def _see_off(self) -> None:
        """The failure of the transaction that ended the former life must be known before this one may end as well."""
        until = time.monotonic() + _SEE_OFF_SECONDS
        self._flush()
        while not self.link.carried() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def _flush(self) -> None:
        """Send what is made. The messages it was made from are finished when it has arrived."""
        with self.link.lock:
            if not self.link.waiting:
                tickets: list[Ticket] = []
                for runner in self._runners.values():
                    done, runner.finished = runner.finished, []
                    tickets += done
                if tickets:
                    self.link.results_out(tickets)
            self.link.flush()
        with self._room:
            self._room.notify_all()

    def _sleep(self) -> float | None:
        times = [each for each in (runner.deadline() for runner in self._runners.values()) if each is not None]
        rest = max(0.0, min(times) - time.monotonic()) if times else None
        patience = self.link.patience()
        return min(each for each in (rest, patience) if each is not None) if rest or patience else rest

    def _end(self) -> None:
        for runner in self._runners.values():
            runner.end()
            runner.words[cells.STATE] = cells.ENDED
        with self._room:
            self._room.notify_all()
        for runner in self._runners.values():
            for thread in runner.threads:
                thread.join(0.5)
            try:
                runner.body.close()
            except Exception:
                log.error("node %s, at its end: %s", runner.instance.node, traceback.format_exc())
        self._flush()


def _fatal(row: Cells) -> dict[int, int]:
    """Function and transaction that a former life was in when it ended."""
    row_before = row.read()
    row.words[cells.STATE] = cells.STARTING
    return (
        {row_before["function"]: row_before["trans_id"]}
        if row_before["state"] == cells.CALLING and row_before["trans_id"]
        else {}
    )
