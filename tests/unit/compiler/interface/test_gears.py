"""Gears: the shapes of inputs and outputs under each size, against numbers computed by hand or by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from softnpu.compiler.errors import AtcError
from softnpu.compiler.interface.gears import input_shapes, output_shapes
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import load, model, original

KERNEL = np.ones((2, 3, 3, 3), np.float32)


def picture(folder: Path, shape: list[Any]) -> tuple[Graph, Any]:
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
    ]
    proto = model(nodes, {"x": shape}, ["c", "p"], {"k": KERNEL})
    return load(proto, folder), proto


def test_a_batch_gear_fills_open_batches(tmp_path: Path) -> None:
    graph, _ = picture(tmp_path, ["n", 3, 9, 7])
    cases = [input_shapes(graph, "batch", [n]) for n in (1, 8)]
    assert cases == [{"x": (1, 3, 9, 7)}, {"x": (8, 3, 9, 7)}]
    assert output_shapes(graph, cases) == [[(1, 2, 4, 3), (1, 2, 1, 1)], [(8, 2, 4, 3), (8, 2, 1, 1)]]


def test_outputs_of_a_resolution_are_those_of_onnxruntime(tmp_path: Path) -> None:
    graph, proto = picture(tmp_path, [1, 3, "h", "w"])
    cases = [input_shapes(graph, "hw", list(size)) for size in ((5, 9), (20, 10))]
    assert cases == [{"x": (1, 3, 5, 9)}, {"x": (1, 3, 20, 10)}]
    for case, told in zip(cases, output_shapes(graph, cases), strict=True):
        wanted = original(proto, {"x": np.zeros(case["x"], np.float32)})
        assert told == [array.shape for array in wanted]


def test_a_fixed_input_beside_an_open_one(tmp_path: Path) -> None:
    proto = model([helper.make_node("Add", ["x", "b"], ["y"])], {"x": ["n", 4], "b": (4,)}, ["y"])
    graph = load(proto, tmp_path)
    assert input_shapes(graph, "batch", [3]) == {"x": (3, 4), "b": (4,)}
    assert input_shapes(graph, "dims", [5]) == {"x": (5, 4), "b": (4,)}


def test_dims_are_filled_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["a", "b"], ["y"])]
    graph = load(model(nodes, {"a": ["n", "k"], "b": ["k", "m"]}, ["y"]), tmp_path)
    cases = [input_shapes(graph, "dims", [2, 3, 3, 5]), input_shapes(graph, "dims", [7, 1, 1, 2])]
    assert cases[0] == {"a": (2, 3), "b": (3, 5)}
    assert output_shapes(graph, cases) == [[(2, 5)], [(7, 2)]]


def test_shapes_that_only_a_run_tells(tmp_path: Path) -> None:
    """Where inference cannot follow, the model runs once with zeros."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=1),
        helper.make_node("Mul", ["f", "two"], ["d"]),
        helper.make_node("Cast", ["d"], ["t"], to=7),
        helper.make_node("ConstantOfShape", ["t"], ["y"]),
    ]
    graph = load(model(nodes, {"x": ["n", 3]}, ["y"], {"two": np.float32(2)}), tmp_path)
    cases = [input_shapes(graph, "batch", [n]) for n in (1, 4)]
    assert output_shapes(graph, cases) == [[(2, 6)], [(8, 6)]]


def test_a_gear_that_the_model_cannot_take(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("NonZero", ["x"], ["w"]),
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("Add", ["r", "r"], ["y"]),
    ]
    proto = model(nodes, {"x": ["n", 3]}, ["w", "y"], {"shape": np.array([2, 3], np.int64)})
    graph = load(proto, tmp_path)
    with pytest.raises(AtcError) as caught:
        output_shapes(graph, [input_shapes(graph, "batch", [5])])
    assert "x:[5, 3]" in caught.value.message or caught.value.code == "E89999"
