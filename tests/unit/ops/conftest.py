"""Every test of operators draws the same random numbers, whatever ran before it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.ops.support import RNG


@pytest.fixture(autouse=True)
def fresh_numbers() -> None:
    RNG.bit_generator.state = np.random.default_rng(11).bit_generator.state
