"""Shape inference: of whole graphs against ONNX's own on the file, and of single nodes of ours."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softnpu.base.dtypes import from_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import infer_graph, infer_node, ir_version
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import load, model

W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


def net(shape: Any) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("ArgMax", ["f"], ["y"], axis=1, keepdims=0),
    ]
    return model(nodes, {"x": shape}, ["y", "r"], {"w": W})


@pytest.mark.parametrize("shape", [(1, 3, 9, 7), ("n", 3, 8, 8)])
def test_inferred_shapes_are_those_of_onnx(shape: Any, tmp_path: Path) -> None:
    proto = net(shape)
    graph = load(proto, tmp_path)
    known = {info.name: info.type.tensor_type for info in (*proto.graph.value_info, *proto.graph.output)}
    seen = 0
    for value in graph.values():
        if value.name in known:
            tensor = known[value.name]
            dims = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
            assert (value.dtype, value.shape) == (from_onnx(tensor.elem_type), dims), value.name
            seen += 1
    assert seen == 5


def test_another_input_shape_goes_through(tmp_path: Path) -> None:
    graph = load(net(("n", 3, 8, 8)), tmp_path)
    graph.inputs[0].output.shape = (5, 3, 16, 16)
    infer_graph(graph)
    assert [output.value.shape for output in graph.outputs] == [(5,), (5, 4, 8, 8)]


def test_values_that_are_shapes_are_followed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["a"], ["s"]),
        helper.make_node("Expand", ["x", "s"], ["y"]),
    ]
    graph = load(model(nodes, {"x": (1, 4), "a": (3, 4)}, ["y"]), tmp_path)
    assert graph.outputs[0].value.shape == (3, 4)


def test_shapes_that_cannot_fit(tmp_path: Path) -> None:
    """ONNX's inference either complains, which is told in atc's words, or leaves the shape as it was."""
    weights = {"w": np.ones((3, 2), np.float32)}
    graph = load(model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"], weights), tmp_path)
    graph.inputs[0].output.shape = (2, 5)
    graph.outputs[0].value.shape = None
    with contextlib.suppress(AtcError):
        infer_graph(graph)
    assert graph.outputs[0].value.shape is None


# ---- nodes of ours ---------------------------------------------------------------------------------------------------


def native(*shapes: tuple[int, ...], dtype: int = 0) -> tuple[Graph, list[Any]]:
    graph = Graph("g", {"": 18}, framework=3)
    return graph, [graph.data_node(f"x{i}", dtype, shape).output for i, shape in enumerate(shapes)]


def test_an_operator_with_a_rule_of_its_own() -> None:
    graph, (x,) = native((5, 4, 4))
    node = graph.op("MatrixInverse", [x])
    infer_node(graph, node)
    assert (node.output.dtype, node.output.shape) == (0, (5, 4, 4))


def test_a_rule_that_complains() -> None:
    graph, (x,) = native((5, 4, 3))
    node = graph.op("MatrixInverse", [x])
    with pytest.raises(AtcError) as caught:
        infer_node(graph, node)
    assert caught.value.code == "E14001" and "[5, 4, 3]" in caught.value.message


def test_an_operator_that_is_lowered() -> None:
    graph, (x, y) = native((2, 1, 4), (3, 4))
    node = graph.op("Add", [x, y])
    infer_node(graph, node)
    assert (node.output.dtype, node.output.shape) == (0, (2, 3, 4))


def test_a_type_that_does_not_exist() -> None:
    graph, (x,) = native((2,))
    with pytest.raises(AtcError) as caught:
        infer_node(graph, graph.op("NoSuchOperator", [x]))
    assert caught.value.code == "E10501" and "NoSuchOperator" in caught.value.message


@pytest.mark.parametrize("dtype", [0, 1, 3])
def test_types_are_followed(dtype: int) -> None:
    graph, (x,) = native((2, 2), dtype=dtype)
    node = graph.op("Neg", [x])
    infer_node(graph, node)
    assert node.output.dtype == dtype


def test_a_graph_of_ours_and_of_onnx(tmp_path: Path) -> None:
    graph = load(model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3, 3)}, ["y"]), tmp_path)
    node = graph.op("MatrixInverse", [graph.outputs[0].value])
    graph.outputs[0].value = node.output
    infer_graph(graph)
    assert node.output.shape == (2, 3, 3)


@pytest.mark.parametrize("opset", range(9, 22))
def test_versions_of_the_file_format(opset: int) -> None:
    """The checker of onnx takes a model of this opset with this version."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version(opset))
    onnx.checker.check_model(proto)


def test_long_vectors_are_not_followed_element_by_element() -> None:
    """ONNX's propagation of values would make a symbol for each of two thousand million elements."""
    graph = Graph("long", framework=0)
    node = graph.op("Cast", [graph.data_node("x", 9, (2_000_000_000,)).output], dst_type=0)
    infer_node(graph, node)
    assert (node.output.dtype, node.output.shape) == (0, (2_000_000_000,))
