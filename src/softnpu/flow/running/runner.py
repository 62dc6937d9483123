"""One node instance: messages come in, the function is called when its inputs are complete, results go out.

It knows neither processes nor pipes: the host that runs it (a worker, the inline engine, an actor) gives it an outlet.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.body import Body, InstanceInfo, load
from softnpu.flow.message import Message, failure
from softnpu.flow.plan import Function, Node, Plan
from softnpu.flow.running import cells
from softnpu.flow.running.cells import Cells
from softnpu.flow.running.host import Host
from softnpu.flow.running.inputs import Batching, Bundle, Input, Task
from softnpu.flow.running.streams import StreamInput, StreamThread

_clock = time.perf_counter_ns
_LARGEST_CODE = 1 << 63
SLOW = 300_000  # nanoseconds: nobody should wait for the end of a call that takes longer


class Out:
    """The outlet of the call that is going on."""

    __slots__ = ("_runner", "again", "head", "sent", "trans_id")

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.trans_id = 0
        self.again = False
        self.sent = 0  # a bit for each output that has its result
        self.head: Message | None = None

    def send(self, output: int, message: Message) -> None:
        """See Outlet."""
        if message.trans_id == 0:
            message.trans_id = self.trans_id
        message.again = self.again
        self.sent |= 1 << output
        runner = self._runner
        runner.words[cells.SENT] += 1
        runner.host.emit(runner.seat, output, message)
        if (runner.slow and runner.words[cells.CALLS]) or _clock() - runner.words[cells.BEGAN] > SLOW:
            runner.host.progressed()  # what a long call made so far is wanted now

    def hurry(self) -> None:
        """A generator: nobody knows how long it takes until it goes on, and more is to come, be it a failure."""
        self.sent = 0
        self._runner.host.progressed()

    def raise_exception(self, code: int, context_id: int, trans_id: int) -> None:
        """See Outlet."""
        self._runner.forget(trans_id)
        self._runner.host.raised(self._runner.seat, code, context_id, trans_id, self.head)


class StreamOut(Out):
    """The outlet of a stream function: a message without an id gets the next number of its output."""

    __slots__ = ("_last",)

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self._last: dict[int, int] = {}

    def send(self, output: int, message: Message) -> None:
        """See Outlet."""
        if message.trans_id == 0:
            message.trans_id = self._last.get(output, 0) + 1
        self._last[output] = message.trans_id
        super().send(output, message)
        self._runner.host.progressed()


class Runner:
    """A node instance in its host."""

    def __init__(self, plan: Plan, node: Node, seat: int, instance: InstanceInfo, row: Cells, host: Host) -> None:
        self.node = node
        self.seat = seat
        self.instance = instance
        self.host = host
        self.words = row.words
        self.body: Body = load(node.body)
        self.watched = False
        self.stopped = False
        self.slow = True  # calls take so long that nobody should wait for the end of one to hear of the others
        self.strict = False
        self.fatal: dict[int, int] = {}  # function → transaction during which an earlier life ended
        self.tickets: list[Any] = []  # of the messages of the present call
        self.relay: Any = None  # the host's ticket for what the present call made of them, if that needs one
        self.finished: list[Any] = []  # tickets of messages whose results are made, but may not be out yet
        self.out = Out(self)
        self.stream_out = StreamOut(self)
        self.tasks = [Task(self, index, function, plan.align) for index, function in enumerate(node.functions)]
        self.threads: list[StreamThread] = []
        self.inputs = self._inputs()
        self._turn = 0
        self._notices: deque[tuple[int, int, int]] = deque()
        self._queued = [task for task in self.tasks if not task.function.stream]
        self._sources = [task for task in self._queued if not task.function.inputs]
        self.ticking = [each for each in self.inputs if each.batch is not None]

    def _inputs(self) -> list[Input | StreamInput]:
        inputs: dict[int, Input | StreamInput] = {}
        for task in self.tasks:
            inlets = []
            for index in task.function.inputs:
                rule = self.node.batches.get(index)
                batch = None if rule is None else Batching(rule, self)
                if task.function.stream:
                    inlets.append(StreamInput(self, batch))
                    inputs[index] = inlets[-1]
                else:
                    inputs[index] = Input(self, index, task, batch)
            if task.function.stream:
                self.threads.append(StreamThread(self, task, inlets))
        return [inputs[index] for index in sorted(inputs)]

    def start(self) -> None:
        """Load the user's code; exceptions are the host's to report."""
        self.words[cells.STATE] = cells.STARTING
        self.body.start(self.instance)
        self.words[cells.STATE] = cells.READY

    def enter_streams(self) -> None:
        """Stream functions run from now on."""
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        """The graph ends: free stream functions, let the body go."""
        self.stopped = True
        for thread in self.threads:
            thread.end()

    def absorb(self, message: Message) -> None:
        """A message left its queue for good."""
        if type(message.ticket) is not Bundle:
            self.host.taken(message)
        self.forgotten(message)

    def forgotten(self, message: Message) -> None:
        """Nothing will come of a message any more, or its results are made."""
        if type(message.ticket) is Bundle:
            self.finished += message.ticket
        elif message.ticket is not None:
            self.finished.append(message.ticket)

    def wait_for_room(self, until: float | None) -> None:
        """For stream functions, which are not called by `step`."""
        self.host.wait_for_room(self.seat, until)

    # ---- running -----------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """One call, if the inputs of a function are complete and earlier results are out."""
        if self.stopped:
            return False
        if self._notices:
            self._tell()
            return True
        if self.host.held_up(self.seat):
            return False
        tasks = self._queued
        if len(tasks) == 1:
            task = tasks[0]
            messages = task.pop()
            if messages is None:
                return False
            self._call(task, messages)
            return True
        for _ in tasks:
            self._turn = (self._turn + 1) % len(tasks)
            messages = tasks[self._turn].pop()
            if messages is not None:
                self._call(tasks[self._turn], messages)
                return True
        return False

    def _call(self, task: Task, messages: list[Message]) -> None:
        self.tickets = tickets = _tickets(messages)
        self.relay = None
        for message in messages:
            if not task.raw or not task.absorbed(message):
                self.host.taken(message)
        if self.slow and tickets:  # who waits for room shall not have to wait for the end of this call
            self.host.progressed()
        head = _head(messages)
        trans_id = head.trans_id if head is not None else 0
        code = 0 if self.body.takes_failures else _failed(messages)
        if self.fatal and self.fatal.get(task.index) == trans_id and trans_id:
            del self.fatal[task.index]
            log.error(
                "node %s: transaction %s was being worked on when its process ended", self.instance.node, trans_id
            )
            code = codes.FUNC_FAILED
        if code:
            self.fail(task.function, head, code)
            self.finished += tickets if self.relay is None else (self.relay,)
            return
        words = self.words
        words[cells.TRANS_ID] = trans_id
        words[cells.FUNCTION] = task.index
        words[cells.BEGAN] = began = _clock()
        if head is not None and head.arrived:
            cells.waited(words, began - head.arrived)
        words[cells.STATE] = cells.CALLING
        self.out.trans_id = trans_id
        self.out.head = head
        self.out.sent = 0
        self.out.again = head is not None and head.again
        code = self._guarded(task, messages)
        ended = _clock()
        cells.called(words, ended - began)
        if self.watched:
            self.host.called(self.seat, task.index, trans_id, began, ended, code)
        if code:
            self._call_failed(task, head, code)
        self.slow = ended - began > SLOW
        self.finished += tickets if self.relay is None else (self.relay,)

    def _guarded(self, task: Task, messages: list[Message]) -> int:
        try:
            return self.body.call(task.index, messages, self.out)
        except (Exception, SystemExit):  # a function may end its call, not its node
            log.error("node %s, function %s: %s", self.instance.node, task.function.name, traceback.format_exc())
            return codes.FUNC_FAILED

    def _call_failed(self, task: Task, head: Message | None, code: int) -> None:
        self.words[cells.FAILURES] += 1
        if self.strict:
            self.stopped = True
            self.words[cells.STATE] = cells.STOPPED
            log.error("node %s stops: function %s returned %s", self.instance.node, task.function.name, code)
            return
        if self.out.sent:
            log.error(
                "node %s, function %s failed (%s) after a result was out", self.instance.node, task.function.name, code
            )
        self.fail(task.function, head, code, self.out.sent)

    def fail(self, function: Function, head: Message | None, code: int, sent: int = 0) -> None:
        """The transaction's failure goes the way its results would have gone; `sent` has a bit for each output that is served already."""
        if not -_LARGEST_CODE <= code < _LARGEST_CODE:
            log.error("node %s, function %s: %s is no code", self.instance.node, function.name, code)
            code = codes.FUNC_FAILED
        for output in function.outputs:
            if sent >> output & 1:
                continue
            message = failure(code, head)
            message.again = head is not None and head.again  # its result may be out already
            self.host.emit(self.seat, output, message)

    # ---- exceptions of transactions ----------------------------------------------------------------------------------

    def forget(self, trans_id: int) -> None:
        """Discard what waits here for a transaction."""
        for task in self.tasks:
            task.forget(trans_id)

    def raised(self, trans_id: int, code: int, context_id: int) -> None:
        """Another node ended a transaction."""
        self.forget(trans_id)
        if self.body.takes_exceptions:
            self._notices.append((trans_id, code, context_id))

    def _tell(self) -> None:
        trans_id, code, context_id = self._notices.popleft()
        self.body.notice(trans_id, code, context_id)
        self.out.trans_id = trans_id
        for task in self._queued[:1]:
            if self._guarded(task, []):
                self.words[cells.FAILURES] += 1

    # ---- time --------------------------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When `tick` is wanted, on the monotonic clock."""
        deadlines = [each.deadline() for each in self.ticking]
        deadlines += [task.aligner.deadline() for task in self.tasks if task.aligner is not None]
        times = [each for each in deadlines if each is not None]
        return min(times) if times else None

    def tick(self) -> None:
        """Let batches that are due go on."""
        now = time.monotonic()
        for each in self.ticking:
            each.tick(now)

    def backlog(self) -> int:
        """Messages that wait for this node."""
        return sum(each.backlog() for each in self.inputs)

    def always_ready(self) -> bool:
        """Whether it has a function without inputs, which is called for ever."""
        return bool(self._sources) and not self.stopped


def _tickets(messages: list[Message]) -> list[Any]:
    """Where the messages came from, those in batches too."""
    tickets: list[Any] = []
    for message in messages:
        ticket = message.ticket
        if type(ticket) is Bundle:
            tickets += ticket
        elif ticket is not None:
            tickets.append(ticket)
    return tickets


def _head(messages: list[Message]) -> Message | None:
    """The message whose envelope the results take over: the first that is not empty."""
    for message in messages:
        if message.payload.form:
            return message
    return messages[0] if messages else None


def _failed(messages: list[Message]) -> int:
    for message in messages:
        if message.ret_code:
            return message.ret_code
    return 0


def instance_of(plan: Plan, node: Node, instance: int, work_path: str = "") -> InstanceInfo:
    """Where an instance runs, in the words of the running code."""
    device = node.instances[instance].device
    attributes: dict[str, Any] = node.body.data.get("attributes", {})
    return InstanceInfo(
        node=node.alias or node.name,
        input_num=node.input_num,
        output_num=node.output_num,
        device_id=0 if node.visible_device else max(device, 0),
        instance_id=instance,
        instance_num=len(node.instances),
        work_path=work_path,
        catch=plan.catch,
        balance=node.balance,
        attributes=attributes,
    )
