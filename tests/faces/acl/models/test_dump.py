"""Dumps: files below dump_path, read back by hand, the callback, overflow, failed operators."""

from __future__ import annotations

import csv
import json
import os
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import acl
from softnpu.compiler import build
from softnpu.compiler.options import checks
from softnpu.compiler.options.rows import parse
from tests.support import message, ok

Array = np.ndarray[Any, Any]
Fields = dict[int, list[Any]]
UNINITIALIZE, REPEAT, BAD_PARAM, NO_FILE, BAD_DUMP, NOT_RUN = 100001, 100002, 100000, 100003, 100009, 100045
NUMPY = {1: "<f4", 2: "<f2", 3: "i1", 4: "u1", 7: "<i4", 8: "<i8", 11: "?", 12: "<f8"}  # data_type of dump files
WEIGHT = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) / 7
BIAS = np.array([0.5, -1.0, 2.0], np.float32)

pytestmark = pytest.mark.usefixtures("fresh")


# ---- reading dump files ----------------------------------------------------------------------------------------------


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> Fields:
    """A protobuf message as field number → values; numbers are numbers, the rest is bytes."""
    by_tag: Fields = {}
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value: Any
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        by_tag.setdefault(tag >> 3, []).append(value)
    return by_tag


def dims(message: bytes) -> tuple[int, ...]:
    shape = fields(message)
    if 1 not in shape:
        return ()
    if not isinstance(shape[1][0], bytes):
        return tuple(shape[1])
    packed, at, sizes = shape[1][0], 0, []
    while at < len(packed):
        size, at = varint(packed, at)
        sizes.append(size)
    return tuple(sizes)


class DumpFile:
    """A dump file: 8 bytes of length, DumpData, then the raw inputs and outputs."""

    def __init__(self, data: bytes) -> None:
        (size,) = struct.unpack_from("<Q", data)
        self.head = fields(data[8 : 8 + size])
        self.name = self.head[6][0].decode()
        self.time = self.head[2][0]
        rest = data[8 + size :]
        self.inputs, rest = self._take(4, 5, rest)
        self.outputs, rest = self._take(3, 6, rest)
        assert rest == b""

    def _take(self, number: int, size_field: int, rest: bytes) -> tuple[list[Array], bytes]:
        arrays = []
        for field in map(fields, self.head.get(number, [])):
            size = field.get(size_field, [0])[0]
            array = np.frombuffer(rest[:size], NUMPY[field[1][0]]).reshape(dims(field.get(3, [b""])[0]))
            arrays.append(array)
            rest = rest[size:]
        return arrays, rest


def dumped(folder: Path) -> dict[str, DumpFile]:
    """Dump files below a folder, by operator name."""
    by_name = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            file = DumpFile(path.read_bytes())
            by_name[file.name] = file
    return by_name


# ---- models ----------------------------------------------------------------------------------------------------------


def convert(
    folder: Path, name: str, nodes: list[Any], inputs: dict[str, Any], output: str, weights: dict[str, Array]
) -> str:
    """A model file; an input is its ONNX type and dims."""
    infos = [helper.make_tensor_value_info(key, *info) for key, info in inputs.items()]
    tensors = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_empty_tensor_value_info(output)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, folder / f"{name}.onnx")
    words = [f"--model={folder}/{name}.onnx", "--framework=5", f"--output={folder}/{name}", "--soc_version=Ascend310P3"]
    made_options = parse(words)
    checks.check(made_options)
    return str(build.build(made_options).files[0])


@pytest.fixture
def om(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """y = relu(x · WEIGHT + BIAS), as two nodes or three, whose last is named "top/relu.1"."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "fc"),
        helper.make_node("Add", ["m", "b"], ["a"], "bias"),
        helper.make_node("Relu", ["a"], ["y"], "top/relu.1"),
    ]
    return convert(tmp_path, "net", nodes, {"x": (TensorProto.FLOAT, [2, 4])}, "y", {"w": WEIGHT, "b": BIAS})


class Loaded:
    """A model with its datasets."""

    def __init__(self, path: str) -> None:
        self.id: int = ok(acl.mdl.load_from_file(path))
        self.desc = acl.mdl.create_desc()
        ok(acl.mdl.get_desc(self.desc, self.id))
        self.inputs, self.outputs = acl.mdl.create_dataset(), acl.mdl.create_dataset()
        self.sizes: list[list[int]] = [[], []]
        self.places: list[list[int]] = [[], []]
        for side, (dataset, count, size_of) in enumerate(
            (
                (self.inputs, acl.mdl.get_num_inputs, acl.mdl.get_input_size_by_index),
                (self.outputs, acl.mdl.get_num_outputs, acl.mdl.get_output_size_by_index),
            )
        ):
            for index in range(count(self.desc)):
                size = size_of(self.desc, index)
                place = ok(acl.rt.malloc(size, 0))
                ok(acl.mdl.add_dataset_buffer(dataset, acl.create_data_buffer(place, size)))
                self.sizes[side].append(size)
                self.places[side].append(place)

    def fill(self, *arrays: Array) -> None:
        for place, array in zip(self.places[0], arrays, strict=True):
            data = np.ascontiguousarray(array)
            ok(acl.rt.memcpy(place, data.nbytes, data.ctypes.data, data.nbytes, 1))

    def __call__(self, *arrays: Array) -> Array:
        self.fill(*arrays)
        ok(acl.mdl.execute(self.id, self.inputs, self.outputs))
        host = np.zeros(self.sizes[1][0], np.uint8)
        ok(acl.rt.memcpy(host.ctypes.data, host.nbytes, self.places[1][0], host.nbytes, 2))
        return host.view(np.float32)


def expected(x: Array) -> Array:
    wanted: Array = np.maximum(x @ WEIGHT + BIAS, 0)
    return wanted


X = np.array([[1, 2, 3, 4], [-1, 0.5, 0, 2]], np.float32)
Start = Callable[..., Path]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Initialise with a dump section; answers the dump folder."""

    def begin(**section: Any) -> Path:
        folder = tmp_path / "dumps"
        folder.mkdir(exist_ok=True)
        config = tmp_path / "acl.json"
        config.write_text(
            json.dumps({"dump": {"dump_path": str(folder), **section}} if section else {}), encoding="utf-8"
        )
        ok(acl.init(str(config)))
        ok(acl.rt.set_device(0))
        return folder

    yield begin
    acl.finalize()


# ---- model dump ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [{"model_name": "net"}, {"model_name": "renamed"}])
def test_a_dump_lies_where_the_manual_says_and_holds_the_tensors(
    entry: dict[str, Any], om: str, start: Start, tmp_path: Path
) -> None:
    model_path = om
    if entry["model_name"] == "renamed":  # by the name of the file, whose inner name stays
        model_path = str(tmp_path / "renamed.om")
        os.rename(om, model_path)
    folder = start(dump_list=[entry], dump_mode="all")
    model = Loaded(model_path)
    for _ in range(2):
        np.testing.assert_allclose(model(X), expected(X).reshape(-1), rtol=1e-5, atol=1e-6)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    places = {re.match(rf"\d{{14}}/0/net/{model.id}/([01])/[^/]*$", str(path.relative_to(folder)))[1] for path in files}  # type: ignore[index]
    assert places == {"0", "1"}
    for path in files:
        kind, name, task, stream, timestamp = path.name.split(".")
        assert kind and name and task.isdigit() and stream.isdigit() and re.fullmatch(r"\d{16}", timestamp)
    last = next(path for path in files if "top_relu_1" in path.name)
    assert last.name.split(".")[1] == "top_relu_1"
    file = DumpFile(last.read_bytes())
    assert file.name == "top/relu.1" and file.head[1][0]
    np.testing.assert_allclose(file.outputs[0], expected(X), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(file.inputs[0], X @ WEIGHT + BIAS, rtol=1e-5, atol=1e-6)
    first = dumped(folder)["fc"]
    np.testing.assert_array_equal(first.inputs[0], X)
    np.testing.assert_array_equal(first.inputs[1], WEIGHT)
    original = fields(fields(first.head[3][0])[4][0])
    assert original[1][0].decode() in ("fc", "bias")


@pytest.mark.parametrize(
    ("mode", "inputs", "outputs"), [("input", True, False), ("output", False, True), (None, False, True)]
)
def test_the_mode_chooses_inputs_or_outputs(
    mode: str | None, inputs: bool, outputs: bool, om: str, start: Start
) -> None:
    folder = start(dump_list=[{"model_name": "net"}], **({"dump_mode": mode} if mode else {}))
    Loaded(om)(X)
    file = dumped(folder)["top/relu.1"]
    assert (bool(file.inputs), bool(file.outputs)) == (inputs, outputs)


def test_layers_by_either_name(om: str, start: Start) -> None:
    """`bias` is the name before conversion: it became part of another node, or is one itself."""
    folder = start(dump_list=[{"model_name": "net", "layer": ["bias", "no_such_layer"]}])
    Loaded(om)(X)
    (file,) = dumped(folder).values()
    np.testing.assert_allclose(file.outputs[0], X @ WEIGHT + BIAS, rtol=1e-5, atol=1e-6)


def test_only_the_steps_that_were_asked_for_are_dumped(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "net"}], dump_step="0|2-3")
    model = Loaded(om)
    for _ in range(6):
        model(X)
    assert sorted(path.name for path in folder.glob(f"*/0/net/{model.id}/*")) == ["0", "2", "3"]


def test_another_model_is_left_alone(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "other"}])
    Loaded(om)(X)
    assert not list(folder.iterdir())


def test_statistics_are_rows_of_a_table(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "net", "layer": ["top/relu.1"]}], dump_data="stats", dump_mode="all")
    Loaded(om)(X)
    (path,) = [item for item in folder.rglob("*") if item.is_file()]
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(item["Input/Output"], item["Index"]) for item in rows] == [("Input", "0"), ("Output", "0")]
    wanted = expected(X)
    assert rows[1]["Shape"] == "2x3" and rows[1]["Data Type"] == "FLOAT" and rows[1]["Count"] == "6"
    for word, value in (("Max Value", wanted.max()), ("Min Value", wanted.min()), ("Avg Value", wanted.mean())):
        assert float(rows[1][word]) == pytest.approx(float(value), rel=1e-5)
    assert [rows[1][word] for word in ("Nan Count", "Negative Inf Count", "Positive Inf Count")] == ["0", "0", "0"]


def test_nothing_half_written_stays(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "net"}])
    Loaded(om)(X)
    assert not list(folder.rglob(".*"))


def test_long_names_are_shortened_and_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.chdir(tmp_path)
    name = "block/" + "x" * 300
    nodes = [helper.make_node("Relu", ["x"], ["y"], name)]
    path = convert(tmp_path, "long", nodes, {"x": (TensorProto.FLOAT, [2, 4])}, "y", {})
    folder = start(dump_list=[{"model_name": "long"}])
    Loaded(path)(X)
    (listing,) = folder.rglob("mapping.csv")
    with listing.open(encoding="utf-8", newline="") as file:
        ((short, full),) = csv.reader(file)
    assert name.replace("/", "_") in full
    assert DumpFile((listing.parent / short).read_bytes()).name == name


# ---- control ---------------------------------------------------------------------------------------------------------


def write(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def test_dump_calls_out_of_order_are_refused(tmp_path: Path, start: Start) -> None:
    config = write(tmp_path / "dump.json", {"dump": {}})
    assert acl.mdl.init_dump() == UNINITIALIZE
    assert acl.mdl.set_dump(config) == UNINITIALIZE
    assert acl.mdl.finalize_dump() == UNINITIALIZE
    start()
    assert acl.mdl.set_dump(config) == NOT_RUN
    assert acl.mdl.finalize_dump() == NOT_RUN
    ok(acl.mdl.init_dump())
    assert acl.mdl.init_dump() == REPEAT
    assert acl.mdl.set_dump() == BAD_PARAM
    assert acl.mdl.set_dump(str(tmp_path / "none.json")) == NO_FILE
    ok(acl.mdl.set_dump(config))
    ok(acl.mdl.finalize_dump())
    assert acl.mdl.finalize_dump() == NOT_RUN
    ok(acl.mdl.init_dump())


@pytest.mark.parametrize(
    "content",
    [
        "{",
        [],
        {"dump": []},
        {"dump": {"dump_list": [{"model_name": "net"}]}},
        {"dump": {"dump_path": "/no/such/place", "dump_list": []}},
        {"dump": {"dump_path": ".", "dump_list": [], "dump_mode": "both"}},
        {"dump": {"dump_path": ".", "dump_list": [], "dump_step": "5-3"}},
        {"dump": {"dump_path": ".", "dump_list": [{"model_name": "net"}], "dump_debug": "on"}},
    ],
    ids=str,
)
def test_a_bad_configuration_is_refused(content: Any, tmp_path: Path, start: Start) -> None:
    start()
    ok(acl.mdl.init_dump())
    assert acl.mdl.set_dump(write(tmp_path / "dump.json", content)) == BAD_DUMP
    assert "Solution" in message()


def test_set_dump_holds_for_models_loaded_afterwards(om: str, tmp_path: Path, start: Start) -> None:
    start()
    folders = [tmp_path / name for name in ("one", "two")]
    configs = []
    for folder in folders:
        folder.mkdir()
        section = {"dump_path": str(folder), "dump_list": [{"model_name": "net", "layer": ["top/relu.1"]}]}
        configs.append(write(tmp_path / f"{folder.name}.json", {"dump": section}))
    before = Loaded(om)
    ok(acl.mdl.init_dump())
    ok(acl.mdl.set_dump(configs[0]))
    before(X)
    assert not dumped(folders[0])
    during = Loaded(om)
    during(X)
    assert set(dumped(folders[0])) == {"top/relu.1"}
    ok(acl.mdl.set_dump(configs[1]))
    Loaded(om)(X)
    assert set(dumped(folders[1])) == {"top/relu.1"}
    ok(acl.mdl.finalize_dump())
    count = len([path for path in folders[1].rglob("*") if path.is_file()])
    during(X)
    Loaded(om)(X)
    assert len([path for path in folders[1].rglob("*") if path.is_file()]) == count


def test_the_configuration_of_init_ends_with_finalize(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "net"}])
    Loaded(om)(X)
    count = len(dumped(folder))
    assert count
    ok(acl.finalize())


# ---- callback --------------------------------------------------------------------------------------------------------


def test_callback_instead_of_files(om: str, start: Start) -> None:
    folder = start(dump_list=[{"model_name": "net"}])
    chunks: list[dict[str, Any]] = []
    assert acl.mdl.dump_reg_callback(chunks.append, 1) == BAD_PARAM
    ok(acl.mdl.dump_reg_callback(chunks.append, 0))
    model = Loaded(om)
    model(X)
    assert not list(folder.rglob("*"))
    assert all(
        set(chunk) == {"file_name", "data_buf", "buf_len", "is_last_chunk", "offset", "flag"} for chunk in chunks
    )
    assert all(chunk["buf_len"] == len(chunk["data_buf"]) and chunk["is_last_chunk"] == 1 for chunk in chunks)
    files = {DumpFile(chunk["data_buf"]).name: chunk["file_name"] for chunk in chunks}
    assert "top/relu.1" in files and str(folder) in files["top/relu.1"]
    assert acl.mdl.dump_unreg_callback() is None
    model(X)
    assert dumped(folder)


def test_large_files_come_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.chdir(tmp_path)
    shape = [3, 1024, 1024]
    nodes = [helper.make_node("Neg", ["x"], ["y"], "minus")]
    path = convert(tmp_path, "large", nodes, {"x": (TensorProto.FLOAT, shape)}, "y", {})
    start(dump_list=[{"model_name": "large"}])
    chunks: list[dict[str, Any]] = []
    ok(acl.mdl.dump_reg_callback(chunks.append, 0))
    x = np.arange(3 << 20, dtype=np.float32).reshape(shape)
    Loaded(path)(x)
    assert len(chunks) > 1
    assert [chunk["is_last_chunk"] for chunk in chunks] == [0] * (len(chunks) - 1) + [1]
    data = b""
    for chunk in chunks:
        assert chunk["offset"] == len(data)
        data += chunk["data_buf"]
    np.testing.assert_array_equal(DumpFile(data).outputs[0], -x)


def test_a_callback_that_raises_does_not_stop_the_model(om: str, start: Start) -> None:
    start(dump_list=[{"model_name": "net"}])

    def bad(chunk: dict[str, Any]) -> None:
        raise ValueError(chunk["file_name"])

    ok(acl.mdl.dump_reg_callback(bad, 0))
    np.testing.assert_allclose(Loaded(om)(X), expected(X).reshape(-1), rtol=1e-5, atol=1e-6)


# ---- overflow --------------------------------------------------------------------------------------------------------


def test_the_first_operator_that_overflows_is_dumped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "fine"),
        helper.make_node("Exp", ["a"], ["e"], "grows"),
        helper.make_node("Neg", ["e"], ["y"], "follows"),
    ]
    path = convert(tmp_path, "exp", nodes, {"x": (TensorProto.FLOAT, [2, 4])}, "y", {})
    folder = start(dump_debug="on")
    model = Loaded(path)
    model(X)
    assert not list(folder.rglob("*")), "nothing overflowed yet"
    with np.errstate(over="ignore"):
        model(X * 100)
        wanted = np.exp(np.abs(X * 100))
    files = {path.name.split(".")[0]: path for path in folder.rglob("*") if path.is_file()}
    assert set(files) == {"Exp", "OpDebug"}
    data = DumpFile(files["Exp"].read_bytes())
    assert data.name == "grows"
    np.testing.assert_array_equal(data.inputs[0], np.abs(X * 100))
    np.testing.assert_allclose(data.outputs[0], wanted, rtol=1e-5)
    assert re.fullmatch(r"OpDebug\.Node_Opdebug\.\d+\.\d+\.\d{16}", files["OpDebug"].name)
    (record,) = DumpFile(files["OpDebug"].read_bytes()).outputs
    assert record.nbytes == 2048
    task = int(files["Exp"].name.split(".")[2])
    assert struct.unpack_from("<QQQ", record.tobytes(), 256)[::2] == (model.id, task)
    assert struct.unpack_from("<I", record.tobytes(), 1024) == (0x20,)


def test_overflow_of_a_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], "narrow", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["y"], "wide", to=TensorProto.FLOAT),
    ]
    path = convert(tmp_path, "cast", nodes, {"x": (TensorProto.FLOAT, [2, 4])}, "y", {})
    folder = start(dump_debug="on")
    Loaded(path)(X * 1e5)
    (debug,) = folder.rglob("OpDebug*")
    (record,) = DumpFile(debug.read_bytes()).outputs
    assert struct.unpack_from("<I", record.tobytes(), 1024) == (0x100,)


# ---- single operators ------------------------------------------------------------------------------------------------


def test_single_operators_are_dumped(tmp_path: Path, start: Start) -> None:
    folder = start(dump_list=[], dump_op_switch="on", dump_mode="all")
    arrays = [np.arange(8, dtype=np.float32), np.full(8, 0.5, np.float32)]
    descs = [acl.create_tensor_desc(0, [8], 2) for _ in range(3)]
    places = [ok(acl.rt.malloc(32, 0)) for _ in range(3)]
    buffers = [acl.create_data_buffer(place, 32) for place in places]
    for place, array in zip(places, arrays, strict=False):
        ok(acl.rt.memcpy(place, 32, array.ctypes.data, 32, 1))
    stream = ok(acl.rt.create_stream())
    attr = acl.op.create_attr()
    ok(acl.op.execute_v2("Add", descs[:2], buffers[:2], descs[2:], buffers[2:], attr, stream))
    ok(acl.rt.synchronize_stream(stream))
    (path,) = [file for file in folder.rglob("*") if file.is_file()]
    assert re.fullmatch(r"\d{14}/0/Add\.[^/.]*\.\d+\.\d+\.\d{16}", str(path.relative_to(folder)))
    dump = DumpFile(path.read_bytes())
    np.testing.assert_array_equal(dump.inputs, arrays)
    np.testing.assert_array_equal(dump.outputs[0], arrays[0] + arrays[1])


# ---- operators that failed -------------------------------------------------------------------------------------------


@pytest.fixture
def gather(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A model that fails for an index that is out of range."""
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Abs", ["x"], ["a"], "first"),
        helper.make_node("Gather", ["a", "i"], ["g"], "pick"),
        helper.make_node("Neg", ["g"], ["y"], "last"),
    ]
    inputs = {"x": (TensorProto.FLOAT, [2, 4]), "i": (TensorProto.INT64, [3])}
    return convert(tmp_path, "gather", nodes, inputs, "y", {})


GOOD, BAD = np.array([0, 1, 1]), np.array([0, 1, 7])


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("watched", [False, True])
def test_the_operator_behind_a_failure(watched: bool, asynchronous: bool, gather: str, start: Start) -> None:
    if watched:
        start(dump_list=[{"model_name": "gather"}])
    else:
        start()
    model = Loaded(gather)
    stream = ok(acl.rt.create_stream())
    context = ok(acl.rt.get_context())
    seen: list[Any] = []

    def learn(info: int) -> None:
        ok(acl.rt.set_context(context))  # it may come in a thread of the stream
        place = (
            acl.rt.get_device_id_from_exception_info(info),
            acl.rt.get_stream_id_from_exception_info(info),
            acl.rt.get_task_id_from_exception_info(info),
        )
        name, inputs, input_count, outputs, output_count, ret = acl.mdl.create_and_get_op_desc(*place, 256)
        seen.append((place, name, input_count, output_count, ret))
        descs = [acl.get_tensor_desc_by_index(inputs, index) for index in range(input_count)]
        for desc in descs[:2]:
            shape = [ok(acl.get_tensor_desc_dim_v2(desc, i)) for i in range(acl.get_tensor_desc_num_dims(desc))]
            host = np.zeros(shape, np.float32 if acl.get_tensor_desc_type(desc) == 0 else np.int64)
            source = acl.get_tensor_desc_address(desc)
            ok(acl.rt.memcpy(host.ctypes.data, host.nbytes, source, host.nbytes, 2))
            seen.append(host)
        seen.append([ok(acl.get_tensor_desc_dim_v2(outputs, i)) for i in range(acl.get_tensor_desc_num_dims(outputs))])
        acl.destroy_tensor_desc(inputs)
        acl.destroy_tensor_desc(outputs)

    ok(acl.rt.set_exception_info_callback(learn))
    model(X, GOOD)
    assert not seen
    model.fill(X, BAD)
    if asynchronous:
        ok(acl.mdl.execute_async(model.id, model.inputs, model.outputs, stream))
        task = ok(acl.rt.get_thread_last_task_id())
        assert acl.rt.synchronize_stream(stream) != 0
    else:
        assert acl.mdl.execute(model.id, model.inputs, model.outputs) != 0
        task = ok(acl.rt.get_thread_last_task_id())
    assert len(seen) == 4
    (device, stream_id, task_id), name, inputs, outputs, ret = seen[0]
    assert (device, task_id, name, outputs, ret) == (0, task, "pick", 1, 0) and inputs >= 2
    if asynchronous:
        assert stream_id == ok(acl.rt.stream_get_id(stream))
    np.testing.assert_array_equal(seen[1], np.abs(X))
    np.testing.assert_array_equal(seen[2], BAD)
    assert seen[3] == [3, 4]
    answer = acl.mdl.create_and_get_op_desc(device, stream_id, task_id, 256)  # after the callback, too
    assert answer[0] == "pick" and answer[-1] == 0
    ok(acl.rt.set_exception_info_callback(None))
    np.testing.assert_allclose(model(X, GOOD), -np.abs(X)[GOOD].reshape(-1))


def test_questions_without_an_answer(gather: str, start: Start) -> None:
    assert acl.mdl.create_and_get_op_desc(0, 0, 0, 256) == ("", 0, 0, 0, 0, UNINITIALIZE)
    start()
    *values, ret = acl.mdl.create_and_get_op_desc(0, 0, 12345, 256)
    assert values == ["", 0, 0, 0, 0] and ret != 0
    assert acl.mdl.create_and_get_op_desc(0, 0, 0, 4097)[-1] == BAD_PARAM
    assert acl.mdl.create_and_get_op_desc(0, 0, 0, 0)[-1] == BAD_PARAM
    places: list[tuple[int, int, int]] = []

    def learn(info: int) -> None:
        places.append(
            (
                acl.rt.get_device_id_from_exception_info(info),
                acl.rt.get_stream_id_from_exception_info(info),
                acl.rt.get_task_id_from_exception_info(info),
            )
        )

    ok(acl.rt.set_exception_info_callback(learn))
    model = Loaded(gather)
    model.fill(X, BAD)
    assert acl.mdl.execute(model.id, model.inputs, model.outputs) != 0
    assert "pick" in message()
    assert acl.mdl.create_and_get_op_desc(*places[0], 4)[-1] == BAD_PARAM
    assert acl.mdl.create_and_get_op_desc(*places[0], 5)[0] == "pick"
    device, stream, task = places[0]
    assert acl.mdl.create_and_get_op_desc(device, stream, task + 1, 256)[-1] != 0
