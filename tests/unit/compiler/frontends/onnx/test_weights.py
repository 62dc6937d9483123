"""The ONNX reader: weights of every kind, inside and outside of the file, and constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from softnpu.base.dtypes import from_onnx
from softnpu.compiler.lowering.infer import infer_graph
from tests.unit.compiler.frontends.onnx.onnx_files import FLOAT, INT64, X, check, info, load, model, refused
from tests.unit.compiler.onnx_graphs import compute, original

ARRAYS = [
    np.array([1.5, -2, np.inf], np.float32), np.array([1.5, -2, 65504], np.float16), np.array([1e300, -2, 0], np.float64),
    np.array([-128, 0, 127], np.int8), np.array([-32768, 0, 32767], np.int16), np.array([-(2**31), 0, 2**31 - 1], np.int32),
    np.array([-(2**63), 0, 2**63 - 1], np.int64), np.array([0, 1, 255], np.uint8), np.array([0, 1, 65535], np.uint16),
    np.array([0, 1, 2**32 - 1], np.uint32), np.array([0, 1, 2**64 - 1], np.uint64), np.array([True, False, True]),
]  # fmt: skip


@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda item: str(item.dtype))
def test_weights_of_every_type(array: Any, typed: bool, tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(array, "w")
    if typed:
        values = array.view(np.uint16).tolist() if array.dtype == np.float16 else [item.item() for item in array]
        values = [int(item) for item in values] if array.dtype == bool else values
        tensor = TensorProto(name="w", data_type=tensor.data_type, dims=[3])
        fields = {FLOAT: "float_data", TensorProto.DOUBLE: "double_data", INT64: "int64_data"}
        fields |= {TensorProto.UINT32: "uint64_data", TensorProto.UINT64: "uint64_data"}
        getattr(tensor, fields.get(tensor.data_type, "int32_data")).extend(values)
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), array)  # the test's own message is right
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    graph = load(proto, tmp_path)
    node = graph.node("w")
    assert node is not None and node.data is not None
    assert node.data.dtype == from_onnx(tensor.data_type)
    stored = node.data.array()
    assert stored.dtype == array.dtype and stored.tobytes() == array.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_weights_of_odd_shapes_are_read(shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.zeros(shape, np.float32)
    proto = model(
        [helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [numpy_helper.from_array(array, "w")]
    )
    node = load(proto, tmp_path).node("w")
    assert node is not None and node.data is not None and node.data.array().shape == shape


def test_a_bfloat16_weight_keeps_its_bits(tmp_path: Path) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.BFLOAT16, dims=[2], raw_data=b"\x80\x3f\x00\xc0")
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    node = load(proto, tmp_path).node("w")
    assert node is not None and node.data is not None
    assert (node.data.dtype, bytes(node.data.data)) == (27, b"\x80\x3f\x00\xc0")


def test_strings_are_carried(tmp_path: Path) -> None:
    tensor = helper.make_tensor("w", TensorProto.STRING, [2], [b"one", b"zwei"])
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [tensor])
    node = load(proto, tmp_path).node("w")
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
def test_damaged_weights_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    rows: dict[str, Any] = {"name": "w", "data_type": FLOAT, "dims": [3], "raw_data": bytes(12), **change}
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")], [TensorProto(**rows)])
    error = refused(proto, tmp_path)
    assert error.code == "E10041" and "[w]" in error.message


# ---- external weights ------------------------------------------------------------------------------------------------


def external(folder: Path, location: str = "data.bin", **fields: Any) -> Any:
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[1, 3], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **fields}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x")], [info("y")], [tensor])


@pytest.mark.parametrize("fields", [{}, {"length": 12}, {"offset": 0, "length": 12}, {"offset": 8, "length": 12}])
def test_external_weights_are_read_from_their_file(fields: dict[str, Any], tmp_path: Path) -> None:
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
def test_sparse_weights_become_dense(flat: bool, tmp_path: Path) -> None:
    dense = np.float32([[0, 2, 0], [3, 0, 4]])
    places = np.flatnonzero(dense) if flat else np.argwhere(dense)
    values = numpy_helper.from_array(dense[dense != 0], "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(places.astype(np.int64), "i"), [2, 3])
    proto = model([helper.make_node("Add", ["x", "w"], ["y"], "add")], [info("x")], [info("y", dims=(2, 3))])
    proto.graph.sparse_initializer.append(sparse)
    graph = load(proto, tmp_path)
    infer_graph(graph)
    np.testing.assert_array_equal(compute(graph, {"x": X})[0], X + dense)


@pytest.mark.parametrize("indices", [[9], [0, 1]])
def test_damaged_sparse_weights(indices: list[int], tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.float32([1]), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), "i"), [3])
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")])
    proto.graph.sparse_initializer.append(sparse)
    if indices == [0, 1]:
        proto.graph.sparse_initializer[0].values.dims[0] = 5
    assert refused(proto, tmp_path).code == "E10041"


@pytest.mark.parametrize(
    ("attrs", "wanted"),
    [
        ({"value": numpy_helper.from_array(np.float32([[1, 2, 3]]))}, np.float32([[1, 2, 3]])),
        ({"value_float": 2.5}, np.float32(2.5)),
        ({"value_floats": [1.0, 2.0, 3.0]}, np.float32([1, 2, 3])),
    ],
    ids=["value", "value_float", "value_floats"],
)
def test_constant_nodes_become_constants(attrs: dict[str, Any], wanted: Any, tmp_path: Path) -> None:
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
    proto = model(nodes, [info("x")], [info("y")])
    np.testing.assert_array_equal(original(proto, {"x": X})[0], X + np.float32([2, 0, 4]))  # the engine can do it
    check(proto, tmp_path)
