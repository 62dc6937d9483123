"""Constants and ranges against NumPy; random numbers by their distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.ops.support import ODD, Array, C, Const, F, compute, run, same


def test_random_numbers_have_their_distribution() -> None:
    shape = Const(np.array([200, 100], np.int32))
    normal = run("RandomStandardNormal", [shape], dtype=0, seed=3)[0]
    assert abs(float(normal.mean())) < 0.05
    assert abs(float(normal.std()) - 1) < 0.05
    uniform = run("RandomUniform", [shape], dtype=1, seed=3)[0]
    assert uniform.dtype == np.float16
    assert uniform.min() >= 0 and uniform.max() <= 1 and abs(float(uniform.astype(np.float32).mean()) - 0.5) < 0.02
    whole = run("RandomUniformInt", [shape, np.array(-3, np.int32), np.array(5, np.int32)], seed=3)[0]
    assert set(np.unique(whole)) == set(range(-3, 5))
    chance = np.full((100, 100), 0.3, np.float32)
    seed, offset = np.array([5], np.int64), np.array([0], np.int64)
    first = run("StatelessBernoulliV2", [chance, seed, offset], dtype=12)[0]
    assert abs(first.mean() - 0.3) < 0.02
    np.testing.assert_array_equal(first, run("StatelessBernoulliV2", [chance, seed, offset], dtype=12)[0])
    drawn = run("Multinomial", [np.log(np.array([[0.25, 0.75]], np.float32)), Const(np.int32(4000))], dtype=3, seed=3)[
        0
    ]
    assert abs(float(drawn.mean()) - 0.75) < 0.05


UNARY: dict[str, tuple[Array, Any]] = {
    "ZerosLike": (ODD, np.zeros_like),
    "OnesLike": (ODD, np.ones_like),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


def test_constants_and_ranges() -> None:
    same(compute("Fill", C([2, 3]), C(1.5, F)), np.full((2, 3), 1.5, F))
    same(compute("Fill", np.array([2, 3], np.int32), np.array([7], np.int32)), np.full((2, 3), 7, np.int32))
    same(compute("Range", C(2), C(11), C(3)), np.arange(2, 11, 3, np.int32))
    same(compute("Range", np.array(0.5, F), np.array(2, F), np.array([0.5], F)), np.arange(0.5, 2, 0.5, F))
    same(compute("RangeD", np.zeros(4, F), start=1.0, limit=3.0, delta=0.5), np.arange(1, 3, 0.5, F))
