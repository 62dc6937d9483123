"""Sums, products and quotients against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.caffe_support import op
from tests.unit.ops.support import (
    BLOB,
    IMAGE,
    MATRIX,
    OTHER,
    SMALL,
    WHOLE,
    Array,
    C,
    F,
    X,
    Y,
    close,
    compute,
    floats,
    match,
    nchw,
    rand,
    run,
    same,
)

WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("Muls", {"value": 2.5}, MATRIX * 2.5),
    ("Adds", {"value": 2.5}, MATRIX + 2.5),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


def test_of_several_inputs() -> None:
    y, z = floats(3, 8), floats(3, 8)
    close(run("Axpy", [MATRIX, y], alpha=0.5)[0], MATRIX + 0.5 * y)
    close(run("FusedMulAdd", [MATRIX, y, z])[0], MATRIX * y + z)
    close(run("AccumulateNV2", [MATRIX, y, z], N=3)[0], MATRIX + y + z)


def test_rotary_embedding() -> None:
    x, cos, sin = floats(1, 2, 3, 8), floats(1, 2, 1, 8), floats(1, 2, 1, 8)
    turned = np.concatenate([-x[..., 4:], x[..., :4]], -1)
    close(run("RotaryMul", [x, cos, sin])[0], x * cos + turned * sin)
    turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    close(run("RotaryMul", [x, cos, sin], mode=1)[0], x * cos + turned * sin)


def test_a_sum_of_many() -> None:
    same(compute("AddN", X, X, X, N=3), 3 * X)


BINARY: dict[str, tuple[Array, Array, Any]] = {
    "Add": (X, Y, np.add),
    "AddV2": (WHOLE, OTHER, np.add),
    "Sub": (X, Y, np.subtract),
    "Mul": (X, Y, np.multiply),
    "RealDiv": (X, Y, np.divide),
    "Div": (WHOLE, OTHER, lambda a, b: np.trunc(a / b).astype(np.int32)),
    "FloorDiv": (WHOLE, OTHER, np.floor_divide),
    "Mod": (WHOLE, OTHER, np.fmod),
    "FloorMod": (WHOLE, OTHER, np.mod),
    "Pow": (SMALL, Y, np.power),
    "Maximum": (X, Y, np.maximum),
    "Minimum": (WHOLE, OTHER, np.minimum),
    "SquaredDifference": (X, Y, lambda a, b: np.square(a - b)),
    "DivNoNan": (X, np.array([0, 2, 0, 4], F), lambda a, b: np.where(b == 0, F(0), a / np.where(b == 0, F(1), b))),
}


@pytest.mark.parametrize("kind", BINARY)
def test_binary(kind: str) -> None:
    x, y, formula = BINARY[kind]
    same(compute(kind, x, y), formula(x, y))


def test_binary_in_other_types() -> None:
    floats = (np.array([5.5, -5.5, 5.5, -5.5, -4], F), np.array([2, 2, -2, -2, 2], F))
    same(compute("FloorMod", *floats), np.mod(*floats))
    same(compute("Mod", *floats), np.fmod(*floats))
    same(compute("FloorDiv", *floats), np.floor_divide(*floats))
    same(compute("Maximum", WHOLE.astype(np.int16), OTHER.astype(np.int16)), np.maximum(WHOLE, OTHER).astype(np.int16))
    same(compute("Pow", np.array([2, 3], np.uint8), np.array([3, 4], np.uint8)), np.array([8, 81], np.uint8))
    half = X.astype(np.float16)
    same(compute("Mul", half, half), half * half, 1e-2)


def test_a_bias_per_channel() -> None:
    same(compute("BiasAdd", IMAGE, C(np.arange(3, dtype=F))), IMAGE + np.arange(3, dtype=F))
    same(
        compute("BiasAdd", nchw(IMAGE), np.arange(3, dtype=F), data_format="NCHW"), nchw(IMAGE + np.arange(3, dtype=F))
    )


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "AxpyV1": (
        [rand(2, 4), BLOB, rand(2, 4, 5, 6, seed=3)],
        {},
        rand(2, 4)[:, :, None, None] * BLOB + rand(2, 4, 5, 6, seed=3),
    ),
    "Bias": ([BLOB, rand(4, 5)], {"axis": 1, "num_axes": 2}, BLOB + rand(4, 5)[:, :, None]),
    "Eltwise": (
        [BLOB, 2 * BLOB, BLOB * BLOB],
        {"N": 3, "mode": 1, "coeff": [1.0, 0.5, -1.0]},
        BLOB + BLOB - BLOB * BLOB,
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)
