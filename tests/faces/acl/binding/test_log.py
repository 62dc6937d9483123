"""The log: plog form, levels, where it goes."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import acl
from softnpu.base import log as module
from softnpu.base.log import DEBUG, ERROR, EVENT, INFO, WARNING, Log
from tests.support import WAIT, in_thread, ok

pytestmark = pytest.mark.usefixtures("fresh")

LINE = re.compile(
    r"\[(?P<level>DEBUG|INFO|WARNING|ERROR|EVENT)\] (?P<module>[A-Z]+)\((?P<pid>\d+),(?P<process>[^()]+)\):"
    r"(?P<time>\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3}) "
    r"\[(?P<file>[^\[\]:]+):(?P<line>\d+)\](?P<tid>\d+) (?P<function>\S+): (?P<text>.*)"
)


def lines(folder: Path) -> list[re.Match[str]]:
    """All lines below a log directory, each checked against the form."""
    matches = []
    for path in sorted(folder.glob("debug/plog/plog-*.log")):
        for line in path.read_text(encoding="utf-8").splitlines():
            match = LINE.fullmatch(line)
            assert match, line
            matches.append(match)
    return matches


def home(tmp_path: Path) -> Path:
    return tmp_path / "ascend" / "log"


# ---- form --------------------------------------------------------------------------------------------------------------


def test_form_of_a_line(tmp_path: Path) -> None:
    acl.app_log(ERROR, "something is wrong")
    (line,) = lines(home(tmp_path))
    assert (line["level"], line["module"], line["text"]) == ("ERROR", "APP", "something is wrong")
    assert int(line["pid"]) == os.getpid() and int(line["tid"]) == threading.get_native_id()
    assert (line["file"], line["function"]) == (Path(__file__).name, "test_form_of_a_line")


def test_name_of_the_file(tmp_path: Path) -> None:
    acl.app_log(ERROR, "x")
    (path,) = tmp_path.rglob("*.log")
    assert path.parent == home(tmp_path) / "debug" / "plog"
    assert re.fullmatch(rf"plog-{os.getpid()}_\d{{17}}\.log", path.name)


def test_one_event_is_one_line(tmp_path: Path) -> None:
    acl.app_log(ERROR, "first\nsecond\r\n[ERROR] APP(1,x):forged")
    acl.app_log(ERROR, "非 ASCII \x1b[31m")
    assert len(lines(home(tmp_path))) == 2


def test_a_failed_call_is_an_error_line(tmp_path: Path) -> None:
    ok(acl.init())
    assert acl.rt.set_device(99) == 107001
    (line,) = lines(home(tmp_path))
    assert (line["level"], line["module"], line["function"]) == ("ERROR", "ASCENDCL", "acl.rt.set_device")
    assert "107001" in line["text"] and "99" in line["text"]


def test_what_a_waiting_thread_hears_all_day_is_no_error_line(tmp_path: Path) -> None:
    ok(acl.init())
    assert acl.rt.process_report(1) == 107012
    assert lines(home(tmp_path)) == []


# ---- levels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "seen"),
    [
        (None, ["ERROR"]),
        ("0", ["DEBUG", "INFO", "WARNING", "ERROR"]),
        ("1", ["INFO", "WARNING", "ERROR"]),
        ("2", ["WARNING", "ERROR"]),
        ("3", ["ERROR"]),
        ("4", []),
        ("9", ["ERROR"]),
        ("verbose", ["ERROR"]),
        ("-1", ["ERROR"]),
        ("²", ["ERROR"]),
    ],
)
def test_the_level_chooses_the_lines(
    setting: str | None, seen: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting is not None:
        monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", setting)
    ok(acl.init())
    for level in (DEBUG, INFO, WARNING, ERROR):
        assert acl.app_log(level, "text") is None
    assert [line["level"] for line in lines(home(tmp_path)) if line["module"] == "APP"] == seen
    if not seen:
        assert list(tmp_path.rglob("*.log")) == [], "nothing is written, not even a file"


def test_levels_of_app_log(tmp_path: Path) -> None:
    for level in (-1, 4, 99):
        assert acl.app_log(level, "never written") is None
        assert "level" in (acl.get_recent_err_msg() or "")
    assert not any("never written" in line["text"] for line in lines(home(tmp_path)))


@pytest.mark.parametrize(
    ("setting", "app", "ascendcl"),
    [
        ("APP=0", 4, 1),
        ("ASCENDCL=4", 1, 0),
        ("APP=2:ASCENDCL=4", 2, 0),
        ("app=1", 3, 1),
        ("APP=7", 1, 1),
        ("APP", 1, 1),
        (":::=:APP=0=1", 1, 1),
    ],
)
def test_modules_have_levels_of_their_own(
    setting: str, app: int, ascendcl: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASCEND_MODULE_LOG_LEVEL", setting)
    ok(acl.init())
    for level in (DEBUG, INFO, WARNING, ERROR):
        acl.app_log(level, "text")
    assert acl.rt.set_device(99) == 107001
    modules = [line["module"] for line in lines(home(tmp_path))]
    assert (modules.count("APP"), modules.count("ASCENDCL")) == (app, ascendcl)


@pytest.mark.parametrize(("setting", "seen"), [(None, 1), ("1", 1), ("0", 0)])
def test_events_can_be_switched_off(
    setting: str | None, seen: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting is not None:
        monkeypatch.setenv("ASCEND_GLOBAL_EVENT_ENABLE", setting)
    Log().write(EVENT, "device opened")
    assert [line["level"] for line in lines(home(tmp_path))] == ["EVENT"] * seen


def test_init_reads_the_environment_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acl.app_log(INFO, "not yet")
    monkeypatch.setenv("ASCEND_GLOBAL_LOG_LEVEL", "1")
    ok(acl.init())
    acl.app_log(INFO, "now")
    assert [line["text"] for line in lines(home(tmp_path)) if line["module"] == "APP"] == ["now"]


# ---- where -------------------------------------------------------------------------------------------------------------


def test_directories_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        ({}, home(tmp_path)),
        ({"ASCEND_WORK_PATH": str(tmp_path / "work")}, tmp_path / "work" / "log"),
        ({"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "own")}, tmp_path / "own"),
    ]
    for settings, folder in steps:  # each is added to those before
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        ok(acl.init())
        acl.app_log(ERROR, folder.name)
        assert [line["text"] for line in lines(folder)] == [folder.name]
        ok(acl.finalize())


@pytest.mark.parametrize("name", ["ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT", "SLOG_PRINT_TO_STDOUT"])
def test_the_log_goes_to_standard_output_when_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    ok(acl.init())
    acl.app_log(ERROR, "to be seen")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 and LINE.fullmatch(printed[0])
    assert printed[0].endswith("to be seen")
    assert list(tmp_path.rglob("*.log")) == [], "then nothing goes to files"


@pytest.mark.parametrize("value", ["0", "", "2", "yes"])
def test_standard_output_is_off(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", value)
    ok(acl.init())
    acl.app_log(ERROR, "to a file")
    assert capsys.readouterr().out == ""
    assert len(lines(home(tmp_path))) == 1


def test_the_newest_spelling_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_LOG_PRINT_TO_STDOUT", "0")
    monkeypatch.setenv("SLOG_PRINT_TO_STDOUT", "1")
    ok(acl.init())
    acl.app_log(ERROR, "to a file")
    assert capsys.readouterr().out == "" and len(lines(home(tmp_path))) == 1


class Failing(io.StringIO):
    """A standard output of the program that cannot be written."""

    def write(self, text: str) -> int:
        raise RuntimeError("no")


@pytest.mark.parametrize("stdout", [None, Failing(), 5], ids=["none", "failing", "no stream"])
def test_standard_output_that_cannot_be_written(stdout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    ok(acl.init())
    monkeypatch.setattr(sys, "stdout", stdout)
    acl.app_log(ERROR, "lost")
    assert acl.rt.set_device(99) == 107001


def test_standard_output_of_few_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    ok(acl.init())
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    acl.app_log(ERROR, "设备")
    assert rb"\u8bbe\u5907" in raw.getvalue()


def test_no_lock_is_held_while_the_programs_output_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's own stream may wait for a thread that logs itself."""
    monkeypatch.setenv("ASCEND_SLOG_PRINT_TO_STDOUT", "1")
    ok(acl.init())
    written: list[str] = []

    class Waiting(io.StringIO):
        def write(self, text: str) -> int:
            if "outer" in text:
                in_thread(lambda: acl.app_log(ERROR, "inner"), limit=WAIT)
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Waiting())
    in_thread(lambda: acl.app_log(ERROR, "outer"))
    assert [("inner" in text, "outer" in text) for text in written] == [(True, False), (False, True)]


def test_a_directory_that_cannot_be_written_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "file" / "log"))
    ok(acl.init())
    for _ in range(3):
        acl.app_log(ERROR, "lost")
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path / "file" / "log") in said, "once, with the directory"
    assert acl.rt.set_device(99) == 107001


# ---- files -------------------------------------------------------------------------------------------------------------


def test_files_have_a_limit_and_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._FILE_LIMIT == 20_000_000
    monkeypatch.setattr(module, "_FILE_LIMIT", 2000)
    monkeypatch.setenv("ASCEND_HOST_LOG_FILE_NUM", "3")
    ok(acl.init())
    foreign = home(tmp_path) / "debug" / "plog" / "plog-1_20200101000000000.log"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("")
    for number in range(100):
        acl.app_log(ERROR, f"line {number:03d}")
    paths = sorted(foreign.parent.glob(f"plog-{os.getpid()}_*.log"))
    assert len(paths) == 3
    assert all(path.stat().st_size <= 2000 for path in paths)
    assert foreign.exists(), "files of other processes stay"
    kept = [line["text"] for line in lines(home(tmp_path))]
    assert kept == [f"line {number:03d}" for number in range(100 - len(kept), 100)], (
        "the newest, in order, none missing"
    )


def test_a_line_longer_than_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FILE_LIMIT", 100)
    for text in ("x" * 500, "y" * 500):
        acl.app_log(ERROR, text)
    assert [line["text"][0] for line in lines(home(tmp_path))] == ["x", "y"]


def test_threads_do_not_mix_their_lines(tmp_path: Path) -> None:
    def work(name: str) -> None:
        for number in range(100):
            acl.app_log(ERROR, f"{name} {number} " + name * 200)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    written = lines(home(tmp_path))
    assert len(written) == 400
    for name in "abcd":
        own = [line["text"].split()[1] for line in written if line["text"].startswith(name)]
        assert own == [str(number) for number in range(100)]


def test_a_forked_child_writes_its_own_file(tmp_path: Path) -> None:
    program = """
import acl, os
acl.app_log(3, "parent")
child = os.fork()
acl.app_log(3, "child" if child == 0 else "parent again")
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    env = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=60)
    by_pid: dict[str, list[str]] = {}
    for line in lines(home(tmp_path)):
        by_pid.setdefault(line["pid"], []).append(line["text"])
    assert sorted(by_pid.values()) == [["child"], ["parent", "parent again"]]
    for path in tmp_path.rglob("plog-*.log"):
        pid = path.name.removeprefix("plog-").split("_")[0]
        assert {LINE.fullmatch(text)["pid"] for text in path.read_text().splitlines()} == {pid}  # type: ignore[index]
