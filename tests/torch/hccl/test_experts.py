"""Experts and products with exchanges, between two ranks."""

from __future__ import annotations

import pytest

from tests.torch.hccl.programs import launch

PROGRAMS = ("experts.py", "exchanges.py")


@pytest.fixture(scope="module", params=PROGRAMS)
def pair(request: pytest.FixtureRequest) -> tuple[str, dict[str, list[str]]]:
    return request.param, launch.checked(request.param, 2)


def test_programs_of_two_ranks(pair: tuple[str, dict[str, list[str]]]) -> None:
    program, results = pair
    for name in launch.names(program):
        launch.passed(results, name, 2)
