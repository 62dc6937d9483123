"""The ONNX reader: names, nested bodies, operator sets, and files that are faulty."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.lowering.infer import infer_graph
from tests.unit.compiler.frontends.onnx.onnx_files import BOOL, FLOAT, INT64, X, check, info, load, model, refused
from tests.unit.compiler.onnx_graphs import compute, original


def test_names_of_inputs_nodes_and_outputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["m"], "first"), helper.make_node("Neg", ["m"], ["y"], "second")]
    graph = check(model(nodes, [info("x")], [info("y"), info("m")]), tmp_path)
    assert [node.name for node in graph.inputs] == ["x"]
    assert graph.inputs[0].output.shape == (1, 3)
    assert [output.name for output in graph.outputs] == ["second:0:y", "first:0:m"]


def test_nodes_without_names_and_with_the_same_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"], "same"),
        helper.make_node("Abs", ["b"], ["c"], "same"),
        helper.make_node("Exp", ["c"], ["d"], "x"),  # an input's name
        helper.make_node("Neg", ["d"], ["y"], "Relu_0"),  # the name that the first would get
    ]
    graph = load(model(nodes, [info("x")], [info("y")]), tmp_path)
    infer_graph(graph)
    np.testing.assert_allclose(compute(graph, {"x": X})[0], -np.exp(np.maximum(X, 0)), rtol=1e-6)
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names) == 6
    assert "same" in names and "Relu_0" in names and all(names)


def test_nodes_in_any_order(tmp_path: Path) -> None:
    nodes = [helper.make_node("Neg", ["m"], ["y"], "late"), helper.make_node("Relu", ["x"], ["m"], "early")]
    graph = load(model(nodes, [info("x")], [info("y")]), tmp_path)
    assert [node.name for node in graph.nodes] == ["x", "early", "late"]
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], -np.maximum(X, 0))


def test_empty_names_are_absent_inputs_and_unused_outputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Clip", ["x", "", "high"], ["c"], "clip"),
        helper.make_node("RNN", ["c", "w", "r"], ["", "y"], "rnn", hidden_size=2),
    ]
    random = np.random.default_rng(1)
    arrays = {
        "high": np.float32(1),
        "w": random.random((1, 2, 3), np.float32),
        "r": random.random((1, 2, 2), np.float32),
    }
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    proto = model(nodes, [info("x", dims=(2, 1, 3))], [info("y", dims=(1, 1, 2))], weights)
    graph = check(proto, tmp_path, {"x": random.random((2, 1, 3), np.float32)})
    clip, rnn = graph.node("clip"), graph.node("rnn")
    assert clip is not None and rnn is not None
    assert clip.inputs[1] is None and clip.inputs[2] is not None
    assert len(rnn.outputs) == 2 and len({value.name for value in rnn.outputs}) == 2


def test_words_of_open_dims(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], "add")]
    proto = model(nodes, [info("x", dims=["n", 3, None]), info("z", dims=["n", 1, 4])], [info("y", dims=None)])
    graph = load(proto, tmp_path)
    assert [node.output.shape for node in graph.inputs] == [(-1, 3, -1), (-1, 1, 4)]
    assert [node.output.words[0] for node in graph.inputs] == ["n", "n"]


def test_a_weight_that_is_listed_as_input(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.float32([[1, 2, 3]]), "w")
    proto = model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x"), info("w")], [info("y")], [weight])
    assert [node.name for node in check(proto, tmp_path).inputs] == ["x"]


# ---- nested bodies ---------------------------------------------------------------------------------------------------


def test_if_takes_values_from_around_it(tmp_path: Path) -> None:
    then = helper.make_graph([helper.make_node("Add", ["m", "w"], ["t"])], "then", [], [info("t")])
    other = helper.make_graph([helper.make_node("Sub", ["x", "w"], ["e"])], "else", [], [info("e")])
    nodes = [
        helper.make_node("Neg", ["x"], ["m"], "neg"),
        helper.make_node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    weights = [numpy_helper.from_array(np.float32([[10, 20, 30]]), "w")]
    proto = model(nodes, [info("x"), info("flag", BOOL, ())], [info("y")], weights)
    graph = load(proto, tmp_path)
    node = graph.node("choice")
    assert node is not None
    assert [value.name for value in node.inputs if value is not None] == ["flag", "m", "w", "x"]
    infer_graph(graph)
    for flag in (True, False):
        feeds = {"x": X, "flag": np.array(flag)}
        np.testing.assert_array_equal(compute(graph, feeds)[0], original(proto, feeds)[0])


def test_loop_takes_values_from_around_it(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "outer"], ["next"]),
            helper.make_node("Identity", ["go"], ["go_out"]),
        ],
        "body",
        [info("i", INT64, ()), info("go", BOOL, ()), info("state")],
        [info("go_out", BOOL, ()), info("next")],
    )
    nodes = [
        helper.make_node("Abs", ["x"], ["outer"], "abs"),
        helper.make_node("Loop", ["count", "", "x"], ["y"], "loop", body=body),
    ]
    proto = model(nodes, [info("x")], [info("y", dims=None)], [numpy_helper.from_array(np.array(3, np.int64), "count")])
    graph = load(proto, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], X + 3 * np.abs(X))


# ---- faulty files ----------------------------------------------------------------------------------------------------


def relu(**changes: Any) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], "relu")], [info("x")], [info("y")], **changes)


def test_an_input_that_nothing_gives(tmp_path: Path) -> None:
    proto = model([helper.make_node("Add", ["x", "ghost"], ["y"], "add")], [info("x")], [info("y")])
    error = refused(proto, tmp_path)
    assert error.code == "E16001" and "[add]" in error.message and "[ghost]" in error.message


def test_an_output_that_nothing_makes(tmp_path: Path) -> None:
    proto = relu()
    proto.graph.output.append(info("ghost"))
    error = refused(proto, tmp_path)
    assert error.code == "E16001" and "[ghost]" in error.message


def test_a_tensor_that_is_made_twice(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "one"), helper.make_node("Neg", ["x"], ["y"], "two")]
    error = refused(model(nodes, [info("x")], [info("y")]), tmp_path)
    assert error.code == "E19009" and "[y]" in error.message and "[two]" in error.message


def test_a_node_that_makes_an_input(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["x"], "one"), helper.make_node("Neg", ["x"], ["y"], "two")]
    assert refused(model(nodes, [info("x")], [info("y")]), tmp_path).code == "E19009"


def test_an_input_that_is_there_twice(tmp_path: Path) -> None:
    proto = relu()
    proto.graph.input.append(info("x"))
    assert refused(proto, tmp_path).code == "E19009"


def test_no_outputs_and_no_graph(tmp_path: Path) -> None:
    proto = relu()
    del proto.graph.output[:]
    assert refused(proto, tmp_path).code == "E16001"
    proto.ClearField("graph")
    assert refused(proto, tmp_path).code == "E16004"


def test_a_node_without_outputs(tmp_path: Path) -> None:
    proto = relu()
    proto.graph.node.append(helper.make_node("Relu", ["x"], [], "mute"))
    error = refused(proto, tmp_path)
    assert error.code == "E16001" and "[mute]" in error.message


@pytest.mark.parametrize("side", ["input", "output"])
def test_sequences_cannot_go_in_or_out(side: str, tmp_path: Path) -> None:
    proto = relu()
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    if side == "input":
        proto.graph.input.append(sequence)
    else:
        proto.graph.node.append(helper.make_node("SequenceConstruct", ["x"], ["s"], "pack"))
        proto.graph.output.append(sequence)
    error = refused(proto, tmp_path)
    assert error.code == "E10055" and "[s]" in error.message


def test_circles_are_noticed(tmp_path: Path) -> None:
    """In a process of its own, since a sort that never ended took all memory."""
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "one"), helper.make_node("Neg", ["a"], ["b"], "two")]
    path = tmp_path / "model.onnx"
    path.write_bytes(model(nodes, [info("x")], [info("a")]).SerializeToString())
    program = """
import resource, sys
from pathlib import Path
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.errors import AtcError
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
try:
    read(Path(sys.argv[1]))[0].verify()
except (AtcError, ValueError) as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "refused:" in done.stdout


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\xff", b"not a model", b"\x3a\x05abc"])
def test_no_onnx_at_all(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with pytest.raises(AtcError) as caught:
        read(path)
    assert caught.value.code in ("E10041", "E16004")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.onnx", tmp_path):
        with pytest.raises(AtcError) as caught:
            read(path)
        assert caught.value.code == "E10410"
    empty = tmp_path / "empty.onnx"
    empty.write_bytes(b"")
    with pytest.raises(AtcError) as caught:
        read(empty)
    assert caught.value.code == "E16004"


def test_every_prefix_of_a_file_is_refused_in_words(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.float32([[1, 2, 3]]), "w")
    data = model(
        [helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x")], [info("y")], [weight]
    ).SerializeToString()
    path = tmp_path / "model.onnx"
    for length in range(0, len(data), 3):
        path.write_bytes(data[:length])
        with pytest.raises(AtcError):
            read(path)[0].verify()


# ---- operator sets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("opset", "noted"), [(11, False), (18, False), (9, True), (19, True)])
def test_opsets_outside_of_the_manual_are_told(opset: int, noted: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(relu(opset=opset).SerializeToString())
    graph, notes = read(path)
    assert graph.opsets[""] == opset
    assert bool(notes) == noted and (not noted or str(opset) in notes[0])


def test_a_model_imports_one_version_of_an_operator_set(tmp_path: Path) -> None:
    proto = relu()
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 13))  # the same under its other name
    assert load(proto, tmp_path).opsets[""] == 13
    proto.opset_import.append(helper.make_opsetid("", 14))
    assert refused(proto, tmp_path).code == "E16005"
    del proto.opset_import[:]
    assert refused(proto, tmp_path).code == "E19999"


def test_functions_of_the_model_itself(tmp_path: Path) -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function("mine", "Twist", ["a"], ["b"], body, [helper.make_opsetid("", 13)])
    proto = model([helper.make_node("Twist", ["x"], ["y"], "twist", domain="mine")], [info("x")], [info("y")])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    proto.functions.append(function)
    graph = load(proto, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], -X)
