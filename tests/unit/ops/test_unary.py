"""Functions of one tensor against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.caffe_support import op
from tests.unit.ops.support import BLOB, MATRIX, ODD, SMALL, Array, C, F, X, compute, match, run, same


def test_a_cast_to_the_type_of_another() -> None:
    assert run("CastLike", [MATRIX, np.zeros(1, np.int32)])[0].dtype == np.int32


UNARY: dict[str, tuple[Array, Any]] = {
    "Dropout": (X, lambda x: x),
    "Abs": (X, np.abs),
    "Neg": (X, np.negative),
    "Sign": (X, np.sign),
    "Floor": (X, np.floor),
    "Ceil": (X, np.ceil),
    "Rint": (ODD[:5], np.rint),
    "Round": (ODD[:5], np.rint),
    "Sqrt": (SMALL, np.sqrt),
    "Reciprocal": (SMALL, lambda x: 1 / x),
    "Inv": (SMALL, lambda x: 1 / x),
    "Rsqrt": (SMALL, lambda x: 1 / np.sqrt(x)),
    "Square": (X, np.square),
    "Exp": (X, np.exp),
    "Log": (SMALL, np.log),
    "Log1p": (np.array([1e-7, -1e-6, 0.3, -0.7, 5, 1e6], F), np.log1p),
    "Expm1": (np.array([1e-7, -1e-6, 0.3, -0.7, 5, -20], F), np.expm1),
    "Erf": (X, lambda x: np.vectorize(math.erf)(x).astype(F)),
    "Sin": (X, np.sin),
    "Cos": (X, np.cos),
    "Tan": (SMALL, np.tan),
    "Asin": (SMALL, np.arcsin),
    "Acos": (SMALL, np.arccos),
    "Atan": (X, np.arctan),
    "Sinh": (X, np.sinh),
    "Cosh": (X, np.cosh),
    "Asinh": (X, np.arcsinh),
    "Acosh": (SMALL + 1, np.arccosh),
    "Atanh": (SMALL, np.arctanh),
    "Identity": (X, lambda x: x),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


@pytest.mark.parametrize("kind", ["Tan", "Log1p", "Expm1", "Erf", "Rsqrt"])
def test_doubles_keep_their_type(kind: str) -> None:
    x, formula = UNARY[kind]
    actual = compute(kind, x.astype(np.float64))
    assert np.asarray(actual).dtype == np.float64
    np.testing.assert_allclose(actual, formula(x.astype(np.float64)), rtol=1e-4, atol=1e-6)


def test_attributes_of_functions() -> None:
    same(compute("Exp", X, base=2.0, scale=0.5, shift=1.0), np.exp2(X * F(0.5) + 1))
    same(compute("Log", SMALL, base=10.0, scale=3.0, shift=0.5), np.log10(3 * SMALL + F(0.5)))
    same(compute("Round", X, decimals=1), np.round(X, 1))
    same(compute("Cast", X * 3, dst_type=3), np.trunc(X * 3).astype(np.int32))
    same(compute("Cast", np.array([0, 2], np.int32), dst_type=12), np.array([False, True]))
    same(compute("ClipByValue", X, C(-0.5, F), C(0.5, F)), X.clip(-0.5, 0.5))
    same(
        compute("ClipByValue", np.array([-9, 3], np.int16), C(-5, np.int16), C(2, np.int16)),
        np.array([-5, 2], np.int16),
    )
    with pytest.raises(AtcError, match="base -2"):
        compute("Exp", X, base=-2.0)
    with pytest.raises(AtcError, match="base 1"):
        compute("Log", X, base=1.0)


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "Clip": ([BLOB], {"min": -0.2, "max": 0.4}, BLOB.clip(-0.2, 0.4)),
    "Power": ([BLOB], {"power": 3.0, "scale": 2.0, "shift": 1.0}, (2 * BLOB + 1) ** 3),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)
