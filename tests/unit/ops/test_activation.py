"""Activations against NumPy formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.caffe_support import op
from tests.unit.ops.support import BLOB, MATRIX, Array, F, X, close, compute, gelu, gelu_tanh, match, run, same, sigmoid

CELU = np.maximum(0, 3 * MATRIX) + np.minimum(0, 1.5 * (np.exp(MATRIX / 2) - 1))


WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("Gelu", {}, gelu_tanh(MATRIX)),
    ("GeluV2", {}, gelu(MATRIX)),
    ("GeluV2", {"approximate": "tanh"}, gelu_tanh(MATRIX)),
    ("FastGelu", {}, MATRIX * sigmoid(1.702 * MATRIX)),
    ("Swish", {}, MATRIX * sigmoid(MATRIX)),
    ("Swish", {"scale": 2.0}, MATRIX * sigmoid(2 * MATRIX)),
    ("SwiGlu", {}, MATRIX[:, :4] * sigmoid(MATRIX[:, :4]) * MATRIX[:, 4:]),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.4}, np.clip(0.2 * MATRIX + 0.4, 0, 1)),
    ("HardSwish", {}, MATRIX * np.clip(MATRIX + 3, 0, 6) / 6),
    ("Celu", {"alpha1": 1.5, "alpha2": 2.0, "alpha3": 3.0}, CELU),
    ("CeluV2", {"alpha": 2.0}, np.maximum(0, MATRIX) + np.minimum(0, 2 * (np.exp(MATRIX / 2) - 1))),
    (
        "Shrink",
        {"lambd": 0.6, "bias": 0.1},
        np.where(MATRIX < -0.6, MATRIX + 0.1, np.where(MATRIX > 0.6, MATRIX - 0.1, 0)),
    ),
    ("ThresholdedRelu", {"alpha": 0.3}, np.where(MATRIX > 0.3, MATRIX, 0)),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


@pytest.mark.parametrize("type_", ["Gelu", "Swish", "Muls", "Celu"])
def test_half_precision_stays(type_: str) -> None:
    half = MATRIX.astype(np.float16)
    actual = run(type_, [half], **({"value": 2.0} if type_ == "Muls" else {}))[0]
    assert actual.dtype == np.float16
    expected = {
        "Gelu": gelu_tanh(MATRIX),
        "Swish": MATRIX * sigmoid(MATRIX),
        "Muls": 2 * MATRIX,
        "Celu": np.maximum(0, MATRIX) + np.minimum(0, np.exp(MATRIX) - 1),
    }
    close(actual, expected[type_], 1e-2)


def test_gated_gelu() -> None:
    gated, active = run("GeGluV2", [MATRIX], outputs=2, approximate=0)
    close(active, gelu(MATRIX[:, 4:]))
    close(gated, MATRIX[:, :4] * gelu(MATRIX[:, 4:]))


UNARY: dict[str, tuple[Array, Any]] = {
    "BNLL": (X, lambda x: np.log1p(np.exp(x))),
    "Relu": (X, lambda x: np.maximum(x, 0)),
    "Relu6": (X * 5, lambda x: np.clip(x, 0, 6)),
    "Sigmoid": (X, lambda x: 1 / (1 + np.exp(-x))),
    "Tanh": (X, np.tanh),
    "Softplus": (X, lambda x: np.log1p(np.exp(x))),
    "Softsign": (X, lambda x: x / (1 + np.abs(x))),
    "Elu": (X, lambda x: np.where(x > 0, x, np.expm1(x))),
    "Selu": (X, lambda x: F(1.05070098) * np.where(x > 0, x, F(1.67326324) * np.expm1(x))),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


@pytest.mark.parametrize("kind", ["Elu", "Softplus", "Sigmoid"])
def test_doubles_keep_their_type(kind: str) -> None:
    x, formula = UNARY[kind]
    actual = compute(kind, x.astype(np.float64))
    assert np.asarray(actual).dtype == np.float64
    np.testing.assert_allclose(actual, formula(x.astype(np.float64)), rtol=1e-4, atol=1e-6)


def test_attributes_of_elu() -> None:
    same(compute("Elu", X, alpha=0.7, scale=2.0), np.where(X > 0, 2 * X, F(1.4) * np.expm1(X)))
    same(compute("Elu", X, alpha=0.7, input_scale=3.0), np.where(X > 0, X, F(0.7) * np.expm1(3 * X)))


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "Mish": ([BLOB], {}, BLOB * np.tanh(np.log1p(np.exp(BLOB)))),
    "Threshold": ([BLOB], {"threshold": 0.1}, (BLOB > 0.1).astype(np.float32)),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)
