"""acl.util.start_thread and stop_thread."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import acl
from tests.support import WAIT, in_thread, ok

pytestmark = pytest.mark.usefixtures("fresh")


def test_the_id_is_the_ident_of_the_thread() -> None:
    seen: list[int] = []
    tid = ok(acl.util.start_thread(lambda: seen.append(threading.get_ident()), None))
    ok(acl.util.stop_thread(tid))
    assert seen == [tid]
    assert type(tid) is int and tid != threading.get_ident()


@pytest.mark.parametrize("args", [[1, 2], (1, 2), [], 0, False, "text", {"a": 1}], ids=repr)
def test_arguments_are_one_object(args: Any) -> None:
    seen: list[Any] = []
    ok(acl.util.stop_thread(ok(acl.util.start_thread(seen.append, args))))
    assert seen == [args] and seen[0] is args


def test_none_means_no_argument() -> None:
    seen: list[Any] = []
    ok(acl.util.stop_thread(ok(acl.util.start_thread(lambda *args: seen.append(args), None))))
    assert seen == [()]


def test_stop_waits_for_the_end() -> None:
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        assert go.wait(WAIT)
        done.set()

    tid = ok(acl.util.start_thread(work, None))
    stopped: list[tuple[int, bool]] = []
    stopper = threading.Thread(target=lambda: stopped.append((acl.util.stop_thread(tid), done.is_set())))
    stopper.start()
    assert not stopped
    go.set()
    stopper.join(WAIT)
    assert stopped == [(0, True)]


class Own(Exception):
    pass


@pytest.mark.parametrize("raised", [ValueError("x"), Own(), KeyError("k"), SystemExit(1)], ids=repr)
def test_an_exception_comes_out_at_stop(raised: BaseException) -> None:
    def work() -> None:
        raise raised

    tid = ok(acl.util.start_thread(work, None))
    with pytest.raises(RuntimeError) as caught:
        acl.util.stop_thread(tid)
    assert str(caught.value) == f"exception={type(raised).__name__},msg=thread call failed;"


def test_a_wrong_number_of_arguments_comes_out_at_stop() -> None:
    tid = ok(acl.util.start_thread(lambda: None, [1]))
    with pytest.raises(RuntimeError, match=r"^exception=TypeError,msg=thread call failed;$"):
        acl.util.stop_thread(tid)


def test_ids_that_are_no_threads() -> None:
    tid = ok(acl.util.start_thread(lambda: None, None))
    ok(acl.util.stop_thread(tid))
    for nothing in (tid, 0, 12345, threading.get_ident()):
        assert in_thread(lambda nothing=nothing: acl.util.stop_thread(nothing)) != 0


def test_a_thread_cannot_stop_itself() -> None:
    codes: list[int] = []
    go = threading.Event()

    def work() -> None:
        assert go.wait(WAIT)
        codes.append(acl.util.stop_thread(threading.get_ident()))

    tid = ok(acl.util.start_thread(work, None))
    go.set()
    assert in_thread(lambda: acl.util.stop_thread(tid)) == 0
    assert codes == [100000]


def test_the_id_stays_taken_until_stop() -> None:
    """Another thread must not get the id of one that has ended but was not stopped."""
    tid = ok(acl.util.start_thread(lambda: None, None))
    for _ in range(50):
        other = threading.Thread(target=lambda: None)
        other.start()
        other.join(WAIT)
        assert other.ident != tid
    ok(acl.util.stop_thread(tid))


def test_a_new_thread_has_no_context() -> None:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    context = ok(acl.rt.get_context())
    answers: list[Any] = []

    def work(arguments: list[int]) -> None:
        answers.append(acl.rt.get_context())
        answers.append(acl.rt.set_context(arguments[0]))
        answers.append(acl.rt.get_context())

    ok(acl.util.stop_thread(ok(acl.util.start_thread(work, [context]))))
    assert answers == [(0, 107002), 0, (context, 0)]


def test_threads_that_nobody_stops_do_not_pile_up() -> None:
    before = len(os.listdir("/proc/self/task"))
    done = []
    for _ in range(600):
        ok(acl.util.start_thread(lambda: done.append(1), None))
    limit = before + 300
    gone = threading.Event()
    for _ in range(200):
        if len(done) == 600 and len(os.listdir("/proc/self/task")) <= limit:
            gone.set()
            break
        gone.wait(0.05)
        ok(acl.util.start_thread(lambda: None, None))
    assert gone.is_set()


def test_many_threads_at_once() -> None:
    seen: list[int] = []
    tids = [ok(acl.util.start_thread(seen.append, number)) for number in range(64)]
    assert len(set(tids)) == 64
    for tid in tids:
        ok(acl.util.stop_thread(tid))
    assert sorted(seen) == list(range(64))
