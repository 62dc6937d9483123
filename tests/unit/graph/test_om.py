"""Reading an `.om`: what was written comes back, parts are views, and damage is told by name."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.base.errors import NpuError
from softnpu.graph import container
from softnpu.graph.attrs import to_attr
from softnpu.graph.inout import ModelInfo, RunInfo, TensorInfo, inout_bytes
from softnpu.graph.ir import Graph, Output
from softnpu.graph.model_def import MODEL
from softnpu.graph.om import Om
from softnpu.graph.om_writer import write
from softnpu.graph.program import KERNEL_MAGIC
from softnpu.graph.wire import encode

PATH, DAMAGED, WEIGHTS, KERNELS = 145002, 145006, 545003, 545005
WEIGHT = np.arange(1000, dtype=np.float32)


def info(**more: Any) -> ModelInfo:
    described = ModelInfo(
        [TensorInfo("x", 0, 2, [2], 8)], [TensorInfo("n:0:y", 0, 2, [2], 8)], memory_size=1024, **more
    )
    described.run = RunInfo(engine_inputs=["x"], engine_outputs=["y"])
    return described


def graph() -> Graph:
    net = Graph("net")
    x = net.data_node("x", 0, (2,)).output
    node = net.op("Add", [x, net.const(WEIGHT, "w"), None], "n", alpha=0.5, axes=[1, 2], word="text", flag=True)
    node.output.dtype, node.output.shape = 0, (2,)
    node.origin = ["first", "second"]
    net.outputs = [Output(node.output, "n:0:y")]
    return net


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "net.om"
    write(target, graph(), [], info(), {"soc_version": "Ascend310P3"}, "1.0")
    return target


def parts(**more: Any) -> bytes:
    """A file of single partitions, for damage that the writer does not make."""
    attrs = {"softnpu": json.dumps(more.pop("runtime", {"extra": {}})), **more.pop("attrs", {})}
    model = encode(MODEL, {"name": "net", "attr": {key: to_attr(value) for key, value in attrs.items()}})
    parts = {container.MODEL_INOUT_INFO: inout_bytes(info()), container.MODEL_DEF: model, **more.pop("parts", {})}
    path = more.pop("path")
    container.write(path, "net", "1.0", False, [(kind, [data]) for kind, data in parts.items() if data is not None])
    return bytes(path.read_bytes())


def code(call: Any) -> int:
    with pytest.raises(NpuError) as caught:
        call()
    return caught.value.code


# ---- what comes back -------------------------------------------------------------------------------------------------


def test_head_and_info(path: Path) -> None:
    source = Om.open(path)
    head, described = source.head(), source.info()
    assert (head["name"], head["soc_version"]) == ("net", "Ascend310P3")
    assert (described.inputs[0].name, described.inputs[0].dims, described.inputs[0].size) == ("x", [2], 8)
    assert described.outputs[0].name == "n:0:y"
    assert described.memory_size == 1024 and described.weight_size >= WEIGHT.nbytes
    assert described.run.engine_outputs == ["y"]


def test_the_graph(path: Path) -> None:
    (graph,) = Om.open(path).model_def()["graph"]
    ops = {op["name"]: op for op in graph["op"]}
    assert {op["type"] for op in ops.values()} == {"Data", "Const", "Add", "NetOutput"}
    add = ops["n"]
    assert list(add["input"])[:2] == ["x:0", "w:0"]
    attrs = add["attr"]
    assert attrs["alpha"]["f"] == 0.5 and attrs["word"]["s"] in (b"text", "text")
    assert list(attrs["axes"]["list"]["i"]) == [1, 2]
    names = attrs["_datadump_original_op_names"]["list"]["s"]
    assert [bytes(name).decode() if not isinstance(name, str) else name for name in names] == ["first", "second"]


def test_the_same_from_memory(path: Path) -> None:
    for data in (path.read_bytes(), bytearray(path.read_bytes()), memoryview(path.read_bytes())):
        source = Om(data)
        assert source.info() == Om.open(path).info() and source.path is None


def test_weights_are_views_of_the_file(path: Path) -> None:
    source = Om.open(path)
    assert WEIGHT.tobytes() in bytes(source.weights())
    offset = source.weights_offset()
    assert path.read_bytes()[offset : offset + len(source.weights())] == bytes(source.weights())
    assert source.weights_place() == (path.resolve().parent, "net.om", offset)
    assert bytes(source.all_weights()) == bytes(source.weights())


@pytest.mark.parametrize(
    "more",
    [
        {"gears": [[1], [4]], "gear_kind": "batch", "gear_outputs": [[[1]], [[4]]], "gear_inputs": [[1], [4]]},
        {"gears": [[4, 6], [8, 8]], "gear_kind": "hw", "gear_outputs": [[[1]], [[4]]], "gear_inputs": [[1], [4]]},
        {"gears": [[1, 2, 3]], "gear_kind": "dims", "gear_outputs": [[[1]]], "gear_inputs": [[3]]},
    ],
    ids=["batch", "hw", "dims"],
)
def test_gears_come_back_as_they_were_written(more: dict[str, Any], tmp_path: Path) -> None:
    target = tmp_path / "net.om"
    write(target, graph(), [], info(**more), {}, "1.0")
    read = Om.open(target).info()
    assert {field: getattr(read, field) for field in more} == more


# ---- files that are not there, or damaged ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["missing", "folder", "empty"])
def test_files_that_cannot_be_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "no.om"
    if kind == "folder":
        path.mkdir()
    if kind == "empty":
        path.touch()
    assert code(lambda: Om.open(path)) == PATH


def test_a_missing_description(tmp_path: Path) -> None:
    data = parts(path=tmp_path / "a.om", parts={container.MODEL_INOUT_INFO: None})
    assert code(lambda: Om(data).info()) == DAMAGED


def test_a_model_partition_that_is_no_message(tmp_path: Path) -> None:
    data = parts(path=tmp_path / "a.om", parts={container.MODEL_DEF: b"\xff" * 40})
    for call in (Om(data).head, Om(data).model_def, Om(data).info):
        assert code(call) == DAMAGED


@pytest.mark.parametrize(
    "runtime",
    [
        [],
        5,
        {"extra": []},
        {"gear_outputs": 7},
        {"gear_outputs": [[["a"]]]},
        {"gear_outputs": [[[1]]]},
        {"gear_inputs": [["x"]]},
        {"extra": {"engine_inputs": 7}},
    ],
    ids=str,
)
def test_a_runtime_attribute_that_is_wrong(runtime: Any, tmp_path: Path) -> None:
    data = parts(path=tmp_path / "a.om", runtime=runtime)
    assert code(Om(data).info) == DAMAGED


def test_records_that_are_cut(tmp_path: Path) -> None:
    whole = inout_bytes(info())
    for length in range(1, len(whole), 5):
        data = parts(path=tmp_path / "a.om", parts={container.MODEL_INOUT_INFO: whole[:length]})
        read: Any = None
        try:
            read = Om(data).info()
        except NpuError as error:
            assert error.code == DAMAGED
        assert read is None or len(read.outputs) == 0  # a cut between two records leaves the first


# ---- kernels and weights ---------------------------------------------------------------------------------------------


def test_a_model_of_a_real_atc(tmp_path: Path) -> None:
    """Kernels of hardware are no program: the file opens, and running it is refused with what to do."""
    kernel = struct.pack("<III", KERNEL_MAGIC, 3, 2) + b"abc" + b"\1\2"
    data = parts(path=tmp_path / "a.om", parts={container.TBE_KERNELS: kernel})
    source = Om(data)
    assert {name: bytes(data) for name, data in source.kernels().items()} == {"abc": b"\1\2"}
    with pytest.raises(NpuError, match="no program") as caught:
        source.programs()
    assert caught.value.code == KERNELS and "convert" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "kernel",
    [
        b"\1",
        struct.pack("<III", 1, 0, 0),
        struct.pack("<III", KERNEL_MAGIC, 90, 0),
        struct.pack("<III", KERNEL_MAGIC, 0, 1),
    ],
)
def test_a_kernel_store_that_is_cut(kernel: bytes, tmp_path: Path) -> None:
    data = parts(path=tmp_path / "a.om", parts={container.TBE_KERNELS: kernel})
    assert code(Om(data).kernels) == DAMAGED


@pytest.mark.parametrize("name", ["../w", "a/b", "..", "."])
def test_weight_files_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.om"
    parts(path=path, attrs={"softnpu_weight_file": name})
    assert code(Om.open(path).all_weights) == DAMAGED


def test_a_weight_file(tmp_path: Path) -> None:
    path = tmp_path / "a.om"
    data = parts(path=path, attrs={"softnpu_weight_file": "w.bin"})
    assert code(Om.open(path).all_weights) == WEIGHTS
    (tmp_path / "weight").mkdir()
    (tmp_path / "weight" / "w.bin").write_bytes(b"12345")
    assert bytes(Om.open(path).all_weights()) == b"12345"
    assert Om.open(path).weights_place() == (tmp_path.resolve() / "weight", "w.bin", 0)
    with pytest.raises(NpuError, match="beside") as caught:
        Om(data).all_weights()
    assert caught.value.code == WEIGHTS
