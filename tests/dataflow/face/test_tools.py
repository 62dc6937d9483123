"""Projects on disk: `create_func_ws`, workspaces, loading a project back; the embedded engine once."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import dataflow as df
from dataflow.tools import create_func_ws
from dataflow.tools.func_ws_creator import FuncWsCreator


def test_create_func_ws_asks_and_writes_a_project(tmp_path: pathlib.Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    answers = iter(["n", "yes"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    arguments = ["-f", "Sub:i0:i2:o0,Add:i1:i3:o1:o0"]
    assert create_func_ws.main(arguments) == 1 and list(tmp_path.iterdir()) == []
    assert create_func_ws.main(arguments) == 0
    root = tmp_path / "SubAdd_ws"
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert files == ["CMakeLists.txt", "func_sub_add.json", "src_cpp/func_sub_add.cpp", "src_python/func_sub_add.py"]
    settings = json.loads((root / "func_sub_add.json").read_text())
    assert settings["input_num"] == 4 and settings["output_num"] == 2 and settings["heavy_load"] is True
    assert [(row["func_name"], row["inputs_index"], row["outputs_index"]) for row in settings["func_list"]] == [
        ("Sub", [0, 2], [0]),
        ("Add", [1, 3], [1, 0]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sub",
        "Sub:i0",
        "Sub:o0",
        "1Sub:i0:o0",
        "Sub:i0:x0",
        "Sub:i1:o0",
        "A:i0:o0,B:i0:o1",
        "A:i0:o1",
        "A:i0:o0,A:i1:o1",
    ],
)
def test_descriptions_of_functions_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        FuncWsCreator(text)


def test_the_class_is_named_after_its_functions() -> None:
    assert FuncWsCreator("a:i0:o0,b:i1:o1,c:i2:o2,d:i3:o3,e:i4:o4").clz_name == "ABCD"
    assert FuncWsCreator("a:i0:o0", "Own").clz_name == "Own"
    with pytest.raises(ValueError):
        FuncWsCreator("a:i0:o0", "no name")


def test_a_project_that_was_filled_in_runs(flow, tmp_path: pathlib.Path) -> None:
    root = tmp_path / "ws"
    FuncWsCreator("Double:i0:o0,Negate:i1:o1", "Both", str(root)).generate()
    path = root / "src_python" / "func_both.py"
    marker = "        # Write the work here"
    parts = path.read_text().split(marker)
    assert len(parts) == 3
    for number, factor in ((0, 2), (1, -1)):
        line = f"        run_context.set_output({number}, input_flow_msgs[0].get_tensor().numpy() * {factor})\n"
        parts[number] += line
    path.write_text(marker.join(parts))
    node = df.FlowNode(2, 2)
    node.add_process_point(df.FuncProcessPoint(str(root / "func_both.json")))
    a, b = df.FlowData(), df.FlowData()
    graph = df.FlowGraph(list(node(a, b)))
    assert graph.feed_data({a: [1, 2], b: [3]}) == 0
    tensors, _, code = graph.fetch_data(timeout=5000)
    assert code == 0 and [tensor.numpy().tolist() for tensor in tensors] == [[2, 4], [-3]]


def hook() -> None:
    pass


@df.pyflow(env_hook_func=hook, resources={"num_cpus": 2, "memory": 100})
def scale(a):
    return a * 2


def test_workspaces_are_written_when_asked(flow, tmp_path: pathlib.Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    scale.fnode()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SOFTNPU_FLOW_WORKSPACE", "1")
    scale.fnode()
    root = tmp_path / "scale_fnode_1_ws"
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    assert files == [
        "CMakeLists.txt",
        "func_scale.json",
        "src_cpp/func_scale.cpp",
        "src_python/_env_hook_func.pkl",
        "src_python/_msg_type_register.pkl",
        "src_python/scale.pkl",
    ]
    assert pickle.loads((root / "src_python" / "scale.pkl").read_bytes())[0](4) == 8
    register = df.msg_type_register.deserialize_from_file(str(root / "src_python" / "_msg_type_register.pkl"))
    assert register.registered(65535)
    resources = json.loads((root / "func_scale.json").read_text())["running_resources_info"]
    assert {row["type"]: row["num"] for row in resources} == {"cpu": 2, "memory": 100}


@df.pyflow
class Counter:
    def __init__(self, start):
        self.value, self.pid = start, os.getpid()

    @df.method()
    def up(self, a):
        self.value += a
        return self.value, self.pid, os.getpid()


def test_state_of_a_node_lives_in_another_process() -> None:
    df.finalize()
    df.init({"softnpu.flow.engine": "embedded"})
    try:
        a = df.FlowData()
        graph = df.FlowGraph([Counter.fnode(10).up(a)])
        results = []
        for number in (1, 2, 3):
            assert graph.feed({a: number}) == 0
            [result], code = graph.fetch(timeout=10000)
            assert code == 0
            results.append(result)
    finally:
        df.finalize()
    assert [value for value, _, _ in results] == [11, 13, 16]
    pids = {pid for result in results for pid in result[1:]}
    assert len(pids) == 1 and os.getpid() not in pids


PROGRAM = """
import dataflow as df

@df.pyflow
def same(a):
    return a

if __name__ == "__main__":
    df.init({})
    data = df.FlowData()
    graph = df.FlowGraph([same.fnode()(data)])
    graph.feed({data: 1})
    print(graph.fetch(timeout=10000))
"""


def test_a_program_without_finalize_ends_quietly(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "([1], 0)\n", "")
