"""Collectives of the backend hccl between processes, against the same arithmetic on the CPU."""

from __future__ import annotations

import pytest

from tests.torch.hccl.programs import launch

PROGRAM = "collectives.py"


@pytest.fixture(scope="module")
def pair() -> dict[str, list[str]]:
    return launch.checked(PROGRAM, 2)


@pytest.mark.parametrize("name", launch.names(PROGRAM))
def test_collective_of_two_ranks(pair: dict[str, list[str]], name: str) -> None:
    launch.passed(pair, name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 8])
def test_collectives_of_more_ranks(size: int) -> None:
    results = launch.checked(PROGRAM, size)
    for name in launch.names(PROGRAM):
        launch.passed(results, name, size)


def test_a_thousand_collectives_leave_nothing() -> None:
    results = launch.checked("leaks.py", 2)
    for name in launch.names("leaks.py"):
        launch.passed(results, name, 2)


@pytest.mark.slow
def test_chip_mode_refuses_the_dtypes_that_the_chip_does() -> None:
    results = launch.checked("chip.py", 2, SOFTNPU_TORCH="chip", SOFTNPU_SOC="Ascend910B")
    for name in launch.names("chip.py"):
        launch.passed(results, name, 2)
