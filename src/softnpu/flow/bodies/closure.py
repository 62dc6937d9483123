"""Invoked closures: models and nested graphs that a UDF runs by key and waits for."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from softnpu.flow import codes, engines, log
from softnpu.flow.bodies.common import source_of
from softnpu.flow.body import InstanceInfo, load
from softnpu.flow.message import Message
from softnpu.flow.plan import BodySpec, Plan

Run = Callable[[Sequence[Message], float | None], list[Message]]
_OUTSIDE = InstanceInfo("closure", 0, 0)


class Closures:
    """The closures of one UDF instance, each with a thread of its own, so that a caller can stop waiting."""

    def __init__(self, specs: Mapping[str, BodySpec | Plan]) -> None:
        self._specs = dict(specs)
        self._lines: dict[str, _Line] = {}
        self._instance = _OUTSIDE
        self._lock = threading.Lock()

    def start(self, instance: InstanceInfo) -> None:
        """Load everything now: what cannot be loaded is an error of the deployment, not of the first run."""
        self._instance = instance
        for key in self._specs:
            self._line(key)

    def run(self, key: str, messages: Sequence[Message], timeout_ms: int) -> tuple[int, list[Message]]:
        """(0, outputs), or (564000, []) with the reason in the log; -1 waits for ever."""
        try:
            if key not in self._specs:
                known = ", ".join(sorted(self._specs)) or "none"
                raise RuntimeError(f"no closure was added under this key; there are: {known}")
            if timeout_ms < -1:
                raise ValueError(f"the timeout is {timeout_ms} ms; use -1 to wait for ever, or 0 and more")
            outputs = self._line(key).run(messages, None if timeout_ms == -1 else timeout_ms / 1000)
            return codes.SUCCESS, [_returned(output, messages) for output in outputs]
        except Exception as problem:
            text = str(problem) or type(problem).__name__
            log.error("node %s: run_flow_model(%r) failed: %s", self._instance.node, key, text)
            return codes.FUNC_FAILED, []

    def close(self) -> None:
        """Let go of everything; a run that nobody waits for any more is not waited for."""
        with self._lock:
            lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close()

    def _line(self, key: str) -> _Line:
        with self._lock:
            line = self._lines.get(key)
            if line is None:
                spec = self._specs[key]
                work = _Nested(spec) if isinstance(spec, Plan) else _Single(spec, self._instance)
                line = self._lines[key] = _Line(key, work)
            return line


def _returned(message: Message, inputs: Sequence[Message]) -> Message:
    """A result in the envelope of the call that asked for it."""
    if message.ret_code:
        raise RuntimeError(f"an output has the code {message.ret_code}")
    message.payload.owned = False  # from here on the UDF looks at it, also after it was sent on
    first = source_of(inputs)
    return message.copy().inherit(first) if first is not None else message


class _Line:
    """A daemon thread that runs one closure; runs stand in line, as they would on a device."""

    def __init__(self, key: str, work: _Single | _Nested) -> None:
        self._key = key
        self._work = work
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, messages: Sequence[Message], timeout: float | None) -> list[Message]:
        job = _Job(messages, timeout)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"closure-{self._key}", daemon=True)
                self._thread.start()
        self._jobs.put(job)
        return job.wait()

    def close(self) -> None:
        if self._thread is None:
            self._work.close()
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do(self._work.run)
        self._work.close()


class _Job:
    """One run: the caller waits at most so long, and a run that it gave up before it began is not begun."""

    def __init__(self, messages: Sequence[Message], timeout: float | None) -> None:
        self._messages = list(messages)
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout
        self._done = threading.Event()
        self._given_up = False
        self._result: list[Message] = []
        self._problem: Exception | None = None

    def do(self, run: Run) -> None:
        if self._given_up:
            return
        try:
            self._result = run(self._messages, self._end)
        except Exception as problem:
            self._problem = problem
        self._done.set()

    def wait(self) -> list[Message]:
        if not self._done.wait(self._timeout):
            self._given_up = True
            assert self._timeout is not None
            raise TimeoutError(f"it did not end within {self._timeout * 1000:.0f} ms")
        if self._problem is not None:
            raise self._problem
        return self._result


class _Single:
    """A model."""

    def __init__(self, spec: BodySpec, instance: InstanceInfo) -> None:
        self._body: Any = load(spec)
        self._body.start(instance)

    def run(self, messages: Sequence[Message], end: float | None) -> list[Message]:
        results: list[Message] = self._body.results(messages)
        return results

    def close(self) -> None:
        self._body.close()


class _Nested:
    """A graph inside the worker: the engine that runs everything in one process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._session: engines.Session = engines.start(plan, {"softnpu.flow.engine": "inline"})
        self._turn = 0

    def run(self, messages: Sequence[Message], end: float | None) -> list[Message]:
        if len(messages) != len(self._plan.inputs):
            raise ValueError(f"{len(messages)} inputs were given, the graph has {len(self._plan.inputs)}")
        self._turn += 1
        fresh = []
        for index, message in enumerate(messages):
            copy = message.copy()
            copy.trans_id, copy.user_trans = 0, False  # the nested graph counts for itself
            fresh.append((index, copy))
        self._check("feed", self._session.feed_many(fresh, _left(end)))
        while True:
            outputs, _, code = self._session.fetch(list(range(len(self._plan.outputs))), _left(end), False)
            self._check("fetch", code)
            if not outputs or outputs[0].trans_id in (0, self._turn) or outputs[0].trans_id > self._turn:
                return list(outputs)
            log.debug("closure: a result of run %d came after its caller had left", outputs[0].trans_id)

    def _check(self, step: str, code: int) -> None:
        if code:
            raise RuntimeError(f"the nested graph {self._plan.name} answered {step} with {code}")

    def close(self) -> None:
        self._session.close()


def _left(end: float | None) -> float | None:
    """Seconds until a moment."""
    return None if end is None else max(0.0, end - time.monotonic())
