"""Passes that know several nodes as one operator: what they name, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node as op

from softnpu.compiler.passes.patterns import gelu, layer_norm, matmul_bias_add, mish, mul_square, pow_square
from tests.unit.compiler.onnx_graphs import types
from tests.unit.compiler.passes.pass_graphs import X, check, rand


@pytest.mark.parametrize("shape", [(5,), (1, 5), (1,), ()])
def test_a_vector_after_a_product_becomes_its_bias(shape, tmp_path: Path) -> None:
    weights = {"w": rand(3, 5), "b": rand(*shape, seed=1)}
    for add in (op("Add", ["m", "b"], ["y"]), op("Add", ["b", "m"], ["y"])):
        graph = check(matmul_bias_add, [op("MatMul", ["x", "w"], ["m"]), add], {"x": [4, 3]}, weights, tmp_path)
        assert types(graph) == ["MatMulV2"]
    weights["w"] = rand(5, 3)
    gemm = op("Gemm", ["x", "w"], ["m"], alpha=0.5, transB=1)
    graph = check(matmul_bias_add, [gemm, op("Add", ["m", "b"], ["y"])], {"x": [4, 3]}, weights, tmp_path)
    assert graph.nodes[-1].attrs["transpose_x2"] is True


def test_products_that_are_no_fully_connected_layer_stay(tmp_path: Path) -> None:
    product, add = op("MatMul", ["x", "w"], ["m"]), op("Add", ["m", "b"], ["y"])
    weights = {"w": rand(3, 5), "b": rand(5)}
    check(matmul_bias_add, [product, add], {"x": [2, 4, 3]}, weights, tmp_path, count=(0, 0))
    check(matmul_bias_add, [product, add], {"x": [4, 3]}, weights | {"b": rand(4, 1)}, tmp_path, count=(0, 0))
    check(matmul_bias_add, [product, add], {"x": [1, 3]}, weights | {"b": rand(4, 5)}, tmp_path, count=(0, 0))
    gemm = op("Gemm", ["x", "w", "b"], ["m"])
    check(matmul_bias_add, [gemm, add], {"x": [4, 3]}, weights, tmp_path, count=(0, 0))


ROOT, HALF, ONE = np.array(2**0.5, np.float32), np.array(0.5, np.float32), np.array(1, np.float32)
SCALARS = {"root": ROOT, "inverse": 1 / ROOT, "half": HALF, "one": ONE}
ERF = [op("Div", ["x", "root"], ["a"]), op("Erf", ["a"], ["b"]), op("Add", ["b", "one"], ["c"])]
TAILS = [
    [op("Mul", ["x", "c"], ["d"]), op("Mul", ["d", "half"], ["y"])],
    [op("Mul", ["c", "half"], ["d"]), op("Mul", ["x", "d"], ["y"])],
    [op("Mul", ["x", "half"], ["d"]), op("Mul", ["d", "c"], ["y"])],
]


@pytest.mark.parametrize("tail", TAILS)
def test_gelu_with_erf(tail, tmp_path: Path) -> None:
    graph = check(gelu, [*ERF, *tail], X, SCALARS, tmp_path)
    assert types(graph) == ["Gelu"]
    assert len(graph.nodes[-1].origin) == 5
    scaled = [op("Mul", ["inverse", "x"], ["a"]), *ERF[1:], *tail]
    assert types(check(gelu, scaled, X, SCALARS, tmp_path)) == ["Gelu"]


@pytest.mark.parametrize("power", ["Pow", "Mul"])
def test_gelu_with_tanh(power, tmp_path: Path) -> None:
    cube = [op("Pow", ["x", "three"], ["p"])]
    if power == "Mul":
        cube = [op("Mul", ["x", "x"], ["q"]), op("Mul", ["q", "x"], ["p"])]
    nodes = [
        *cube,
        op("Mul", ["p", "k"], ["r"]),
        op("Add", ["x", "r"], ["s"]),
        op("Mul", ["s", "t"], ["a"]),
        op("Tanh", ["a"], ["b"]),
        op("Add", ["b", "one"], ["c"]),
        *TAILS[2],
    ]
    constants = SCALARS | {
        "three": np.array(3, np.float32),
        "k": np.array(0.044715, np.float32),
        "t": np.array((2 / np.pi) ** 0.5, np.float32),
    }
    graph = check(gelu, nodes, X, constants, tmp_path)
    assert types(graph) == ["Gelu"]
    assert graph.nodes[-1].attrs == {"approximate": "tanh"}


def test_what_only_looks_like_gelu_stays(tmp_path: Path) -> None:
    check(gelu, [*ERF, *TAILS[0]], X, SCALARS | {"half": np.array(0.4, np.float32)}, tmp_path, count=(0, 0))
    check(gelu, [*ERF, *TAILS[0]], X, SCALARS, tmp_path, ("y", "c"), count=(0, 0))
    flipped = [op("Div", ["root", "x"], ["a"]), *ERF[1:], *TAILS[0]]
    check(gelu, flipped, X, SCALARS, tmp_path, count=(0, 0))


def test_layer_norm_is_known_by_its_nodes(tmp_path: Path) -> None:
    def chain(mean_attrs: dict, extra: list[str], square):
        return [
            op("ReduceMean", ["x", *extra], ["m"], **mean_attrs),
            op("Sub", ["x", "m"], ["d"]),
            square,
            op("ReduceMean", ["p", *extra], ["v"], **mean_attrs),
            op("Add", ["v", "eps"], ["e"]),
            op("Sqrt", ["e"], ["s"]),
            op("Div", ["d", "s"], ["q"]),
            op("Mul", ["q", "gamma"], ["g"]),
            op("Add", ["g", "beta"], ["y"]),
        ]

    constants = {
        "two": np.array(2, np.float32),
        "eps": np.array(1e-5, np.float32),
        "gamma": rand(8),
        "beta": rand(8, seed=1),
    }
    inputs = {"x": [2, 5, 8]}
    graph = check(layer_norm, chain({"axes": [-1]}, [], op("Pow", ["d", "two"], ["p"])), inputs, constants, tmp_path)
    assert types(graph) == ["LayerNorm"]
    node = graph.nodes[-1]
    assert node.attrs["begin_norm_axis"] == -1
    assert [value.name for value in node.inputs[:3] if value is not None] == ["x", "gamma", "beta"]
    axes = {"axes": np.array([2], np.int64)}
    graph = check(
        layer_norm, chain({}, ["axes"], op("Mul", ["d", "d"], ["p"])), inputs, constants | axes, tmp_path, opset=18
    )
    assert types(graph) == ["LayerNorm"]
    check(
        layer_norm, chain({"axes": [1]}, [], op("Pow", ["d", "two"], ["p"])), inputs, constants, tmp_path, count=(0, 0)
    )


def test_mish_and_squares(tmp_path: Path) -> None:
    nodes = [op("Softplus", ["x"], ["a"]), op("Tanh", ["a"], ["b"]), op("Mul", ["x", "b"], ["y"])]
    assert types(check(mish, nodes, X, {}, tmp_path)) == ["Mish"]
    check(mish, nodes, X, {}, tmp_path, ("y", "b"), count=(0, 0))
    assert types(check(mul_square, [op("Mul", ["x", "x"], ["y"])], X, {}, tmp_path)) == ["Square"]
    two = {
        "two": np.array(2, np.float32),
        "wide": np.full((3, 1, 1, 1, 1), 2, np.float32),
        "three": np.array(3, np.float32),
    }
    assert types(check(pow_square, [op("Pow", ["x", "two"], ["y"])], X, two, tmp_path)) == ["Square"]
    check(pow_square, [op("Pow", ["x", "three"], ["y"])], X, two, tmp_path, count=(0, 0))
    exponent = {"wide": np.full((1, 1, 1, 1, 1), 2, np.float32)}
    check(pow_square, [op("Pow", ["x", "wide"], ["y"])], X, exponent, tmp_path, count=(0, 0))
