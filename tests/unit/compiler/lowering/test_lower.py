"""Lowering: names, constants and nested bodies of the ONNX operators that a graph becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.lowering.lower import captures, lower, site_of
from softnpu.graph.ir import Graph, Output
from softnpu.graph.onnx_def import NODE
from softnpu.graph.wire import decode
from tests.unit.compiler.onnx_graphs import compute, load, model

X = np.array([[1.5, -2.0, 3.0]], np.float32)


def test_operators_of_the_author_pass_unchanged(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["m"], "leaky", alpha=0.3),
        helper.make_node("Neg", ["m"], ["y"], "n"),
    ]
    low = lower(load(model(nodes, {"x": (1, 3)}, ["y"]), tmp_path))
    assert [node["op_type"] for node in low.nodes] == ["LeakyRelu", "Neg"]
    assert [(node["input"], node["output"]) for node in low.nodes] == [(["x"], ["m"]), (["m"], ["y"])]
    assert low.nodes[0]["attribute"][0]["f"] == pytest.approx(0.3)
    assert not low.host and not low.constants


def test_inputs_that_were_replaced_have_their_new_names(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["m"], "relu"), helper.make_node("Add", ["m", "x"], ["y"], "add")]
    graph = load(model(nodes, {"x": (1, 3)}, ["y"]), tmp_path)
    relu = graph.node("relu")
    assert relu is not None
    graph.replace(relu.output, graph.inputs[0].output)
    graph.remove({relu})
    low = lower(graph)
    assert [(node["op_type"], node["input"]) for node in low.nodes] == [("Add", ["x", "x"])]
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], X + X)


def test_outputs_that_were_replaced(tmp_path: Path) -> None:
    graph = load(model([helper.make_node("Relu", ["x"], ["y"], "relu")], {"x": (1, 3)}, ["y"]), tmp_path)
    graph.outputs[0].value.name = "fresh"
    (op,) = lower(graph).nodes
    assert op["output"] == ["fresh"]
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], np.maximum(X, 0))


def test_a_body_inside_keeps_its_words(tmp_path: Path) -> None:
    """A value that a branch captures was replaced by another: the branch still finds it, under an alias."""

    def branch(op: str) -> Any:
        output = helper.make_tensor_value_info("o", TensorProto.FLOAT, [1, 3])
        return helper.make_graph([helper.make_node(op, ["m"], ["o"])], op, [], [output])

    nodes = [
        helper.make_node("Relu", ["x"], ["m"], "relu"),
        helper.make_node("If", ["flag"], ["y"], "if", then_branch=branch("Neg"), else_branch=branch("Exp")),
    ]
    graph = load(model(nodes, {"x": (1, 3), "flag": (TensorProto.BOOL, ())}, ["y"]), tmp_path)
    relu = graph.node("relu")
    assert relu is not None
    graph.replace(relu.output, graph.inputs[0].output)
    graph.remove({relu})
    assert [node["op_type"] for node in lower(graph).nodes] == ["Identity", "If"]
    np.testing.assert_array_equal(compute(graph, {"x": X, "flag": np.array(True)})[0], -X)
    np.testing.assert_allclose(compute(graph, {"x": X, "flag": np.array(False)})[0], np.exp(X), rtol=1e-6)


def test_what_bodies_capture() -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["own", "deep"], ["r"])],
        "inner",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
        [helper.make_tensor("own", TensorProto.FLOAT, [1], [1])],
    )
    outer = helper.make_graph(
        [
            helper.make_node("Neg", ["outside"], ["local"]),
            helper.make_node("If", ["flag"], ["z"], then_branch=inner, else_branch=inner),
        ],
        "outer",
        [helper.make_tensor_value_info("i", TensorProto.INT64, [])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("local", "passed")],
    )
    op = decode(NODE, memoryview(helper.make_node("Loop", ["n"], ["y"], body=outer).SerializeToString()))
    assert captures(op) == {"outside", "flag", "deep", "passed"}


# ---- operators of ours -----------------------------------------------------------------------------------------------


def native(*shapes: tuple[int, ...]) -> tuple[Graph, list[Any]]:
    graph = Graph("g", {"": 18}, framework=3)
    return graph, [graph.data_node(f"x{i}", 0, shape).output for i, shape in enumerate(shapes)]


def finish(graph: Graph, node: Any) -> None:
    infer_node(graph, node)
    graph.outputs.append(Output(node.output, node.name))


def test_an_operator_file_says_the_meaning() -> None:
    graph, (x,) = native((2, 3))
    finish(graph, graph.op("Relu6", [x], "six"))
    fed = np.array([[-1, 0.5, 3], [6, 7, 100]], np.float32)
    np.testing.assert_array_equal(compute(graph, {"x0": fed})[0], fed.clip(0, 6))


def test_names_of_several_operators_of_one_node() -> None:
    """Operators that stand for one node say which; their names are their own."""
    graph, (x, y) = native((2, 3), (2, 3))
    finish(graph, graph.op("SquaredDifference", [x, y], "diff"))
    low = lower(graph)
    names = [node["name"] for node in low.nodes]
    assert len(set(names)) == len(names) > 1
    assert {node.get("doc_string") for node in low.nodes} == {"diff"}
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(compute(graph, {"x0": a, "x1": b})[0], (a - b) ** 2, rtol=1e-6)


def test_the_same_operator_twice_makes_different_names() -> None:
    graph, (x, y) = native((2, 3), (2, 3))
    for name in ("one", "two"):
        finish(graph, graph.op("SquaredDifference", [x, y], name))
    outputs = [name for node in lower(graph).nodes for name in node["output"]]
    assert len(set(outputs)) == len(outputs)


def test_numpy_operators_are_told_apart() -> None:
    graph, (x,) = native((3, 3))
    node = graph.op("MatrixInverse", [x])
    finish(graph, node)
    low = lower(graph)
    assert low.host == [node] and not low.nodes


def test_an_unknown_type() -> None:
    graph, (x,) = native((2,))
    graph.op("NoSuchOperator", [x], "bad")
    with pytest.raises(AtcError) as caught:
        lower(graph)
    assert caught.value.code == "E10501" and "[bad]" in caught.value.message


def test_attributes_of_the_wrong_kind_are_told_in_words() -> None:
    graph, (x,) = native((2, 3))
    graph.op("ReduceSumD", [x], "bad", axes="first")
    with pytest.raises(AtcError) as caught:
        lower(graph)
    assert caught.value.code == "E14001" and "bad" in caught.value.message


def test_a_site_knows_constants_and_shapes() -> None:
    graph, (x,) = native((2, -1))
    constant = graph.const(np.array([1, 2], np.int64))
    site = site_of(graph.op("Reshape", [x, constant, None], "r", keep=True))
    assert site.inputs == ["x0", constant.name, None]
    assert site.input_dtypes == [0, 9, -1] and site.input_shapes == [(2, -1), (2,), None]
    assert site.constants[0] is None and site.constants[1] is not None and site.constants[1].tolist() == [1, 2]
    assert (site.type, site.name, site.attrs, site.outputs) == ("Reshape", "r", {"keep": True}, 1)
