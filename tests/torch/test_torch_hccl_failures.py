"""Ranks that die, differ or do not come: the others get an error that says so, and no rank hangs or is ended by a signal."""

from __future__ import annotations

import signal

import pytest
from hccl_programs import launch

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


@pytest.mark.parametrize(
    ("way", "one", "other"),
    [
        ("sizes", "allreduce of 4 Float, SUM", "allreduce of 1004 Float, SUM"),
        pytest.param("kinds", "broadcast of 16 bytes from rank 0", "allreduce of 4 Float, SUM", marks=pytest.mark.slow),
        pytest.param("dtypes", "allreduce of 4 Float, SUM", "allreduce of 4 Int, SUM", marks=pytest.mark.slow),
    ],
)
def test_collectives_that_differ_are_refused(way: str, one: str, other: str) -> None:
    both = launch.ranks(PROGRAM, 2, way, str(PATIENCE))
    for ended in both:
        assert ended.code == 3 and ended.seconds < PATIENCE / 2, ended
        assert "collective 1" in ended.output and "ERR02" in ended.output
    texts = "".join(ended.output for ended in both)
    assert "does not match" in texts and one in texts and other in texts, texts


def test_a_rank_that_does_not_come_is_named_after_the_timeout() -> None:
    first, _ = launch.ranks(PROGRAM, 2, "late", "2")
    assert first.code == 3
    assert "Timed out waiting 2000ms" in first.output and "Rank 1 has called nothing yet" in first.output
    assert "ERR02011 DIST timeout error" in first.output
