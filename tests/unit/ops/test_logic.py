"""Comparisons, choices and bits against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.ops.support import ODD, OTHER, RNG, WHOLE, Array, C, F, X, Y, compute, floats, run, same


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32])
def test_shifts_keep_the_sign(dtype: Any) -> None:
    low = -100 if np.issubdtype(dtype, np.signedinteger) else 0
    x, count = RNG.integers(low, 100, 20).astype(dtype), RNG.integers(0, 5, 20).astype(dtype)
    np.testing.assert_array_equal(run("LeftShift", [x, count])[0], np.left_shift(x, count))
    np.testing.assert_array_equal(run("RightShift", [x, count])[0], np.right_shift(x, count))


def test_bits() -> None:
    x, y = RNG.integers(-100, 100, 20, np.int32), RNG.integers(-100, 100, 20, np.int32)
    np.testing.assert_array_equal(run("BitwiseAnd", [x, y])[0], x & y)
    np.testing.assert_array_equal(run("BitwiseOr", [x, y])[0], x | y)
    np.testing.assert_array_equal(run("BitwiseXor", [x, y])[0], x ^ y)
    np.testing.assert_array_equal(run("Invert", [x])[0], ~x)


UNARY: dict[str, tuple[Array, Any]] = {
    "IsNan": (ODD, np.isnan),
    "IsInf": (ODD, np.isinf),
    "IsFinite": (ODD, np.isfinite),
    "LogicalNot": (X > 0, np.logical_not),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


BINARY: dict[str, tuple[Array, Array, Any]] = {
    "Greater": (WHOLE, OTHER, np.greater),
    "GreaterEqual": (WHOLE, OTHER, np.greater_equal),
    "Less": (X, Y, np.less),
    "LessEqual": (WHOLE, OTHER, np.less_equal),
    "Equal": (WHOLE, OTHER, np.equal),
    "NotEqual": (WHOLE, OTHER, np.not_equal),
    "LogicalAnd": (X > 0, Y > 0, np.logical_and),
    "LogicalOr": (X > 0, Y > 0, np.logical_or),
}


@pytest.mark.parametrize("kind", BINARY)
def test_binary(kind: str) -> None:
    x, y, formula = BINARY[kind]
    same(compute(kind, x, y), formula(x, y))


def test_comparisons_at_an_older_opset() -> None:
    same(compute("GreaterEqual", X, Y, opset=11), X >= Y)
    same(compute("LessEqual", X, Y, opset=11), X <= Y)


def test_choosing() -> None:
    other = floats(2, 3, 4)
    same(compute("Select", X > 0, X, other), np.where(X > 0, X, other))
    rows = np.array([True, False])
    same(compute("Select", rows, X, other), np.where(rows[:, None, None], X, other))
    same(compute("SelectV2", X[:, :, :1] > 0, X, C(0.0, F)), np.where(X[:, :, :1] > 0, X, F(0)))
    small = np.array([1, 2], np.int16)
    same(compute("SelectV2", rows, small, -small), np.where(rows, small, -small))
