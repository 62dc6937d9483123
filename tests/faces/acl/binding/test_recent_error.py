"""get_recent_err_msg, peek_at_last_error, get_last_error."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acl
from tests.support import WAIT, in_thread, ok

pytestmark = pytest.mark.usefixtures("fresh")

FORM = re.compile(
    r"(?P<family>E[A-Z0-9]\d{4}): (?P<reason>.+)\n"
    r"\s+Solution: (?P<solution>.+)\n"
    r"\s+TraceBack \(most recent call last\): (?P<place>.+)"
)


def failed(call: Callable[[], Any], code: int) -> re.Match[str]:
    """Make one call fail and take its message."""
    assert acl.get_recent_err_msg() is None
    answer = call()
    assert (answer[-1] if isinstance(answer, tuple) else answer) == code
    text = acl.get_recent_err_msg()
    assert isinstance(text, str)
    match = FORM.fullmatch(text)
    assert match, text
    return match


def test_none_when_there_is_none() -> None:
    assert acl.get_recent_err_msg() is None
    ok(acl.init())
    ok(acl.rt.set_device(0))
    assert acl.get_recent_err_msg() is None


def test_a_message_has_place_reason_and_code() -> None:
    ok(acl.init())
    match = failed(lambda: acl.rt.set_device(99), 107001)
    assert "acl.rt.set_device" in match["reason"] and "99" in match["reason"] and "107001" in match["reason"]
    assert Path(__file__).name in match["place"]
    assert acl.get_recent_err_msg() is None, "taking it clears it"


# Families of error messages: EH is the interface layer, EE the runtime.
FAMILIES: dict[str, tuple[Callable[[], Any], int, tuple[str, ...]]] = {
    "bad parameter": (lambda: acl.rt.set_ts_device(9), 100000, ("EH0001", "EH0007", "EH0009", "EH0012")),
    "unreadable file": (lambda: acl.init("/no/such/file"), 100003, ("EH0003", "EH0004")),
    "runtime argument": (
        lambda: acl.rt.set_context(0x1234),
        107000,
        ("EE1001", "EE1003", "EE1011", "EE1012", "EE1017", "EE1022"),
    ),
    "out of memory": (lambda: acl.rt.malloc(-1, 0), 207001, ("EE1013", "EE1021", "EE1023")),
}


@pytest.mark.parametrize(("call", "code", "families"), FAMILIES.values(), ids=FAMILIES)
def test_a_message_belongs_to_the_family_of_its_code(
    call: Callable[[], Any], code: int, families: tuple[str, ...]
) -> None:
    if code != 100003:
        ok(acl.init())
        ok(acl.rt.set_device(0))
    assert failed(call, code)["family"] in families


def test_messages_accumulate_until_read() -> None:
    ok(acl.init())
    for device in (91, 92, 93):
        assert acl.rt.set_device(device) == 107001
    text = acl.get_recent_err_msg()
    assert [match["reason"].count(str(n)) > 0 for match, n in zip(FORM.finditer(text), (91, 92, 93), strict=True)] == [
        True
    ] * 3
    assert acl.get_recent_err_msg() is None


def test_an_endless_loop_of_failures_does_not_fill_the_memory() -> None:
    ok(acl.init())
    for device in range(5000):
        acl.rt.set_device(1000 + device)
    text = acl.get_recent_err_msg()
    assert "5999" in text, "the newest is kept"
    assert len(text) < 100_000


def test_success_and_type_errors_leave_no_message() -> None:
    ok(acl.init())
    assert acl.rt.set_device(99) == 107001
    ok(acl.rt.set_device(0))
    assert "99" in (acl.get_recent_err_msg() or ""), "a later success does not take it away"
    with pytest.raises(TypeError):
        acl.rt.set_device("0")
    assert acl.get_recent_err_msg() is None


def test_per_thread_by_default() -> None:
    ok(acl.init())

    def other() -> tuple[str | None, str | None]:
        before = acl.get_recent_err_msg()
        acl.rt.set_device(9292929)
        return before, acl.get_recent_err_msg()

    assert acl.rt.set_device(9191919) == 107001
    before, after = in_thread(other)
    assert before is None and after is not None and "9292929" in after and "9191919" not in after
    mine = acl.get_recent_err_msg()
    assert mine is not None and "9191919" in mine and "9292929" not in mine


def test_per_process_on_request(tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"err_msg_mode": "1"}))
    ok(acl.init(str(path)))
    assert acl.rt.set_device(9191919) == 107001
    in_thread(lambda: acl.rt.set_device(9292929))
    text = in_thread(acl.get_recent_err_msg)
    assert "9191919" in text and "9292929" in text
    assert acl.get_recent_err_msg() is None


def test_nothing_is_lost_between_threads(tmp_path: Path) -> None:
    path = tmp_path / "acl.json"
    path.write_text(json.dumps({"err_msg_mode": "1"}))
    ok(acl.init(str(path)))
    taken: list[str] = []
    done = threading.Event()

    def reader() -> None:
        while not done.is_set():
            text = acl.get_recent_err_msg() or ""
            taken.append(text)
            for _ in range(text.count("acl.rt.set_device failed")):
                room.release()

    def writer(first: int) -> None:
        for number in range(first, first + 100):
            assert room.acquire(timeout=WAIT)
            acl.rt.set_device(number)

    room = threading.Semaphore(8)  # so few wait at a time that none falls out of the kept ones
    threads = [threading.Thread(target=reader), *(threading.Thread(target=writer, args=(f,)) for f in (1000, 2000))]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join(WAIT)
    done.set()
    threads[0].join(WAIT)
    text = "\n".join([*taken, acl.get_recent_err_msg() or ""])
    ids = sorted(int(digits) for digits in re.findall(r"device id (\d+) ", text))
    assert ids == [*range(1000, 1100), *range(2000, 2100)], "none twice, none lost"


def test_an_asynchronous_failure_is_told_where_it_surfaces() -> None:
    ok(acl.init())
    ok(acl.rt.set_device(0))
    host = ok(acl.rt.malloc_host(64))
    ok(acl.rt.memcpy_async(host, 32, host + 32, 32, 0, 0))
    assert acl.get_recent_err_msg() is None
    assert acl.rt.synchronize_stream(0) != 0
    assert "acl.rt.synchronize_stream failed" in (acl.get_recent_err_msg() or "")


# ---- codes -------------------------------------------------------------------------------------------------------------


def test_each_thread_has_its_last_error() -> None:
    ok(acl.init())
    assert acl.rt.peek_at_last_error(0) == 0
    assert acl.rt.set_device(99) == 107001
    assert acl.rt.create_stream() == (0, 107002)
    assert [acl.rt.peek_at_last_error(0) for _ in range(3)] == [107002] * 3
    assert in_thread(lambda: acl.rt.peek_at_last_error(0)) == 0, "each thread has its own"
    assert acl.rt.get_last_error(0) == 107002
    assert acl.rt.get_last_error(0) == 0
    assert type(acl.rt.get_last_error(0)) is int


def test_reading_the_message_leaves_the_code() -> None:
    ok(acl.init())
    assert acl.rt.set_device(99) == 107001
    acl.get_recent_err_msg()
    assert acl.rt.get_last_error(0) == 107001
    assert acl.rt.set_device(99) == 107001
    assert acl.rt.get_last_error(0) == 107001
    assert acl.get_recent_err_msg() is not None


def test_an_unknown_level_is_told() -> None:
    assert acl.rt.peek_at_last_error(1) == 0
    assert "level" in (acl.get_recent_err_msg() or "")
