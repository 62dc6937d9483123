"""What scripts put on top of hccl: resumed and joined training, sharding old and new, pipelines, parts of groups, groups made again."""

from __future__ import annotations

import pytest

from tests.torch.hccl.programs import launch

PROGRAM = "wrappers.py"


@pytest.fixture(scope="module")
def pair() -> dict[str, list[str]]:
    return launch.checked(PROGRAM, 2)


@pytest.mark.parametrize("name", launch.names(PROGRAM))
def test_wrapper_of_two_ranks(pair: dict[str, list[str]], name: str) -> None:
    launch.passed(pair, name, 2)


@pytest.mark.slow
def test_wrappers_of_four_ranks() -> None:
    results = launch.checked(PROGRAM, 4)
    for name in launch.names(PROGRAM):
        launch.passed(results, name, 4)
