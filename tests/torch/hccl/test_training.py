"""DistributedDataParallel, SyncBatchNorm, fully_shard and DTensor over hccl, against one process with the whole batch."""

from __future__ import annotations

import pytest

from tests.torch.hccl.programs import launch

PROGRAM = "training.py"


@pytest.fixture(scope="module")
def pair() -> dict[str, list[str]]:
    return launch.checked(PROGRAM, 2)


@pytest.mark.parametrize("name", launch.names(PROGRAM))
def test_training_of_two_ranks(pair: dict[str, list[str]], name: str) -> None:
    launch.passed(pair, name, 2)


@pytest.mark.slow
def test_training_of_four_ranks() -> None:
    results = launch.checked(PROGRAM, 4)
    for name in launch.names(PROGRAM):
        launch.passed(results, name, 4)
