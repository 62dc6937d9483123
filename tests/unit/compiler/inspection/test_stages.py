"""DUMP_GE_GRAPH: which stages are written, what is in them, and that mode 5 and protobuf read them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from onnx import ModelProto, helper, save

from softnpu.cli import atc
from softnpu.compiler.inspection.describe import dump_to_json
from tests.unit.compiler.onnx_graphs import model

STAGES = ["RunParser", "PrepareAfterInferShape", "AfterGraphOptimize", "Build"]
WEIGHT = np.float32([1.5, -2.0, 3.0])


@pytest.fixture
def convert(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Add", ["x", "w"], ["s"], "add"),
        helper.make_node("LeakyRelu", ["s"], ["y"], "leak", alpha=0.25),
    ]
    save(model(nodes, {"x": (2, 3)}, ["y"], {"w": WEIGHT}), tmp_path / "m.onnx")

    def run(**environment: str) -> Path:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        words = ["--model=m.onnx", "--framework=5", "--output=m", "--soc_version=Ascend310P3"]
        assert atc.main(words) == 0
        return tmp_path

    return run


def stages(folder: Path) -> list[str]:
    names = sorted(path.name for path in folder.glob("ge_proto_*.txt"))
    assert [name[9:17] for name in names] == [f"{index:08d}" for index in range(1, len(names) + 1)]
    return [name.rpartition("_")[2].removesuffix(".txt") for name in names]


def test_nothing_without_the_variable(convert: Any) -> None:
    folder = convert()
    assert not list(folder.glob("ge_*"))


@pytest.mark.parametrize(
    ("level", "wanted"), [("1", STAGES), ("2", STAGES), ("3", STAGES[-1:]), ("4", STAGES[:1]), ("9", STAGES)]
)
def test_the_level_chooses_stages(convert: Any, level: str, wanted: list[str]) -> None:
    assert stages(convert(DUMP_GE_GRAPH="2", DUMP_GRAPH_LEVEL=level)) == wanted


def operators(folder: Path) -> dict[str, dict[str, Any]]:
    """The operators of the last stage by type, attributes as a dictionary."""
    path = sorted(folder.glob("ge_proto_*_Build.txt"))[-1]
    (graph,) = dump_to_json(path)["graph"]
    return {
        op["type"]: {**op, "attr": {entry["key"]: entry["value"] for entry in op.get("attr", [])}} for op in graph["op"]
    }


@pytest.mark.parametrize("content", ["1", "2", "3"])
def test_a_dump_holds_what_its_content_level_says(convert: Any, content: str) -> None:
    folder = convert(DUMP_GE_GRAPH=content)
    by_type = operators(folder)
    assert set(by_type) == {"Data", "Const", "Add", "LeakyRelu", "NetOutput"}
    text = sorted(folder.glob("ge_proto_*_Build.txt"))[-1].read_text()
    octal = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in WEIGHT.tobytes()
    )
    assert (octal in text) == (content == "1")
    leak = by_type["LeakyRelu"]
    if content == "3":
        assert not leak["attr"]
    else:
        assert leak["attr"]["negative_slope"]["f"] == pytest.approx(0.25)
    assert [int(dim) for dim in leak["input_desc"][0]["shape"]["dim"]] == [2, 3]


def test_a_folder_of_its_own(convert: Any, tmp_path: Path) -> None:
    convert(DUMP_GE_GRAPH="3", DUMP_GRAPH_PATH=str(tmp_path / "here" / "deep"))
    assert stages(tmp_path / "here" / "deep") == STAGES


def test_below_the_work_path(convert: Any, tmp_path: Path) -> None:
    convert(DUMP_GE_GRAPH="3", ASCEND_WORK_PATH=str(tmp_path / "work"))
    (folder,) = (path.parent for path in (tmp_path / "work").rglob("ge_proto_00000001_*.txt"))
    assert folder.name.startswith(f"pid_{os.getpid()}_")
    assert stages(folder) == STAGES


def test_no_half_files_stay(convert: Any) -> None:
    assert not [path for path in convert(DUMP_GE_GRAPH="1").iterdir() if path.name.startswith(".ge")]


@pytest.mark.parametrize("content", ["1", "2", "3"])
def test_mode_5_reads_them_back(convert: Any, content: str) -> None:
    folder = convert(DUMP_GE_GRAPH=content)
    for index, path in enumerate(sorted(folder.glob("ge_proto_*.txt"))):
        target = folder / f"{index}.json"
        assert atc.main(["--mode=5", f"--om={path}", f"--json={target}"]) == 0
        read_back = json.loads(target.read_text())
        assert {op["type"] for op in read_back["graph"][0]["op"]} >= {"Data", "Add", "LeakyRelu"}


def test_the_onnx_form_is_read_by_protobuf(convert: Any) -> None:
    folder = convert(DUMP_GE_GRAPH="2")
    paths = sorted(folder.glob("ge_onnx_*.pbtxt"))
    assert len(paths) == len(STAGES)
    for path in paths:
        proto = text_format.Parse(path.read_text(), ModelProto())
        assert {node.op_type for node in proto.graph.node} >= {"ge:Data", "ge:Add", "ge:LeakyRelu"}
        shapes = {
            info.name: [dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in proto.graph.value_info
        }
        assert shapes["x"] == [2, 3]
