"""The ONNX reader: names, weights of every kind, constants, nested bodies, and files that are faulty."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.base.dtypes import from_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import compute, original

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.array([[1.5, -2.0, 3.0]], np.float32)


def info(name: str, dtype: int = FLOAT, dims: Any = (1, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: Any = (), opset: int = 13) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def load(made: onnx.ModelProto, folder: Path) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(made.SerializeToString())
    graph, _ = read(path)
    graph.verify()
    return graph


def refused(made: onnx.ModelProto, folder: Path) -> AtcError:
    with pytest.raises(AtcError) as caught:
        load(made, folder)
    return caught.value


def check(made: onnx.ModelProto, folder: Path, feeds: dict[str, Any] | None = None) -> Graph:
    """The graph computes what onnxruntime computes from the file."""
    feeds = {"x": X} if feeds is None else feeds
    graph = load(made, folder)
    infer_graph(graph)
    for found, wanted in zip(compute(graph, feeds), original(made, feeds), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return graph


# ---- names -----------------------------------------------------------------------------------------------------------


def test_names_of_inputs_nodes_and_outputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["m"], "first"), helper.make_node("Neg", ["m"], ["y"], "second")]
    graph = check(model(nodes, [info("x")], [info("y"), info("m")]), tmp_path)
    assert [node.name for node in graph.inputs] == ["x"]
    assert graph.inputs[0].output.shape == (1, 3)
    assert [one.name for one in graph.outputs] == ["second:0:y", "first:0:m"]


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
    made = model(nodes, [info("x", dims=(2, 1, 3))], [info("y", dims=(1, 1, 2))], weights)
    graph = check(made, tmp_path, {"x": random.random((2, 1, 3), np.float32)})
    clip, rnn = graph.node("clip"), graph.node("rnn")
    assert clip is not None and rnn is not None
    assert clip.inputs[1] is None and clip.inputs[2] is not None
    assert len(rnn.outputs) == 2 and len({value.name for value in rnn.outputs}) == 2


def test_words_of_open_dims(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "z"], ["y"], "add")]
    made = model(nodes, [info("x", dims=["n", 3, None]), info("z", dims=["n", 1, 4])], [info("y", dims=None)])
    graph = load(made, tmp_path)
    assert [node.output.shape for node in graph.inputs] == [(-1, 3, -1), (-1, 1, 4)]
    assert [node.output.words[0] for node in graph.inputs] == ["n", "n"]


def test_a_weight_that_is_listed_as_input(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.float32([[1, 2, 3]]), "w")
    made = model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x"), info("w")], [info("y")], [weight])
    assert [node.name for node in check(made, tmp_path).inputs] == ["x"]


# ---- weights ---------------------------------------------------------------------------------------------------------

ARRAYS = [
    np.array([1.5, -2, np.inf], np.float32), np.array([1.5, -2, 65504], np.float16), np.array([1e300, -2, 0], np.float64),
    np.array([-128, 0, 127], np.int8), np.array([-32768, 0, 32767], np.int16), np.array([-(2**31), 0, 2**31 - 1], np.int32),
    np.array([-(2**63), 0, 2**63 - 1], np.int64), np.array([0, 1, 255], np.uint8), np.array([0, 1, 65535], np.uint16),
    np.array([0, 1, 2**32 - 1], np.uint32), np.array([0, 1, 2**64 - 1], np.uint64), np.array([True, False, True]),
]  # fmt: skip


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda one: str(one.dtype))
def test_weights_of_every_type(array: Any, typed: bool, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(array, "w")
    if typed:
        values = array.view(np.uint16).tolist() if array.dtype == np.float16 else [one.item() for one in array]
        values = [int(one) for one in values] if array.dtype == bool else values
        tensor = TensorProto(name="w", data_type=tensor.data_type, dims=[3])
        fields = {FLOAT: "float_data", TensorProto.DOUBLE: "double_data", INT64: "int64_data"}
        fields |= {TensorProto.UINT32: "uint64_data", TensorProto.UINT64: "uint64_data"}
        getattr(tensor, fields.get(tensor.data_type, "int32_data")).extend(values)
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)  # the test's own message is right
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    graph = load(made, tmp_path)
    node = graph.node("w")
    assert node is not None and node.data is not None
    assert node.data.dtype == from_onnx(tensor.data_type)
    found = node.data.array()
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_odd_shapes(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.zeros(shape, np.float32)
    made = model(
        [helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [numpy_helper.from_array(array, "w")]
    )
    node = load(made, tmp_path).node("w")
    assert node is not None and node.data is not None and node.data.array().shape == shape


def test_a_bfloat16_weight_keeps_its_bits(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[2], raw_data=b"\x80\x3f\x00\xc0")
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    node = load(made, tmp_path).node("w")
    assert node is not None and node.data is not None
    assert (node.data.dtype, bytes(node.data.data)) == (27, b"\x80\x3f\x00\xc0")


def test_strings_are_carried(tmp_path: Path) -> None:
    tensor = helper.make_tensor("w", TensorProto.STRING, [2], [b"one", b"zwei"])
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    node = load(made, tmp_path).node("w")
    assert node is not None and node.data is not None and node.data.dtype == 13
    assert list(TensorProto.FromString(bytes(node.data.data)).string_data) == [b"one", b"zwei"]


@pytest.mark.parametrize(
    "change",
    [
        {"raw_data": b"123"},
        {"dims": [-1]},
        {"dims": [4]},
        {"data_type": 0},
        {"data_type": 99},
        {"dims": [1 << 40]},
    ],
    ids=str,
)
def test_damaged_weights(change: dict[str, Any], tmp_path: Path) -> None:
    rows: dict[str, Any] = {"name": "w", "data_type": FLOAT, "dims": [3], "raw_data": bytes(12), **change}
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [TensorProto(**rows)])
    error = refused(made, tmp_path)
    assert error.code == "E10041" and "[w]" in error.message


# ---- external weights ------------------------------------------------------------------------------------------------


def external(folder: Path, location: str = "data.bin", **fields: Any) -> Any:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[1, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x")], [info("y")], [tensor])


@pytest.mark.parametrize("fields", [{}, {"length": 12}, {"offset": 0, "length": 12}, {"offset": 8, "length": 12}])
def test_external_weights(fields: dict[str, Any], tmp_path: Path) -> None:
    values = np.arange(5, dtype=np.float32)
    (tmp_path / "data.bin").write_bytes(values.tobytes() if "offset" in fields else values[:3].tobytes())
    node = load(external(tmp_path, **fields), tmp_path).node("w")
    assert node is not None and node.data is not None
    first = fields.get("offset", 0) // 4
    np.testing.assert_array_equal(node.data.array(), values[first : first + 3].reshape(1, 3))


def test_external_weights_in_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "w.bin").write_bytes(np.float32([1, 2, 3]).tobytes())
    node = load(external(tmp_path, "parts/w.bin"), tmp_path).node("w")
    assert node is not None and node.data is not None
    np.testing.assert_array_equal(node.data.array(), [[1, 2, 3]])


@pytest.mark.parametrize(
    ("location", "fields"),
    [
        ("", {}),
        ("../secret.bin", {}),
        ("/etc/passwd", {}),
        ("data.bin", {"offset": 4}),
        ("data.bin", {"offset": -4, "length": 12}),
        ("data.bin", {"length": 8}),
        ("data.bin", {"offset": "many"}),
        ("link.bin", {}),
    ],
)
def test_external_weights_that_are_refused(location: str, fields: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    (folder / "data.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    assert refused(external(folder, location, **fields), folder).code == "E10041"


def test_a_missing_external_file(tmp_path: Path) -> None:
    error = refused(external(tmp_path, "nothing.bin"), tmp_path)
    assert "nothing.bin" in error.message


# ---- sparse weights and constants ------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_weights(flat: bool, tmp_path: Path) -> None:
    dense = np.float32([[0, 2, 0], [3, 0, 4]])
    places = np.flatnonzero(dense) if flat else np.argwhere(dense)
    values = numpy_helper.from_array(dense[dense != 0], "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places.astype(np.int64), "i"), [2, 3])
    made = model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x")], [info("y", dims=(2, 3))])
    made.graph.sparse_initializer.append(sparse)
    graph = load(made, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], X + dense)


@pytest.mark.parametrize("indices", [[9], [0, 1]])
def test_damaged_sparse_weights(indices: list[int], tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.float32([1]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), "i"), [3])
    made = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")])
    made.graph.sparse_initializer.append(sparse)
    if indices == [0, 1]:
        made.graph.sparse_initializer[0].values.dims[0] = 5
    assert refused(made, tmp_path).code == "E10041"


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ({"value": numpy_helper.from_array(np.float32([[1, 2, 3]]))}, np.float32([[1, 2, 3]])),
        ({"value_float": 2.5}, np.float32(2.5)),
        ({"value_floats": [1.0, 2.0, 3.0]}, np.float32([1, 2, 3])),
    ],
    ids=["value", "value_float", "value_floats"],
)
def test_constant_nodes(attrs: dict[str, Any], wanted: Any, tmp_path: Path) -> None:
    nodes = [helper.make_node("Constant", [], ["c"], "const", **attrs), helper.make_node("Add", ["x", "c"], ["y"])]
    graph = check(model(nodes, [info("x")], [info("y")]), tmp_path)
    node = graph.node("const")
    assert node is not None and node.type == "Const" and node.data is not None
    np.testing.assert_array_equal(node.data.array(), wanted)
    assert node.data.array().shape == np.shape(wanted)


@pytest.mark.parametrize(("attrs", "shape"), [({"value_int": 7}, ()), ({"value_ints": [7, 8]}, (2,))])
def test_constant_nodes_of_integers(attrs: dict[str, Any], shape: Any, tmp_path: Path) -> None:
    nodes = [helper.make_node("Constant", [], ["c"], "const", **attrs), helper.make_node("Identity", ["c"], ["y"])]
    graph = check(model(nodes, [info("x")], [info("y", INT64, shape)]), tmp_path)
    node = graph.node("const")
    assert node is not None and node.type == "Const" and node.data is not None and node.data.dtype == 9


def test_a_sparse_constant_is_computed(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.float32([2, 4]), "v")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 2], np.int64), "i"), [3])
    nodes = [
        helper.make_node("Constant", [], ["c"], "const", sparse_value=sparse),
        helper.make_node("Add", ["x", "c"], ["y"], "add"),
    ]
    made = model(nodes, [info("x")], [info("y")])
    np.testing.assert_array_equal(original(made, {"x": X})[0], X + np.float32([2, 0, 4]))  # the engine can do it
    check(made, tmp_path)


# ---- nested bodies ---------------------------------------------------------------------------------------------------


def test_if_takes_values_from_around_it(tmp_path: Path) -> None:
    then = helper.make_graph([helper.make_node("Add", ["m", "w"], ["t"])], "then", [], [info("t")])
    other = helper.make_graph([helper.make_node("Sub", ["x", "w"], ["e"])], "else", [], [info("e")])
    nodes = [
        helper.make_node("Neg", ["x"], ["m"], "neg"),
        helper.make_node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    weights = [numpy_helper.from_array(np.float32([[10, 20, 30]]), "w")]
    made = model(nodes, [info("x"), info("flag", BOOL, ())], [info("y")], weights)
    graph = load(made, tmp_path)
    node = graph.node("choice")
    assert node is not None
    assert [value.name for value in node.inputs if value is not None] == ["flag", "m", "w", "x"]
    infer_graph(graph)
    for flag in (True, False):
        feeds = {"x": X, "flag": np.array(flag)}
        np.testing.assert_array_equal(compute(graph, feeds)[0], original(made, feeds)[0])


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
    made = model(nodes, [info("x")], [info("y", dims=None)], [numpy_helper.from_array(np.array(3, np.int64), "count")])
    graph = load(made, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], X + 3 * np.abs(X))


# ---- faulty files ----------------------------------------------------------------------------------------------------


def relu(**changes: Any) -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"], "relu")], [info("x")], [info("y")], **changes)


def test_an_input_that_nothing_gives(tmp_path: Path) -> None:
    made = model([helper.make_node("Add", ["x", "ghost"], ["y"], "add")], [info("x")], [info("y")])
    error = refused(made, tmp_path)
    assert error.code == "E16001" and "[add]" in error.message and "[ghost]" in error.message


def test_an_output_that_nothing_makes(tmp_path: Path) -> None:
    made = relu()
    made.graph.output.append(info("ghost"))
    error = refused(made, tmp_path)
    assert error.code == "E16001" and "[ghost]" in error.message


def test_a_tensor_that_is_made_twice(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "one"), helper.make_node("Neg", ["x"], ["y"], "two")]
    error = refused(model(nodes, [info("x")], [info("y")]), tmp_path)
    assert error.code == "E19009" and "[y]" in error.message and "[two]" in error.message


def test_a_node_that_makes_an_input(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["x"], "one"), helper.make_node("Neg", ["x"], ["y"], "two")]
    assert refused(model(nodes, [info("x")], [info("y")]), tmp_path).code == "E19009"


def test_an_input_that_is_there_twice(tmp_path: Path) -> None:
    made = relu()
    made.graph.input.append(info("x"))
    assert refused(made, tmp_path).code == "E19009"


def test_no_outputs_and_no_graph(tmp_path: Path) -> None:
    made = relu()
    del made.graph.output[:]
    assert refused(made, tmp_path).code == "E16001"
    made.ClearField("graph")
    assert refused(made, tmp_path).code == "E16004"


def test_a_node_without_outputs(tmp_path: Path) -> None:
    made = relu()
    made.graph.node.append(helper.make_node("Relu", ["x"], [], "mute"))
    error = refused(made, tmp_path)
    assert error.code == "E16001" and "[mute]" in error.message


@pytest.mark.parametrize("side", ["input", "output"])
def test_sequences_cannot_go_in_or_out(side: str, tmp_path: Path) -> None:
    made = relu()
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    if side == "input":
        made.graph.input.append(sequence)
    else:
        made.graph.node.append(helper.make_node("SequenceConstruct", ["x"], ["s"], "pack"))
        made.graph.output.append(sequence)
    error = refused(made, tmp_path)
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


def test_opset_rules(tmp_path: Path) -> None:
    made = relu()
    made.opset_import.append(helper.make_opsetid("ai.onnx", 13))  # the same under its other name
    assert load(made, tmp_path).opsets[""] == 13
    made.opset_import.append(helper.make_opsetid("", 14))
    assert refused(made, tmp_path).code == "E16005"
    del made.opset_import[:]
    assert refused(made, tmp_path).code == "E19999"


def test_functions_of_the_model_itself(tmp_path: Path) -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    function = helper.make_function("mine", "Twist", ["a"], ["b"], body, [helper.make_opsetid("", 13)])
    made = model([helper.make_node("Twist", ["x"], ["y"], "twist", domain="mine")], [info("x")], [info("y")])
    made.opset_import.append(helper.make_opsetid("mine", 1))
    made.functions.append(function)
    graph = load(made, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], -X)
