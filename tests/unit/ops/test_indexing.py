"""Gathering and scattering against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.ops.support import RNG, Array, C, F, X, close, compute, floats, run, same


def test_picking_and_scattering() -> None:
    data, index = floats(4, 5), RNG.integers(0, 4, (2, 5), np.int32)
    close(run("GatherElements", [data, index])[0], np.take_along_axis(data, index, 0))
    places, rows = np.array([[1], [3]], np.int32), floats(2, 5)
    expected = data.copy()
    expected[[1, 3]] = rows
    for type_ in ("ScatterNdUpdate", "TensorScatterUpdate"):
        close(run(type_, [data, places, rows])[0], expected)
    expected = data.copy()
    expected[[1, 3]] += rows
    close(run("ScatterNdAdd", [data, places, rows])[0], expected)
    close(
        run("ScatterNdMax", [data, places, rows])[0],
        np.vstack([data[0], np.maximum(data[1], rows[0]), data[2], np.maximum(data[3], rows[1])]),
    )
    close(
        run("ScatterNdMin", [data, places, rows])[0],
        np.vstack([data[0], np.minimum(data[1], rows[0]), data[2], np.minimum(data[3], rows[1])]),
    )
    spots = np.stack([RNG.permutation(5)[:2] for _ in range(4)]).astype(np.int64)
    updates, expected = floats(4, 2), data.copy()
    np.put_along_axis(expected, spots, updates, 1)
    close(run("ScatterElements", [data, spots, updates], axis=1)[0], expected)


def test_what_is_not_zero_and_what_is_unique() -> None:
    x = np.array([[0, 1.5], [2.0, 0]], np.float32)
    np.testing.assert_array_equal(run("NonZero", [x])[0], np.argwhere(x))
    np.testing.assert_array_equal(run("NonZero", [x], transpose=True)[0], np.array(np.nonzero(x)))
    assert run("NonZero", [x], dtype=3)[0].dtype == np.int32
    values = np.array([[3, 1], [3, 2]], np.int64)
    y, place, count = run("UniqueWithCountsAndSorting", [values], outputs=3)
    expected = np.unique(values, return_inverse=True, return_counts=True)
    for found, wanted in zip(
        (y, place.reshape(-1), count), (expected[0], expected[1].reshape(-1), expected[2]), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


UNARY: dict[str, tuple[Array, Any]] = {
    "InvertPermutation": (np.array([3, 0, 2, 1], np.int32), lambda x: np.argsort(x).astype(np.int32)),
    "Where": (X > 0.5, np.argwhere),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


def test_gathering() -> None:
    index = np.array([[2, 0], [1, 1]], np.int32)
    same(compute("GatherV2", X, index, C(1)), np.take(X, index, 1))
    same(compute("GatherV2D", X, index, axis=-1), np.take(X, index, 2))
    same(compute("Gather", X, np.array([1], np.int64)), X[[1]])
    same(compute("GatherNd", X, np.array([[0, 2], [1, 0]], np.int32)), X[[0, 1], [2, 0]])
    wanted = np.stack([np.take(X[row], index[row], 0) for row in range(2)])
    same(compute("GatherV2", X, index, C(1), batch_dims=1), wanted)
    same(compute("Gather", X, index, batch_dims=1), wanted)
    wanted = np.stack([np.take(X[row], index[row], 1) for row in range(2)])
    same(compute("GatherV2", X, index, C(2), batch_dims=1), wanted)
    same(compute("GatherV2D", X, index, axis=-1, batch_dims=-1), wanted)
    deep = RNG.integers(0, 4, (2, 3, 2, 5)).astype(np.int32)
    wanted = np.stack([np.stack([X[a, b][deep[a, b]] for b in range(3)]) for a in range(2)])
    same(compute("GatherV2", X, deep, C(2), batch_dims=2), wanted)


def test_one_hot_rows() -> None:
    indices = np.array([[0, 2], [-1, 3]], np.int32)
    row = np.eye(3, dtype=F)
    wanted = np.stack([np.stack([row[0], row[2]]), np.zeros((2, 3), F)]) * 4 + 1
    same(compute("OneHot", indices, C(3), C(5.0, F), C(1.0, F)), wanted)
    same(compute("OneHot", indices, np.array(3, np.int32), C(5.0, F), C(1.0, F), axis=1), np.moveaxis(wanted, -1, 1))
    same(compute("OneHotD", indices, C(5.0, F), C(1.0, F), depth=3, axis=0), np.moveaxis(wanted, -1, 0))
