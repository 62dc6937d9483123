"""The board: what one process writes is what another reads, whatever else lies in the directory."""

from __future__ import annotations

import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
import timeit
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from softnpu.runtime.board import Board, DeviceUse, read, read_all, used_by_others
from tests.paths import SOURCE
from tests.waiting import eventually, process_state

CHILD = """
import sys, time
from pathlib import Path
from softnpu.runtime.board import Board
board = Board.open(Path(sys.argv[1]), [0, 3])
board.set_open(1, True)
board.set_memory(1, 123 << 20)
board.task_started(1)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    opened = Board.open(tmp_path, [0, 1])
    yield opened
    opened.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with 123 MB on device 3, in the middle of a task."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def forge(source: Path, target: Path, **changes: int) -> Path:
    """A copy of a sound board file with other header values and a correct checksum."""
    content = bytearray(source.read_bytes())
    for name, value in changes.items():
        at = {"version": 8, "pid": 16, "start_time": 24, "slots": 48, "boot": 56, "namespace": 64}[name]
        struct.pack_into("=Q", content, at, value)
    struct.pack_into("=Q", content, 72, zlib.crc32(content[:72]))
    target.write_bytes(content)
    return target


def own_start_time() -> int:
    return int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])


def test_what_is_written_is_read(board: Board, tmp_path: Path) -> None:
    board.set_open(1, True)
    board.set_memory(1, 700)
    board.set_memory(1, 300)
    board.set_counts(1, contexts=2, streams=5)
    board.set_counts(1, streams=6)
    board.add_busy(1, 1000)
    board.add_busy(1, 500, tasks=3)
    (use,) = read_all(tmp_path)
    assert (use.pid, use.start_time) == (os.getpid(), own_start_time())
    assert use.name == Path("/proc/self/comm").read_text().rstrip("\n")
    assert use.path == board.path == tmp_path / f"{os.getpid()}-{own_start_time()}.board"
    assert use.devices[0] == DeviceUse(0, False, 0, 0, 0, 0, 0, 0, 0)
    assert use.devices[1] == DeviceUse(1, True, 300, 700, 6, 2, 1500, 4, 0)


def test_devices_carry_their_physical_ids(tmp_path: Path) -> None:
    board = Board.open(tmp_path, [5, 2, 15])
    assert [use.device for use in read_all(tmp_path)[0].devices] == [5, 2, 15]
    board.close()


def test_more_devices_than_slots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="16 device slots, 17 devices"):
        Board.open(tmp_path, range(17))


def test_the_file_is_private(tmp_path: Path) -> None:
    board = Board.open(tmp_path / "new" / "folder", [0])
    assert board.path is not None
    assert stat.S_IMODE(board.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(board.path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in board.path.parent.iterdir()] == [board.path.name]
    board.close()


def test_close_withdraws_and_stays_harmless(board: Board, tmp_path: Path) -> None:
    board.task_started(0)
    board.close()
    board.set_memory(0, 1)
    board.task_ended(0)
    board.close()
    assert list(tmp_path.iterdir()) == []
    assert not board.shared


def test_a_second_board_of_the_process_survives_the_first(board: Board, tmp_path: Path) -> None:
    second = Board.open(tmp_path, [0, 1])
    second.set_memory(0, 42)
    board.close()
    assert read_all(tmp_path)[0].devices[0].used == 42
    second.close()


@pytest.mark.parametrize("directory", ["a file is in the way", "/proc/softnpu"])
def test_an_unwritable_directory_is_not_an_error(directory: str, tmp_path: Path) -> None:
    (tmp_path / directory.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "a file is in the way").write_text("")
    board = Board.open(Path(directory) if directory.startswith("/") else tmp_path / directory, [0])
    assert not board.shared and board.path is None and board.owned()
    board.set_memory(0, 1 << 40)
    board.task_started(0)
    board.task_ended(0)
    board.close()


def test_overlapping_tasks_count_once(board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100, 130, 180])
    monkeypatch.setattr("softnpu.runtime.board.time.monotonic_ns", lambda: next(clock))
    board.task_started(0)
    board.task_started(0)
    board.task_ended(0)
    during = read_all(tmp_path)[0].devices[0]
    assert board.busy_ns(0) == 30
    board.task_ended(0)
    after = read_all(tmp_path)[0].devices[0]
    assert (during.running_since, during.busy_ns, during.tasks) == (100, 0, 1)
    assert (after.running_since, after.busy_ns, after.tasks) == (0, 80, 2)
    assert board.busy_ns(0) == 80


def test_running_since_is_on_the_clock_of_every_process(child: subprocess.Popen[str], tmp_path: Path) -> None:
    (use,) = read_all(tmp_path)
    assert 0 < time.monotonic_ns() - use.devices[1].running_since < 60 * 10**9


def test_many_streams_lose_no_task(board: Board, tmp_path: Path) -> None:
    def work() -> None:
        for _ in range(2000):
            board.task_started(0)
            board.task_ended(0)
            board.add_busy(0, 0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    device = read_all(tmp_path)[0].devices[0]
    assert (device.tasks, device.running_since) == (16000, 0)


def test_publishing_memory_is_cheap(board: Board) -> None:
    times = timeit.repeat(lambda: board.set_memory(0, 4096), number=2000, repeat=20)
    assert min(times) / 2000 < 1e-6, "malloc and free call this every time"


def test_a_living_process_is_seen_from_outside(child: subprocess.Popen[str], tmp_path: Path) -> None:
    (use,) = read_all(tmp_path)
    assert use.pid == child.pid
    assert [(device.device, device.open, device.used) for device in use.devices] == [
        (0, False, 0),
        (3, True, 123 << 20),
    ]


def test_memory_of_others_leaves_ourselves_out(
    child: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Board.open(tmp_path, [3])
    own.set_memory(0, 5 << 20)
    assert used_by_others(3, tmp_path) == 123 << 20
    assert used_by_others(0, tmp_path) == 0
    monkeypatch.setenv("SOFTNPU_RUNTIME_DIR", str(tmp_path))
    assert used_by_others(3) == 123 << 20
    own.close()


def test_a_killed_process_leaves_its_numbers_and_then_disappears(child: subprocess.Popen[str], tmp_path: Path) -> None:
    (path,) = tmp_path.iterdir()
    child.send_signal(signal.SIGKILL)
    child.wait()
    left = read(path)
    assert left is not None and left.pid == child.pid and left.devices[1].used == 123 << 20
    assert read_all(tmp_path) == []
    assert not path.exists()


def test_a_zombie_is_dead(child: subprocess.Popen[str], tmp_path: Path) -> None:
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(lambda: process_state(child.pid) == "Z", 5)
    assert read_all(tmp_path) == []


def test_a_reused_pid_is_noticed(board: Board, tmp_path: Path) -> None:
    assert board.path is not None
    stale = forge(board.path, tmp_path / f"{os.getpid()}-7.board", start_time=7)
    assert [use.path for use in read_all(tmp_path)] == [board.path]
    assert not stale.exists()


def test_a_new_board_clears_away_the_dead(board: Board, tmp_path: Path) -> None:
    assert board.path is not None
    stale = forge(board.path, tmp_path / f"{os.getpid()}-7.board", start_time=7)
    Board.open(tmp_path, [0]).close()
    assert not stale.exists()


@pytest.mark.parametrize("change", [{"namespace": 1}, {"boot": 1}])
def test_files_of_another_host_or_container_are_left_alone(
    board: Board, tmp_path: Path, change: dict[str, int]
) -> None:
    assert board.path is not None
    other = forge(board.path, tmp_path / "99999-7.board", pid=99999, start_time=7, **change)
    assert [use.path for use in read_all(tmp_path)] == [board.path]
    assert other.exists()


def test_leftovers_of_a_killed_start_are_removed_when_old(tmp_path: Path) -> None:
    old, fresh = tmp_path / f".{os.getpid()}-7.part", tmp_path / f".{os.getpid()}-8.part"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    assert read_all(tmp_path) == []
    assert not old.exists() and fresh.exists()


def test_hostile_files_are_ignored(board: Board, tmp_path: Path) -> None:
    assert board.path is not None
    sound = board.path.read_bytes()
    start = own_start_time()

    def name(number: int) -> Path:
        return tmp_path / f"{number}-{start}.board"

    name(1).write_bytes(b"")
    name(2).write_bytes(sound[:100])
    name(3).write_bytes(sound + b"\0")
    name(4).write_bytes(os.urandom(4096))
    name(5).write_bytes(bytes(4096))
    name(6).symlink_to(board.path)
    name(7).mkdir()
    os.mkfifo(name(8))
    with name(9).open("wb") as huge:
        huge.truncate(1 << 40)
    name(10).write_bytes(sound)  # sound, but under the name of another process
    name(11).symlink_to("/dev/zero")
    (tmp_path / "readme.board").write_bytes(sound)
    (tmp_path / "99999999999999999999999-1.board").write_bytes(sound)
    before = sorted(tmp_path.iterdir())
    assert [use.path for use in read_all(tmp_path)] == [board.path]
    assert sorted(tmp_path.iterdir()) == before, "what is not ours is not removed either"


def test_a_link_to_a_sound_board_is_not_followed(board: Board, tmp_path: Path) -> None:
    assert board.path is not None
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / board.path.name).symlink_to(board.path)
    assert read_all(tmp_path / "other") == []


@pytest.mark.parametrize(("at", "what"), [(4096, b"\0"), (32, b"other")])
def test_a_sound_board_that_grew_or_was_changed_is_ignored(board: Board, tmp_path: Path, at: int, what: bytes) -> None:
    assert board.path is not None
    with board.path.open("r+b") as file:
        file.seek(at)
        file.write(what)
    assert read_all(tmp_path) == []
    assert board.path.exists()


@pytest.mark.parametrize("change", [{"version": 2}, {"slots": 17}])
def test_a_header_that_we_do_not_understand_is_ignored(board: Board, tmp_path: Path, change: dict[str, int]) -> None:
    assert board.path is not None
    forge(board.path, board.path, **change)
    assert read_all(tmp_path) == []
    assert board.path.exists()


@pytest.mark.parametrize("at", [8 * 17, 8 * 18])
def test_an_impossible_slot_is_ignored(board: Board, tmp_path: Path, at: int) -> None:
    assert board.path is not None
    with board.path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 8)
    assert read_all(tmp_path) == []


def test_a_missing_directory_is_empty(tmp_path: Path) -> None:
    assert read_all(tmp_path / "none") == []


def test_a_name_cannot_reach_the_terminal(tmp_path: Path) -> None:
    original = Path("/proc/self/comm").read_text()
    board = Board.open(tmp_path, [0])
    try:
        Path("/proc/self/comm").write_text("a) \x1b[2J (b")
        assert read_all(tmp_path)[0].name == "a) ?[2J (b"
    finally:
        Path("/proc/self/comm").write_text(original)
        board.close()


def test_a_forked_child_does_not_write_into_its_parents_file(board: Board, tmp_path: Path) -> None:
    board.set_memory(0, 1000)
    board.task_started(0)
    since = read_all(tmp_path)[0].devices[0].running_since
    child = os.fork()
    if child == 0:
        code = 1
        try:
            board.set_memory(0, 5)
            board.task_ended(0)
            if not board.owned() and not board.shared:
                own = Board.open(tmp_path, [0])
                code = 0 if len(read_all(tmp_path)) == 2 else 2
                own.close()
            board.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (use,) = read_all(tmp_path)
    assert use.pid == os.getpid() and board.owned() and board.shared
    assert (use.devices[0].used, use.devices[0].running_since, use.devices[0].tasks) == (1000, since, 0)
