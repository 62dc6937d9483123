"""The command atc: its texts, its exit status, and the modes that look at models."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import acl
from softnpu.base import log as plog
from softnpu.cli import atc
from softnpu.compiler.errors import AtcError
from softnpu.graph import container
from softnpu.graph.model_def import MODEL
from softnpu.graph.wire import encode
from tests.paths import SOURCE
from tests.support import ok

# The options that the ATC guide lists, in its chapters on parameters.
OPTIONS = [
    "model", "weight", "framework", "input_format", "input_shape", "input_shape_range", "input_hint_shape",
    "dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "singleop", "output", "output_type", "out_nodes",
    "check_report", "om", "json", "host_env_os", "host_env_cpu", "soc_version", "virtual_type", "core_type",
    "aicore_num", "device_id", "mode", "insert_op_conf", "op_name_map", "is_input_adjust_hw_layout",
    "is_output_adjust_hw_layout", "input_fp16_nodes", "display_model_info", "disable_reuse_memory", "external_weight",
    "enable_attr_compression", "enable_single_stream", "ac_parallel_enable", "tiling_schedule_optimize",
    "topo_sorting_mode", "static_model_ops_lower_limit", "h2d_overlapped_with_compute", "multi_stream_parallel_mode",
    "quant_dumpable", "cluster_config", "hccl_sub_comm_config", "build_config", "raw_ge_options",
    "raw_ge_options_ignore_unsupported", "fusion_switch_file", "optimization_switch", "oo_level",
    "oo_constant_folding", "oo_dead_code_elimination", "enable_scope_fusion_passes", "enable_small_channel",
    "buffer_optimize", "compression_optimize_conf", "enable_compress_weight", "compress_weight_conf", "sparsity",
    "mdl_bank_path", "op_bank_path", "auto_tune_mode", "precision_mode", "precision_mode_v2", "op_precision_mode",
    "modify_mixlist", "keep_dtype", "customize_dtypes", "op_select_implmode", "optypelist_for_implmode", "allow_hf32",
    "is_weight_clip", "deterministic", "deterministic_level", "jit_compile", "status_check", "op_compiler_cache_mode",
    "op_compiler_cache_dir", "atomic_clean_policy", "shape_generalized_build_mode", "log", "dump_mode",
    "op_debug_level", "op_debug_config", "debug_dir", "save_original_model", "export_compile_stat", "target",
    "cal_conf",
]  # fmt: skip
GROUPS = [
    "Input",
    "Output",
    "Target chip",
    "Function",
    "Model tuning",
    "Operator tuning and precision",
    "Debug",
    "Obsolete",
]
BLOCK = re.compile(r"(E[A-Z0-9]+): \[PID: (\d+)\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} (.*)")
LINE = ["--model=m.onnx", "--framework=5", "--output=out", "--soc_version=Ascend310P3"]


@pytest.fixture(autouse=True)
def here(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory and a log of one's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(onnx_model().SerializeToString())
    (tmp_path / "ops.json").write_text("[]")
    plog.reset()
    yield tmp_path
    plog.reset()


def onnx_model() -> onnx.ModelProto:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.5, -2.0])
    nodes = [
        helper.make_node("Add", ["x", "w"], ["s"], "add"),
        helper.make_node("Softmax", ["s"], ["y"], "soft", axis=-1),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 2]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Exit status, lines of standard output, text of standard error."""
    status = atc.main(list(words))
    captured = capsys.readouterr()
    return status, captured.out.splitlines(), captured.err


def expect_failure(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Code and message of a run that must fail in the manner of atc."""
    status, lines, _ = run(capsys, *words)
    assert status == 255
    failure_line = lines.index(atc.FAILURE)
    assert lines[0] == atc.START and lines[failure_line - 1] == "..."
    match = BLOCK.fullmatch(lines[failure_line + 1])
    assert match and int(match[2]) == os.getpid()
    assert all(line.startswith("        ") for line in lines[failure_line + 2 :])
    assert "Traceback (" not in "\n".join(lines)
    return match[1], match[3]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any, Any], Any]], None]:
    """Puts a body in the place of what the compiler does in every mode."""

    def install(body: Callable[[Any, Any], Any]) -> None:
        monkeypatch.setattr("softnpu.compiler.build.build", body)
        monkeypatch.setattr("softnpu.compiler.single_op.build.build_single_ops", body)
        monkeypatch.setattr("softnpu.compiler.inspection.precheck.check", lambda options: body(options, None))

    return install


Install = Callable[[Callable[[Any, Any], Any]], None]
Capture = pytest.CaptureFixture[str]


def result(**changes: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**{"warnings": [], "files": [], "info": "", **changes})


# ---- texts and status ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["--help", "-h", "-help"])
def test_help_is_printed_whatever_else_is_asked(capsys: Capture, word: str) -> None:
    status, lines, err = run(capsys, "--model=x", word)
    assert status == 0 and not err and lines[0].startswith("usage: atc")
    assert max(len(line) for line in lines) <= 100
    text = "\n".join(lines)
    assert set(re.findall(r"^[ *-] --(\w+)=", text, re.MULTILINE)) == set(OPTIONS) and len(OPTIONS) == 89
    assert [line[:-1] for line in lines if re.fullmatch(r"[A-Z][a-z ]+:", line)] == GROUPS


def test_success_prints_start_end_and_warnings(capsys: Capture, fake: Install) -> None:
    seen = []

    def body(options: Any, progress: Any) -> Any:
        progress("reading", 0.5)
        seen.append(options.soc)
        return result(warnings=["opset 20 is new"], info="block")

    fake(body)
    status, lines, err = run(capsys, *LINE, "--soc_version=Ascend910")
    assert (status, err, seen) == (0, "", ["Ascend910A"])
    assert lines == [atc.START, "block", "...", atc.SUCCESS, "[WARNING] opset 20 is new"]
    assert atc.START == "ATC start working now, please wait for a moment."
    assert atc.SUCCESS == "ATC run success, welcome to the next use."


def test_a_file_of_single_operators_is_converted(capsys: Capture, fake: Install) -> None:
    fake(lambda options, progress: result(warnings=[options.singleop]))
    status, lines, _ = run(capsys, "--singleop=ops.json", "--output=ops", "--soc_version=Ascend310P3")
    assert (status, lines[-1]) == (0, "[WARNING] ops.json")


def test_a_failure_prints_the_block_of_its_error(capsys: Capture, fake: Install) -> None:
    def body(options: Any, progress: Any) -> Any:
        try:
            raise AtcError("E89999", "the inner reason")
        except AtcError as inner:
            raise AtcError("E20007", "the outer reason", "a cause", "a way out") from inner

    fake(body)
    status, lines, _ = run(capsys, *LINE)
    assert status == 255
    assert lines[:3] == [atc.START, "...", atc.FAILURE]
    assert lines[2] == "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
    assert lines[3].startswith("E20007: [PID: ") and lines[3].endswith(" the outer reason")
    assert lines[4:] == [
        "        Possible Cause: a cause",
        "        Solution: a way out",
        "        TraceBack (most recent call last):",
        "        the inner reason",
    ]


def test_checks_fail_in_the_same_manner(capsys: Capture) -> None:
    assert expect_failure(capsys)[0] == "E10007"
    code, message = expect_failure(capsys, *LINE, "--input_format=NHWC")
    assert (code, message[:55]) == ("E10001", "Value [NHWC] for parameter [input_format] is invalid. R")


def test_complaints_of_the_parser_are_an_error_block_too(capsys: Capture) -> None:
    status, lines, err = run(capsys, "--inputshape=x")
    assert status == 255
    assert err.startswith("ERROR: unknown command line flag 'inputshape'\nDid you mean --input_shape")
    assert lines[:3] == [atc.START, "...", atc.FAILURE] and lines[3].startswith("E10053: ")


def test_defects_go_to_the_log(capsys: Capture, fake: Install, here: Path) -> None:
    def body(options: Any, progress: Any) -> Any:
        raise ZeroDivisionError("division\nby zero")

    fake(body)
    code, message = expect_failure(capsys, *LINE)
    assert (code, message) == ("E19999", "Inner error: ZeroDivisionError: division")
    plog.log().flush()
    text = "".join(path.read_text() for path in (here / "ascend/log/debug/plog").glob("*.log"))
    assert "Traceback (most recent call last):" in text and "by zero" in text and "in body" in text


@pytest.mark.parametrize(("problem", "expected"), [(MemoryError(), "E10044"), (RecursionError("deep"), "E19999")])
def test_exhaustion_has_a_code_of_its_own(capsys: Capture, fake: Install, problem: Exception, expected: str) -> None:
    def body(options: Any, progress: Any) -> Any:
        raise problem

    fake(body)
    assert expect_failure(capsys, *LINE)[0] == expected


def test_an_interrupt_ends_with_its_own_status(capsys: Capture, fake: Install) -> None:
    def body(options: Any, progress: Any) -> Any:
        raise KeyboardInterrupt

    fake(body)
    status, lines, err = run(capsys, *LINE)
    assert (status, lines) == (130, [atc.START]) and "interrupted" in err


def test_the_option_log_sets_the_level(capsys: Capture, fake: Install, here: Path) -> None:
    fake(lambda options, progress: result())
    assert run(capsys, *LINE)[0] == 0
    assert not (here / "ascend").exists()
    assert run(capsys, *LINE, "--log=info")[0] == 0
    plog.log().flush()
    (file,) = (here / "ascend/log/debug/plog").glob("*.log")
    assert "--framework=5" in file.read_text()
    assert run(capsys, *LINE, "--log=null")[0] == 0
    assert not plog.log().enabled(plog.ERROR, "GE")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_only(capsys: Capture, fake: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(lambda options, progress: (progress("folding", 0.5), result())[1])
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", screen)
        status, lines, _ = run(capsys, *LINE)
    assert status == 0 and lines == [atc.START, "...", atc.SUCCESS]
    assert "folding" in screen.getvalue()


def test_names_that_the_terminal_cannot_show(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert atc.main(["--framework=5", "--soc_version=昇腾"]) == 255
    assert b"\\u6607\\u817e" in raw.getvalue()


def test_the_command_runs_as_a_process(here: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "softnpu.cli.atc"]
    done = subprocess.run([*command, "--mode=9"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 255 and "E10001: [PID: " in done.stdout and done.stderr == ""
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, env=environment, timeout=60)
    assert done.returncode == 0


# ---- mode 3 ----------------------------------------------------------------------------------------------------------

GOOD = {"name": "relu", "type": "Relu", "result": "success"}
BAD = {
    "name": "w",
    "type": "Wavelet",
    "result": "failed",
    "cause": [{"code": "E16002", "message": "type not supported"}],
}


def report(*rows: dict[str, Any]) -> dict[str, Any]:
    failed = sum(row["result"] == "failed" for row in rows)
    verdict = "failed" if failed else "success"
    return {
        "name": "g",
        "result": verdict,
        "total": len(rows),
        "pass": len(rows) - failed,
        "fail": failed,
        "op": list(rows),
    }


def test_mode_3_writes_its_report(capsys: Capture, fake: Install, here: Path) -> None:
    fake(lambda options, progress: report(GOOD))
    status, lines, _ = run(capsys, "--mode=3", "--model=m.onnx", "--framework=5")
    assert status == 0 and lines[-1] == atc.SUCCESS
    assert json.loads((here / "check_result.json").read_text()) == report(GOOD)


def test_mode_3_fails_where_an_operator_does(
    capsys: Capture, fake: Install, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(lambda options, progress: report(GOOD, BAD))
    monkeypatch.setenv("ASCEND_WORK_PATH", str(here / "work"))
    code, message = expect_failure(capsys, "--mode=3", "--model=m.onnx", "--framework=5", "--check_report=r.json")
    assert code == "E16002" and "1 of 2 operators" in message and "w (Wavelet)" in message
    assert json.loads((here / "work/r.json").read_text())["fail"] == 1


# ---- looking at compiled models --------------------------------------------------------------------------------------

MODEL_DEF = {
    "name": "net",
    "version": 3,
    "graph": [
        {
            "name": "g",
            "input": ["x"],
            "output": ["relu:0"],
            "op": [
                {
                    "name": "relu",
                    "type": "Relu",
                    "input": ["x:0"],
                    "workspace": [1],
                    "attr": {
                        "alpha": {"f": 0.5},
                        "limit": {"f": float("inf")},
                        "word": {"s": b"text"},
                        "raw": {"s": b"\xff\x00"},
                        "dims": {"list": {"i": [1, 2], "val_type": 2}},
                        "value": {"t": {"desc": {"dtype": 2}, "data": b"weights"}},
                    },
                    "input_desc": [{"dtype": 1, "shape": {"dim": [3, -1]}, "layout": "ND", "size": 24}],
                }
            ],
        }
    ],
    "attr": {
        "atc_version": {"s": b"8.0"},
        "soc_version": {"s": b"Ascend310P3"},
        "framework_type": {"s": b"5"},
        "atc_cmdline": {"s": b"atc --model=net.onnx"},
        "memory_size": {"i": 1000},
        "weight_size": {"i": 7},
        "stream_num": {"i": 1},
        "_om_info_list": {"list": {"i": [7, 11, 13, 17, 19], "val_type": 2}},
    },
}


def write_om(path: Path, model: dict[str, Any]) -> int:
    """Write a model; returns the size of its definition."""
    data = encode(MODEL, model)
    container.write(path, "net", "8.0", False, [(container.MODEL_DEF, [data]), (container.WEIGHTS_DATA, [b"weights"])])
    return len(data)


def test_om_to_json(capsys: Capture, here: Path) -> None:
    write_om(here / "x.om", MODEL_DEF)
    status, lines, _ = run(capsys, "--mode=1", "--om=x.om", "--json=new/x.json")
    assert status == 0 and lines == [atc.START, "...", atc.SUCCESS]
    content = json.loads((here / "new/x.json").read_text())
    assert (content["name"], content["version"]) == ("net", 3)
    (op,) = content["graph"][0]["op"]
    assert "output" not in content["graph"][0] and "workspace" not in op
    attrs = {entry["key"]: entry["value"] for entry in op["attr"]}
    assert attrs["alpha"] == {"f": 0.5} and attrs["limit"] == {"f": "inf"}
    assert attrs["word"] == {"s": "text"} and attrs["raw"] == {"s": "/wA="}
    assert attrs["dims"] == {"list": {"i": [1, 2], "val_type": "VT_LIST_INT"}}
    assert attrs["value"] == {"t": {"desc": {"dtype": "DT_FLOAT16"}}}
    assert op["input_desc"] == [{"dtype": "DT_FLOAT", "shape": {"dim": [3, -1]}, "layout": "ND"}]
    assert [path.name for path in (here / "new").iterdir()] == ["x.json"]


def test_mode_6_shows_what_is_in_a_model(capsys: Capture, here: Path) -> None:
    size = write_om(here / "x.om", MODEL_DEF)
    status, lines, _ = run(capsys, "--mode=6", "--om=x.om")
    assert status == 0
    assert lines == [
        atc.START,
        "============ Display Model Info start ============",
        "Original Atc command line: atc --model=net.onnx",
        "system   info: atc_version[8.0], soc_version[Ascend310P3], framework_type[5].",
        "resource info: memory_size[1000 B], weight_size[7 B], stream_num[1], event_num[0].",
        f"om       info: modeldef_size[{size} B], weight_data_size[7 B], tbe_kernels_size[11 B], "
        "cust_aicpu_kernel_store_size[13 B], task_info_size[17 B], so_store_size[19 B].",
        "============ Display Model Info end   ============",
        "...",
        atc.SUCCESS,
    ]


def test_information_that_is_missing(capsys: Capture, here: Path) -> None:
    write_om(here / "x.om", {"name": "net", "attr": {"memory_size": {"s": b"much"}}})
    status, lines, _ = run(capsys, "--mode=6", "--om=x.om")
    assert status == 0 and lines[2] == "Original Atc command line: "
    assert "memory_size[0 B]" in lines[4] and "weight_data_size[7 B]" in lines[5]


def test_damaged_models_are_refused_in_words(capsys: Capture, here: Path) -> None:
    write_om(here / "x.om", MODEL_DEF)
    whole = (here / "x.om").read_bytes()
    for data in (
        b"",
        b"IMOD",
        whole[:300],
        whole[:-1],
        whole + b"x",
        b"\x89PNG" + bytes(400),
        whole[:320] + b"\xff" * (len(whole) - 320),
    ):
        (here / "bad.om").write_bytes(data)
        assert expect_failure(capsys, "--mode=1", "--om=bad.om", "--json=x.json")[0] == "E10041"
        assert expect_failure(capsys, "--mode=6", "--om=bad.om")[0] == "E10041"
    assert not (here / "x.json").exists()


def test_flipped_bytes_never_crash(capsys: Capture, here: Path) -> None:
    write_om(here / "x.om", MODEL_DEF)
    whole = bytearray((here / "x.om").read_bytes())
    for offset in range(256, len(whole), 7):
        data = bytearray(whole)
        data[offset] ^= 0x5A
        (here / "bad.om").write_bytes(data)
        status, lines, _ = run(capsys, "--mode=1", "--om=bad.om", "--json=x.json")
        assert status == 0 or BLOCK.fullmatch(lines[3])
        assert status == 0 or lines[3].startswith("E10041")


def test_json_that_cannot_be_written(capsys: Capture, here: Path) -> None:
    write_om(here / "x.om", MODEL_DEF)
    (here / "folder").mkdir()
    assert expect_failure(capsys, "--mode=1", "--om=x.om", "--json=folder")[0] == "E10001"
    assert sorted(path.name for path in here.iterdir() if path.name.startswith(".")) == []


# ---- dumps and original models ---------------------------------------------------------------------------------------


def test_dump_to_json(capsys: Capture, here: Path) -> None:
    (here / "ge_proto_0.txt").write_text(
        """name: "ge"
        graph { name: "g" op { name: "relu" type: "Relu" input: "x:0" workspace: 8
          attr { key: "axis" value { i: -1 } }
          attr { key: "list" value { list { s: "a" s: "b" val_type: VT_LIST_STRING } } }
          output_desc { dtype: DT_INT8 shape { dim: 1 dim: 2 } layout: "NCHW" unknown_field: 3 }
          attr_groups { more: 1 } } }
        """
    )
    status, _, _ = run(capsys, "--mode=5", "--om=ge_proto_0.txt", "--json=x.json")
    assert status == 0
    (op,) = json.loads((here / "x.json").read_text())["graph"][0]["op"]
    assert op["attr"][0] == {"key": "axis", "value": {"i": -1}}
    assert op["attr"][1]["value"]["list"] == {"s": ["a", "b"], "val_type": "VT_LIST_STRING"}
    assert op["output_desc"] == [{"dtype": "DT_INT8", "shape": {"dim": [1, 2]}, "layout": "NCHW"}]
    assert "workspace" not in op


@pytest.mark.parametrize("data", [b"", b"graph {", b"graph: 5", b"\xff\xfe", b"graph {" * 200])
def test_damaged_dumps_are_refused_in_words(capsys: Capture, here: Path, data: bytes) -> None:
    (here / "ge_proto_0.txt").write_bytes(data)
    assert expect_failure(capsys, "--mode=5", "--om=ge_proto_0.txt", "--json=x.json")[0] == "E10041"


def test_onnx_to_json(capsys: Capture, here: Path) -> None:
    assert run(capsys, "--mode=1", "--framework=5", "--om=m.onnx", "--json=x.json")[0] == 0
    content = json.loads((here / "x.json").read_text())
    source = onnx_model()
    assert [node["op_type"] for node in content["graph"]["node"]] == [node.op_type for node in source.graph.node]
    assert content["opset_import"][0]["version"] == 13
    assert content["graph"]["initializer"] == [{"dims": [2], "data_type": 1, "name": "w"}]
    assert content["graph"]["node"][1]["attribute"] == [{"name": "axis", "i": -1, "type": "INT"}]
    assert "value_info" not in content["graph"]


def test_onnx_to_json_with_shapes(capsys: Capture, here: Path) -> None:
    words = ("--mode=1", "--framework=5", "--om=m.onnx", "--json=x.json", "--dump_mode=1")
    assert run(capsys, *words)[0] == 0
    (info,) = json.loads((here / "x.json").read_text())["graph"]["value_info"]
    assert info["name"] == "s"
    assert [dim["dim_value"] for dim in info["type"]["tensor_type"]["shape"]["dim"]] == [3, 2]
    (here / "m.onnx").write_bytes(b"\x08")
    assert expect_failure(capsys, *words)[0] == "E10041"


def test_caffe_to_json(capsys: Capture, here: Path) -> None:
    (here / "m.prototxt").write_text(
        'name: "net" layer { name: "c" type: "Convolution" convolution_param { num_output: 8 } }'
    )
    assert run(capsys, "--mode=1", "--framework=0", "--om=m.prototxt", "--json=x.json")[0] == 0
    (layer,) = json.loads((here / "x.json").read_text())["layer"]
    assert (layer["type"], layer["convolution_param"]["num_output"]) == ("Convolution", 8)
    (here / "m.prototxt").write_text("layer {")
    assert expect_failure(capsys, "--mode=1", "--framework=0", "--om=m.prototxt", "--json=x.json")[0] == "E10041"


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def test_tensorflow_to_json(capsys: Capture, here: Path) -> None:
    tensor = varint(1 << 3) + varint(1) + field(4, b"\0\0\x80\x3f")
    attrs = field(5, field(1, b"value") + field(2, field(8, tensor))) + field(
        5, field(1, b"dtype") + field(2, varint(6 << 3) + varint(1))
    )
    node = field(1, b"weights") + field(2, b"Const") + attrs
    (here / "m.pb").write_bytes(field(1, node))
    assert run(capsys, "--mode=1", "--framework=3", "--om=m.pb", "--json=x.json")[0] == 0
    (shown,) = json.loads((here / "x.json").read_text())["node"]
    assert (shown["name"], shown["op"]) == ("weights", "Const")
    assert shown["attr"][0] == {"key": "value", "value": {"tensor": {"dtype": "DT_FLOAT"}}}
    assert shown["attr"][1] == {"key": "dtype", "value": {"type": "DT_FLOAT"}}


@pytest.mark.parametrize("framework", ["3", "5"])
@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x0a\x7f"])
def test_damaged_originals_are_refused_in_words(capsys: Capture, here: Path, framework: str, data: bytes) -> None:
    (here / "bad.bin").write_bytes(data)
    assert (
        expect_failure(capsys, "--mode=1", f"--framework={framework}", "--om=bad.bin", "--json=x.json")[0] == "E10041"
    )


# ---- a whole conversion ----------------------------------------------------------------------------------------------


def execute(path: Path, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One inference through the face `acl`, as a program would do it."""
    ok(acl.init())
    ok(acl.rt.set_device(0))
    model = ok(acl.mdl.load_from_file(str(path)))
    desc = acl.mdl.create_desc()
    ok(acl.mdl.get_desc(desc, model))
    assert acl.mdl.get_input_size_by_index(desc, 0) == data.nbytes
    size = acl.mdl.get_output_size_by_index(desc, 0)
    pointers, sets = [], []
    for length in (data.nbytes, size):
        pointers.append(ok(acl.rt.malloc(length, 0)))
        sets.append(acl.mdl.create_dataset())
        ok(acl.mdl.add_dataset_buffer(sets[-1], acl.create_data_buffer(pointers[-1], length))[1])
    ok(acl.rt.memcpy(pointers[0], data.nbytes, acl.util.bytes_to_ptr(data.tobytes()), data.nbytes, 1))
    ok(acl.mdl.execute(model, sets[0], sets[1]))
    answer = bytes(size)
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(answer), size, pointers[1], size, 2))
    ok(acl.finalize())
    return np.frombuffer(answer, data.dtype)


def test_layouts_and_types_keep_the_numbers(capsys: Capture, here: Path) -> None:
    """fp16 NC1HWC0 in and out: the model computes what NumPy says."""
    shapes = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 20, 4, 5]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "act")], "g", shapes[:1], shapes[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), "r.onnx")
    words = ["--model=r.onnx", "--framework=5", "--output=r", "--soc_version=Ascend310P3", "--input_fp16_nodes=x"]
    layouts = ["--is_input_adjust_hw_layout=true", "--out_nodes=act:0", "--is_output_adjust_hw_layout=true"]
    assert run(capsys, *words, *layouts)[0] == 0
    padded = np.zeros((2, 32, 4, 5), np.float16)
    padded[:, :20] = np.random.default_rng(0).standard_normal((2, 20, 4, 5))
    fed, expected = (
        array.reshape(2, 2, 16, 4, 5).transpose(0, 1, 3, 4, 2) for array in (padded, np.maximum(padded, 0))
    )
    computed = execute(here / "r.om", np.ascontiguousarray(fed))
    np.testing.assert_array_equal(computed, expected.ravel())
