"""Constant folding: what becomes a constant, what must not, and that nothing computes another number afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.lowering.fold import fold
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import compute, model, original, types

INT64 = TensorProto.INT64
RNG = np.random.default_rng(4)


def folded(proto: onnx.ModelProto, folder: Path) -> tuple[Graph, int]:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    graph, _ = read(path)
    count = fold(graph)
    graph.verify()
    return graph, count


def same(proto: onnx.ModelProto, graph: Graph, feeds: dict[str, Any]) -> None:
    for computed, wanted in zip(compute(graph, feeds), original(proto, feeds), strict=True):
        assert computed.dtype == wanted.dtype
        np.testing.assert_allclose(computed, wanted, rtol=1e-6)


def x(*shape: int) -> dict[str, Any]:
    return {"x": RNG.standard_normal(shape).astype(np.float32)}


def test_arithmetic_of_constants(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Sqrt", ["c"], ["d"]),
        helper.make_node("Mul", ["x", "d"], ["y"]),
    ]
    proto = model(nodes, {"x": (2, 3)}, ["y"], {"a": np.float32([1, 2, 3]), "b": np.float32([3, 2, 1])})
    graph, count = folded(proto, tmp_path)
    assert count >= 1 and types(graph) == ["Mul"]
    constant = graph.nodes[-1].inputs[1]
    assert constant is not None and constant.const is not None
    np.testing.assert_array_equal(constant.const.array(), np.float32([2, 2, 2]))
    same(proto, graph, x(2, 3))


def test_shape_arithmetic_becomes_constants(tmp_path: Path) -> None:
    """Shape → Gather → Concat → Reshape, as exporters write it, becomes one Reshape with a constant."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    weights = {"zero": np.array(0, np.int64), "axes": np.array([0], np.int64), "rest": np.array([-1], np.int64)}
    proto = model(nodes, {"x": (2, 3, 4)}, ["y"], weights)
    graph, _ = folded(proto, tmp_path)
    assert len(types(graph)) == 1
    assert graph.outputs[0].value.shape == (2, 12)
    same(proto, graph, x(2, 3, 4))


def test_shape_of_an_open_input_stays(tmp_path: Path) -> None:
    nodes = [helper.make_node("Shape", ["x"], ["y"])]
    graph, count = folded(model(nodes, {"x": ["n", 3]}, ["y"]), tmp_path)
    assert count == 0 and len(types(graph)) == 1


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [({}, [2, 3, 4]), ({"start": 1}, [3, 4]), ({"start": -2, "end": -1}, [3]), ({"start": 5}, []), ({"end": -9}, [])],
    ids=str,
)
def test_parts_of_a_shape(attrs: dict[str, int], wanted: list[int], tmp_path: Path) -> None:
    proto = model([helper.make_node("Shape", ["x"], ["y"], **attrs)], {"x": (2, 3, 4)}, ["y"], opset=15)
    graph, _ = folded(proto, tmp_path)
    constant = graph.outputs[0].value.const
    assert constant is not None and constant.array().tolist() == wanted
    assert original(proto, x(2, 3, 4))[0].tolist() == wanted


def test_a_known_size_becomes_a_constant(tmp_path: Path) -> None:
    graph, _ = folded(model([helper.make_node("Size", ["x"], ["y"])], {"x": (2, 3, 4)}, ["y"]), tmp_path)
    constant = graph.outputs[0].value.const
    assert constant is not None and constant.array().item() == 24 and constant.shape == ()


def test_several_outputs_of_which_one_is_used(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["w"], ["a", "b"], axis=0),
        helper.make_node("Add", ["x", "b"], ["y"]),
        helper.make_node("Mul", ["x", "a"], ["z"]),
    ]
    proto = model(nodes, {"x": (2, 2)}, ["y", "z"], {"w": RNG.standard_normal((4, 2)).astype(np.float32)})
    graph, _ = folded(proto, tmp_path)
    assert sorted(types(graph)) == ["Add", "Mul"]
    same(proto, graph, x(2, 2))


def test_a_constant_as_output(tmp_path: Path) -> None:
    proto = model([helper.make_node("Neg", ["w"], ["y"])], {"x": (1,)}, ["y"], {"w": np.float32([1, 2])})
    graph, _ = folded(proto, tmp_path)
    constant = graph.outputs[0].value.const
    assert constant is not None and constant.array().tolist() == [-1, -2]
    assert graph.outputs[0].name.endswith(":0:y")


def test_what_is_random_stays(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["w"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    graph, _ = folded(model(nodes, {"x": (3,)}, ["y"], {"w": np.float32([1, 2, 3])}), tmp_path)
    assert len(types(graph)) == 2


def test_quantised_weights_stay_small(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    weights = {"w": np.arange(6, dtype=np.int8).reshape(3, 2), "scale": np.float32(0.5)}
    proto = model(nodes, {"x": (2, 3)}, ["y"], weights)
    graph, _ = folded(proto, tmp_path)
    assert len(types(graph)) == 2
    same(proto, graph, x(2, 3))


@pytest.mark.parametrize("kind", ["Expand", "Tile", "ConstantOfShape"])
def test_large_results_are_not_stored(kind: str, tmp_path: Path) -> None:
    """A small model must not become a large file."""
    shape = np.array([600, 1000], np.int64)
    first = {
        "Expand": helper.make_node("Expand", ["one", "shape"], ["big"]),
        "Tile": helper.make_node("Tile", ["one", "shape"], ["big"]),
        "ConstantOfShape": helper.make_node("ConstantOfShape", ["shape"], ["big"]),
    }[kind]
    nodes = [first, helper.make_node("Add", ["x", "big"], ["y"])]
    proto = model(nodes, {"x": (1, 1000)}, ["y"], {"shape": shape, "one": np.float32([[1]])})
    graph, _ = folded(proto, tmp_path)
    stored = sum(len(node.data.data) for node in graph.nodes if node.data is not None)
    assert stored < 1 << 20
    same(proto, graph, x(1, 1000))


def test_range_and_nonzero_of_constants(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["r"]),
        helper.make_node("NonZero", ["mask"], ["where"]),
        helper.make_node("Gather", ["r", "where"], ["g"]),
        helper.make_node("Add", ["x", "g"], ["y"]),
    ]
    weights = {"a": np.float32(0), "b": np.float32(5), "c": np.float32(1), "mask": np.array([0, 1, 0, 1, 1], bool)}
    proto = model(nodes, {"x": (3,)}, ["y"], weights)
    graph, _ = folded(proto, tmp_path)
    assert types(graph) == ["Add"]
    same(proto, graph, x(3))


def test_the_condition_of_an_if_stays(tmp_path: Path) -> None:
    def branch(op: str) -> Any:
        output = helper.make_tensor_value_info("o", TensorProto.FLOAT, [3])
        return helper.make_graph([helper.make_node(op, ["x"], ["o"])], op, [], [output])

    nodes = [
        helper.make_node("Greater", ["a", "b"], ["flag"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch("Neg"), else_branch=branch("Abs")),
    ]
    proto = model(nodes, {"x": (3,)}, ["y"], {"a": np.float32(2), "b": np.float32(1)})
    graph, _ = folded(proto, tmp_path)
    same(proto, graph, x(3))


def test_nothing_to_fold(tmp_path: Path) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (3,)}, ["y"])
    graph, count = folded(proto, tmp_path)
    assert count == 0 and types(graph) == ["Relu"]


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["w"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    graph, count = folded(model(nodes, {"x": (2,)}, ["y"], {"w": np.float32([1, 2])}), tmp_path)
    before = [node.name for node in graph.nodes]
    assert count == 1 and fold(graph) == 0
    infer_graph(graph)
    assert [node.name for node in graph.nodes] == before


def test_an_operator_that_the_engine_refuses_is_left(tmp_path: Path) -> None:
    """An impossible reshape is not folded; the check of the whole model tells the user."""
    nodes = [helper.make_node("Reshape", ["w", "shape"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_empty_tensor_value_info("y")],
        [helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3]), helper.make_tensor("shape", INT64, [1], [2])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    result, count = folded(proto, tmp_path)
    assert count == 0 and len(types(result)) == 2
