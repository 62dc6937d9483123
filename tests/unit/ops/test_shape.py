"""Shapes, and the private formats by their definition, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softnpu import ops
from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.lowering.lower import site_of
from softnpu.graph.ir import Graph
from tests.caffe_support import op
from tests.unit.ops.support import (
    BLOB,
    MATRIX,
    RNG,
    Array,
    C,
    Const,
    F,
    X,
    close,
    compute,
    floats,
    match,
    run,
    run_node,
    same,
)

WITH_ATTRIBUTES: list[tuple[str, dict[str, Any], Any]] = [
    ("TensorMove", {}, MATRIX),
    ("Unsqueeze", {"axes": [0, 3]}, MATRIX[None, :, :, None]),
    ("ConfusionTransposeD", {"perm": [1, 0], "shape": [4, 6], "transpose_first": True}, MATRIX.T.reshape(4, 6)),
    ("ConfusionTransposeD", {"perm": [1, 0], "shape": [4, 6], "transpose_first": False}, MATRIX.reshape(4, 6).T),
    ("Flatten", {"axis": 0}, MATRIX.reshape(1, 24)),
]


@pytest.mark.parametrize(("kind", "attrs", "expected"), WITH_ATTRIBUTES)
def test_with_attributes(kind: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(kind, [MATRIX], **attrs)[0], expected)


def test_expansion() -> None:
    close(
        run("Expand", [MATRIX[:, None], Const(np.array([2, 1, 2, 8], np.int32))])[0],
        np.broadcast_to(MATRIX[:, None], (2, 3, 2, 8)),
    )


def test_squeezing_by_an_input() -> None:
    close(run("SqueezeV3", [MATRIX[:, None], Const([1])])[0], MATRIX)
    close(run("UnsqueezeV3", [MATRIX, Const([1])])[0], MATRIX[:, None])


def test_storage_layouts_by_their_definition() -> None:
    x = floats(2, 20, 3, 4)
    five = run("TransData", [x], src_format="NCHW", dst_format="NC1HWC0")[0]
    assert five.shape == (2, 2, 3, 4, 16)
    assert five[1, 1, 2, 3, 3] == x[1, 19, 2, 3]
    assert not five[:, 1, :, :, 4:].any()
    matrix = floats(18, 40)
    nz = run("TransData", [matrix], src_format="ND", dst_format="FRACTAL_NZ")[0]
    assert nz.shape == (3, 2, 16, 16)
    assert nz[2, 1, 1, 7] == matrix[17, 39]
    whole = RNG.integers(-9, 9, (18, 40), np.int8)
    nz = run("TransData", [whole], src_format="ND", dst_format="FRACTAL_NZ")[0]
    assert nz.shape == (2, 2, 16, 32)
    assert nz[1, 1, 1, 7] == whole[17, 39]
    filters = floats(20, 18, 3, 2)
    fractal = run("TransData", [filters], src_format="NCHW", dst_format="FRACTAL_Z")[0]
    assert fractal.shape == (2 * 3 * 2, 2, 16, 16)
    assert fractal[(1 * 3 + 2) * 2 + 1, 1, 3, 1] == filters[19, 17, 2, 1]
    small = run("TransData", [filters[:, :3].copy()], src_format="NCHW", dst_format="FRACTAL_Z_C04")[0]
    assert small.shape == (2, 2, 16, 16)
    assert small[1, 1, 3, 6] == filters[19, 2, 2, 1]  # k = (2 · 2 + 1) · 4 + 2 = 22


@pytest.mark.parametrize(
    ("source", "target", "shape", "groups"),
    [
        ("NCHW", "NC1HWC0", (2, 20, 3, 4), 1),
        ("NHWC", "NC1HWC0", (2, 3, 4, 20), 1),
        ("NCHW", "FRACTAL_Z", (20, 18, 3, 2), 1),
        ("HWCN", "FRACTAL_Z", (3, 2, 18, 20), 1),
        ("NCHW", "FRACTAL_Z", (12, 2, 3, 3), 6),
        ("NCHW", "FRACTAL_Z_C04", (20, 3, 3, 2), 1),
        ("ND", "FRACTAL_NZ", (3, 18, 40), 1),
        ("ND", "FRACTAL_NZ", (33,), 1),
        ("ND", "FRACTAL_ZZ", (18, 40), 1),
        ("NCDHW", "NDC1HWC0", (2, 20, 2, 3, 4), 1),
        ("NCDHW", "FRACTAL_Z_3D", (20, 18, 2, 3, 2), 1),
        ("NCHW", "NHWC1C0", (2, 20, 3, 4), 1),
        ("NCHW", "NHWC", (2, 3, 4, 5), 1),
        ("NCHW", "NC1HWC0_C04", (2, 3, 4, 5), 1),
    ],
)
def test_storage_layouts_there_and_back(source: str, target: str, shape: tuple[int, ...], groups: int) -> None:
    x = floats(*shape)
    stored = run("TransData", [x], src_format=source, dst_format=target, groups=groups)[0]
    graph = Graph("back")
    node = graph.op(
        "TransData",
        [graph.data_node("x", 0, stored.shape).output],
        "op",
        src_format=target,
        dst_format=source,
        groups=groups,
    )
    node.output.shape = shape
    infer_node(graph, node)
    operator = ops.find("TransData")
    assert operator is not None and operator.compute is not None
    np.testing.assert_array_equal(operator.compute(site_of(node), stored)[0], x)
    np.testing.assert_array_equal(run_node(graph, node, {"x": stored})[0], x)


UNARY: dict[str, tuple[Array, Any]] = {
    "Size": (X, lambda x: np.int32(x.size)),
    "Rank": (X, lambda x: np.int32(x.ndim)),
    "Shape": (X, lambda x: np.array(x.shape, np.int32)),
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


def test_the_type_of_a_shape() -> None:
    same(compute("Shape", X, dtype=9), np.array([2, 3, 4]))


def test_copies() -> None:
    for copied in compute("Copy", X, outputs=2, N=2):
        same(copied, X)


def test_dims_laid_together() -> None:
    same(compute("FlattenV2", X, axis=1), X.reshape(2, 12))
    same(compute("FlattenV2", X, axis=0, end_axis=1), X.reshape(6, 4))


def test_shapes_change() -> None:
    same(compute("ExpandDims", X, C(-1)), X[..., None])
    same(compute("ExpandDims", X, C([0])), X[None])
    ones = X[:, None, :, None]
    same(compute("Squeeze", ones), X)
    same(compute("Squeeze", ones, axis=[1]), ones[:, 0])
    same(compute("Reshape", X, C([4, -1])), X.reshape(4, 6))
    same(compute("Reshape", X, C([0, -1])), X.reshape(2, 12))
    same(compute("Reshape", X[:0], C([0, 5]), allowzero=1), np.zeros((0, 5), F))
    same(compute("Reshape", X, C([12]), axis=1), X.reshape(2, 12))
    same(compute("Reshape", X, C([3, 1]), axis=1, num_axes=1), X.reshape(2, 3, 1, 4))
    same(compute("Reshape", X, np.array([6, 4], np.int64)), X.reshape(6, 4))
    same(compute("Transpose", X, C([2, 0, 1])), X.transpose(2, 0, 1))
    same(compute("TransposeD", X, perm=[1, 0, 2]), X.transpose(1, 0, 2))
    same(compute("Tile", X, C([1, 2, 1])), np.tile(X, (1, 2, 1)))
    same(compute("TileD", X, multiples=[2, 1, 1]), np.tile(X, (2, 1, 1)))
    same(compute("BroadcastTo", X[:, :1], C([2, 5, 4])), np.broadcast_to(X[:, :1], (2, 5, 4)))


LAYERS: dict[str, tuple[list[Array], dict[str, Any], Array]] = {
    "Permute": ([BLOB], {"order": [2, 0]}, BLOB.transpose(2, 0, 1, 3)),
    "TileWithAxis": ([BLOB], {"tiles": 3, "axis": 2}, np.tile(BLOB, (1, 1, 3, 1))),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_caffe_layer(kind: str) -> None:
    inputs, attrs, wanted = LAYERS[kind]
    match(op(kind, *inputs, **attrs)[0], np.ascontiguousarray(wanted), 1e-5)
