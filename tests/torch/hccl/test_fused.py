"""Matrix products fused with a collective, between two ranks."""

from __future__ import annotations

import pytest

from tests.torch.hccl.programs import launch

PROGRAM = "fused.py"


@pytest.fixture(scope="module")
def pair() -> dict[str, list[str]]:
    return launch.checked(PROGRAM, 2)


@pytest.mark.parametrize("name", launch.names(PROGRAM))
def test_product_of_two_ranks(pair: dict[str, list[str]], name: str) -> None:
    launch.passed(pair, name, 2)
