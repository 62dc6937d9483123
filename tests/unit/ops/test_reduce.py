"""Reductions against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import infer_node
from softnpu.graph.ir import Graph
from tests.caffe_support import op
from tests.unit.ops.support import BLOB, MATRIX, WHOLE, Array, C, Const, F, X, close, compute, match, run, same

REDUCTIONS = {
    "Mean": np.mean,
    "Sum": np.sum,
    "Max": np.max,
    "Min": np.min,
    "Prod": np.prod,
    "All": np.all,
    "Any": np.any,
}


WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("SquareSumV1", {"axis": [1]}, (MATRIX**2).sum(1, keepdims=True)),
    ("SquareSumV1", {"axis": [0, 1], "keep_dims": False}, (MATRIX**2).sum()),
    ("LpNormV2", {"p": 1.0, "axes": [1]}, np.abs(MATRIX).sum(1)),
    ("LpNormV2", {"axes": [0], "keepdim": True}, np.sqrt((MATRIX**2).sum(0, keepdims=True))),
    ("LpNormV2", {"p": math.inf}, np.abs(MATRIX).max()),
    ("LpNormV2", {"p": 0.0, "axes": [0]}, np.full(8, 3.0)),
    ("LpNormV2", {"p": 3.0, "axes": [1]}, (np.abs(MATRIX) ** 3).sum(1) ** (1 / 3)),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


def test_reductions_with_axes_as_input() -> None:
    x = np.abs(MATRIX) + 0.1
    for axes in (Const(np.array([1], np.int32)), np.array([1], np.int32)):
        close(run("ReduceLogSum", [x, axes])[0], np.log(x.sum(1)))
        close(run("ReduceLogSumExp", [x, axes], keep_dims=True)[0], np.log(np.exp(x).sum(1, keepdims=True)))


UNARY: dict[str, tuple[Array, Any]] = {
    "L2Loss": (X, lambda x: (np.square(x).sum() / 2).astype(F)),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


@pytest.mark.parametrize("kind", ["L2Loss"])
def test_doubles_keep_their_type(kind: str) -> None:
    x, formula = UNARY[kind]
    actual = compute(kind, x.astype(np.float64))
    assert np.asarray(actual).dtype == np.float64
    np.testing.assert_allclose(actual, formula(x.astype(np.float64)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reductions(kind: str) -> None:
    formula = REDUCTIONS[kind]
    x = X > -0.5 if kind in ("All", "Any") else X
    same(compute(f"Reduce{kind}", x, C([0, -1])), formula(x, axis=(0, 2)))
    same(compute(f"Reduce{kind}", x, C(1), keep_dims=True), formula(x, axis=1, keepdims=True))
    same(compute(f"Reduce{kind}D", x, axes=[1, 2], keep_dims=True), formula(x, axis=(1, 2), keepdims=True))
    same(compute(f"Reduce{kind}D", x, axes=2), formula(x, axis=2))
    same(compute(f"Reduce{kind}", x, C(np.zeros(0, np.int32))), x)
    same(compute(f"Reduce{kind}D", x, axes=[], noop_with_empty_axes=False), formula(x))
    if kind not in ("All", "Any"):
        small = np.array([[1, 2], [3, 1]], np.int8)
        same(compute(f"Reduce{kind}D", small, axes=[1]), formula(small, axis=1).astype(np.int8))
        same(compute(f"Reduce{kind}D", x, axes=[1], opset=11), formula(x, axis=1))
    with pytest.raises(AtcError, match="axis 3"):
        compute(f"Reduce{kind}D", x, axes=[3])


def test_reductions_over_computed_axes() -> None:
    graph = Graph("g", {"": 20}, 3)
    x, axes = graph.data_node("x", 0, (2, 3)).output, graph.data_node("axes", 3, (1,)).output
    node = graph.op("ReduceSum", [x, axes], keep_dims=True)
    infer_node(graph, node)
    assert node.output.dtype == 0


def test_places_of_extremes() -> None:
    same(compute("ArgMaxV2", X, C(1), dtype=3), X.argmax(1).astype(np.int32))
    same(compute("ArgMax", X, C(-1)), X.argmax(-1))
    same(compute("ArgMin", X, C(0)), X.argmin(0))
    same(compute("ArgMaxD", X, dimension=2, dtype=9), X.argmax(2))
    same(compute("ArgMinD", X, dimension=1, dtype=3), X.argmin(1).astype(np.int32))
    same(compute("ArgMaxV2", np.array([3, 1, 3], np.int16), C([0])), np.int64(0))
    with pytest.raises(AtcError, match="dimension 4"):
        compute("ArgMaxD", X, dimension=4)
    with pytest.raises(AtcError, match="dtype 0"):
        compute("ArgMaxD", X, dimension=1, dtype=0)
    with pytest.raises(AtcError, match="constant"):
        compute("ArgMaxV2", X, np.array(1, np.int32))


def test_the_largest_elements() -> None:
    for kind, more, attrs in (("TopK", [C(2)], {}), ("TopKV2", [np.array([2], np.int32)], {}), ("TopKD", [], {"k": 2})):
        values, places = compute(kind, X, *more, outputs=2, **attrs)
        order = np.argsort(-X, -1, "stable")[..., :2].astype(np.int32)
        same(places, order)
        same(values, np.take_along_axis(X, order, -1))
    values, places = compute("TopKD", np.array([[4, 1, 4, 3]], np.uint8).T, outputs=2, k=3, dim=0, largest=True)
    same(values, np.array([[4, 4, 3]], np.uint8).T)
    same(places, np.array([[0, 2, 3]], np.int32).T)


def test_running_sums() -> None:
    same(compute("Cumsum", X, C(1)), np.cumsum(X, 1))
    same(compute("Cumsum", X, C(2), exclusive=True), np.cumsum(X, 2) - X)
    same(compute("Cumsum", WHOLE, C([-1]), reverse=True), np.cumsum(WHOLE[:, ::-1], 1)[:, ::-1].astype(np.int32))
    same(compute("Cumsum", WHOLE.astype(np.int8), C(1)), np.cumsum(WHOLE, 1).astype(np.int8))


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "Reduction": ([BLOB], {"operation": "SUMSQ", "axis": 2, "coeff": 0.5}, (BLOB**2).sum((2, 3)) / 2),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)


@pytest.mark.parametrize("kind", ["SUM", "ASUM", "SUMSQ", "MEAN"])
def test_reduction_of_everything(kind: str) -> None:
    wanted = {"SUM": BLOB.sum(), "ASUM": np.abs(BLOB).sum(), "SUMSQ": (BLOB**2).sum(), "MEAN": BLOB.mean()}[kind]
    match(op("Reduction", BLOB, operation=kind)[0], np.asarray(wanted), 1e-4)
