"""Ranks that die, differ or do not come: the others get an error that says so, and no rank hangs or is ended by a signal."""

from __future__ import annotations

import signal

import pytest

from tests.torch.hccl.programs import launch

PROGRAM = "failures.py"
PATIENCE = 120.0  # the group's timeout where the error must not wait for it


@pytest.mark.parametrize("way", ["kill_in_training", pytest.param("kill_before_receive", marks=pytest.mark.slow)])
def test_a_killed_rank_ends_the_others(way: str) -> None:
    first, second = launch.ranks(PROGRAM, 2, way, str(PATIENCE))
    assert second.code == -signal.SIGKILL
    assert first.code == 3 and first.seconds < PATIENCE / 2, first
    assert "DistBackendError HCCL" in first.output and "Rank 1 (process " in first.output
    assert ") has ended" in first.output and "ERR02200 DIST call hccl api failed" in first.output


@pytest.mark.slow
def test_a_killed_rank_ends_all_of_four() -> None:
    *others, last = launch.ranks(PROGRAM, 4, "kill", str(PATIENCE))
    assert last.code == -signal.SIGKILL
    assert all(one.code == 3 and "has ended" in one.output and one.seconds < PATIENCE / 2 for one in others), others


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "dead"),
    [("kill_in_a_large_broadcast", 0), ("kill_in_a_transfer", 0), ("kill_in_a_barrier", 1), ("kill_between", 1)],
)
def test_a_rank_killed_at_another_moment(way: str, dead: int) -> None:
    ended = launch.ranks(PROGRAM, 2, way, str(PATIENCE))
    assert ended[dead].code == -signal.SIGKILL
    other = ended[1 - dead]
    assert other.code == 3 and other.seconds < PATIENCE / 2, other
    assert "DistBackendError HCCL" in other.output and f"Rank {dead} (process " in other.output, other.output
    assert ") has ended" in other.output and f"RankID:{1 - dead}) ERR02200" in other.output, other.output


@pytest.mark.slow
def test_a_program_that_fails_does_not_wait_for_its_works() -> None:
    first, second = launch.ranks(PROGRAM, 2, "leave_with_works_under_way", str(PATIENCE))
    assert first.code == 3 and "ValueError of the program" in first.output and second.code == 0
    assert first.seconds < PATIENCE / 2


@pytest.mark.slow
def test_a_device_belongs_to_one_rank_in_chip_mode() -> None:
    for ended in launch.ranks(PROGRAM, 2, "one_device", str(PATIENCE)):
        assert ended.code == 0 and "[2.0, 2.0, 2.0, 2.0]" in ended.output, ended
    for ended in launch.ranks(PROGRAM, 2, "one_device", str(PATIENCE), SOFTNPU_TORCH="chip", SOFTNPU_SOC="Ascend910B"):
        assert ended.code == 3 and "both use device 0" in ended.output and ended.seconds < PATIENCE / 2, ended


@pytest.fixture(scope="module")
def mismatches() -> dict[str, list[str]]:
    return launch.checked("mismatches.py", 2)


@pytest.mark.parametrize("name", launch.names("mismatches.py"))
def test_ranks_that_differ_are_told(mismatches: dict[str, list[str]], name: str) -> None:
    launch.passed(mismatches, name, 2)


def test_a_rank_that_does_not_come_is_named_after_the_timeout() -> None:
    first, _ = launch.ranks(PROGRAM, 2, "late", "2")
    assert first.code == 3
    assert "Timed out waiting 2000ms" in first.output and "Rank 1 has called nothing yet" in first.output
    assert "ERR02011 DIST timeout error" in first.output
