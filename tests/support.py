"""Small helpers of the tests of the face `acl`. Every wait is bounded, so that a hang is a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import acl

WAIT = 20.0  # seconds; far more than anything here needs


def ok(answer: Any) -> Any:
    """The value of a call that must succeed: `ok((5, 0))` is 5, `ok(0)` is None."""
    values, ret = (answer[:-1], answer[-1]) if isinstance(answer, tuple) else ((), answer)
    assert ret == 0, f"the call answered {answer}: {acl.get_recent_err_msg()}"
    return values[0] if len(values) == 1 else values or None


def message() -> str:
    """What the last failed calls left behind; there must be something."""
    text = acl.get_recent_err_msg()
    assert isinstance(text, str)
    return text


def in_thread(function: Callable[[], Any], limit: float = WAIT) -> Any:
    """The result of a function that runs in a thread of its own; its exception goes on here."""
    results: list[Any] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    assert not thread.is_alive(), f"{function} still runs after {limit} s"
    if failures:
        raise failures[0]
    return results[0]


class Hold:
    """Keeps a stream of the current context busy until it is released."""

    def __init__(self, stream: int) -> None:
        self._other = ok(acl.rt.create_stream())
        self._notify = ok(acl.rt.create_notify(0))
        ok(acl.rt.wait_and_reset_notify(self._notify, stream, 0))

    def release(self) -> None:
        """Let the stream go on."""
        ok(acl.rt.record_notify(self._notify, self._other))
        ok(acl.rt.synchronize_stream_with_timeout(self._other, int(WAIT * 1000)))

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.release()


class Reporter:
    """A thread of `acl.util.start_thread` that processes callbacks until it is closed."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self._stop = threading.Event()
        self.tid: int = ok(acl.util.start_thread(self._loop, None))

    def _loop(self) -> None:
        while not self._stop.is_set():
            code = acl.rt.process_report(50)
            self.codes.append(code)
            if code == 107012:
                self._stop.wait(0.002)

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        ok(in_thread(lambda: acl.util.stop_thread(self.tid)))

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()
