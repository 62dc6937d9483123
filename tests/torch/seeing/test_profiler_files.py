"""torch_npu.profiler: the folder of a profile, and its tables against each other."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import ProfilerActivity, _ExperimentalConfig

from tests.torch.seeing.runs import profiled, rows, training_step


@pytest.fixture
def step() -> Any:
    return training_step()


def test_folder_of_a_profile(step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = profiled(step, tmp_path)
    assert re.fullmatch(rf"{re.escape(socket.gethostname())}_\d+_\d{{17}}_ascend_pt", folder.name)
    assert {one.name for one in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()} == {
        "trace_view.json", "kernel_details.csv", "operator_details.csv", "step_trace_time.csv", "analyse.done",
    }  # fmt: skip
    assert {"FRAMEWORK", "logs", "profiler_info.json", "profiler_metadata.json"} <= {
        one.name for one in folder.iterdir()
    }
    info = json.loads((folder / "profiler_info.json").read_text())
    assert info["config"]["common_config"]["schedule"] == {
        "wait": 1,
        "active": 2,
        "warmup": 1,
        "repeat": 1,
        "skip_first": 0,
    }
    assert info["config"]["experimental_config"]["_profiler_level"] == "Level0" and info["rank_id"] == -1
    said = capsys.readouterr().out
    assert f"Start parsing profiling data in sync mode at: {folder}" in said and "All profiling data parsed" in said


def test_all_that_can_be_asked_for(step: Any, tmp_path: Path) -> None:
    config = _ExperimentalConfig(profiler_level="Level1", aic_metrics="AiCoreNone", export_type=["text", "db"])
    folder = profiled(step, tmp_path, profile_memory=True, experimental_config=config, worker="me")
    assert folder.name.startswith("me_")
    names = {one.name for one in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()}
    assert {
        "op_statistic.csv", "api_statistic.csv", "operator_memory.csv", "memory_record.csv", "ascend_pytorch_profiler.db",
    } <= names  # fmt: skip


def test_a_training_step_has_these_kernels_and_no_others(step: Any, tmp_path: Path) -> None:
    """A training step has these kernels and no others; the tables agree with one another."""
    config = _ExperimentalConfig(profiler_level="Level1", aic_metrics="AiCoreNone")
    output = profiled(step, tmp_path, experimental_config=config) / "ASCEND_PROFILER_OUTPUT"
    kernels = rows(output / "kernel_details.csv")
    of_a_step = [row["Type"] for row in kernels if row["Step Id"] == "2"]
    assert of_a_step == [
        "Conv2D", "Relu", "Addmm", "LogSoftmaxV2", "NllLossForward", "Fills", "NllLossBackward", "LogSoftmaxBackwardData", "MatMul",
        "MatMul", "ReduceSumD", "ThresholdBackward", "ConvolutionBackward", "Add", "Add", "Add", "Add",
    ]  # fmt: skip
    assert of_a_step == [row["Type"] for row in kernels if row["Step Id"] == "3"]
    conv = kernels[0]
    assert (conv["Accelerator Core"], conv["Input Shapes"], conv["Input Data Types"]) == (
        "AI_CORE", '"2,3,8,8;4,3,3,3;4"', "FLOAT;FLOAT;FLOAT",
    )  # fmt: skip
    assert conv["Start Time(us)"].endswith("\t")
    statistic = {row["OP Type"]: row for row in rows(output / "op_statistic.csv")}
    assert statistic["MatMul"]["Count"] == "4" and statistic["Add"]["Count"] == "8"
    for kind, row in statistic.items():
        wanted = sum(float(one["Duration(us)"]) for one in kernels if one["Type"] == kind)
        assert float(row["Total Time(us)"]) == pytest.approx(wanted, abs=0.01)
    assert sum(float(row["Ratio(%)"]) for row in statistic.values()) == pytest.approx(100, abs=0.1)
    calls = rows(output / "operator_details.csv")
    device = sum(float(one["Device Self Duration(us)"]) for one in calls)
    assert device == pytest.approx(sum(float(one["Duration(us)"]) for one in kernels), abs=0.1)
    linear = next(one for one in calls if one["Name"] == "aten::linear")
    assert float(linear["Device Self Duration(us)"]) == 0 < float(linear["Device Total Duration(us)"])
    assert float(linear["Device Total Duration(us)"]) <= float(linear["Host Total Duration(us)"])


def test_every_step_has_a_row_of_times(step: Any, tmp_path: Path) -> None:
    output = profiled(step, tmp_path) / "ASCEND_PROFILER_OUTPUT"
    kernels = rows(output / "kernel_details.csv")
    steps = rows(output / "step_trace_time.csv")
    assert [row["Step"] for row in steps] == ["2", "3"]
    for row in steps:
        computing = sum(float(one["Duration(us)"]) for one in kernels if one["Step Id"] == row["Step"])
        assert float(row["Computing"]) == pytest.approx(computing, abs=0.1)
        parts = ("Computing", "Communication(Not Overlapped)", "Free")
        assert sum(float(row[part]) for part in parts) == pytest.approx(float(row["Stage"]), abs=0.01)
        assert float(row["Communication"]) == 0 < float(row["Preparing"])


def test_the_timeline_has_named_layers_and_whole_arrows(step: Any, tmp_path: Path) -> None:
    """What msprof-analyze needs: named layers, tasks with their kind, arrows that end where a task begins."""
    output = profiled(step, tmp_path, with_stack=True) / "ASCEND_PROFILER_OUTPUT"
    events = json.loads((output / "trace_view.json").read_text())
    layer = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert set(layer.values()) == {"Python", "CANN", "Ascend Hardware", "Overlap Analysis"}
    spans = [one for one in events if one["ph"] == "X"]
    tasks = {one["ts"] for one in spans if layer[one["pid"]] == "Ascend Hardware"}
    arrows = [one for one in events if one.get("cat") == "async_npu"]
    assert tasks and {one["ts"] for one in arrows if one["ph"] == "f"} == tasks
    assert all("Task Type" in one["args"] for one in spans if layer[one["pid"]] == "Ascend Hardware")
    copies = [one for one in spans if one["args"].get("Task Type") == "PCIE_DMA_SQE"]
    assert {one["args"]["size(B)"] for one in copies} == {2 * 3 * 8 * 8 * 4, 2 * 8}, "pictures and targets"
    kinds = {one["cat"] for one in spans if layer[one["pid"]] == "Python"}
    assert kinds == {"cpu_op", "python_function", "user_annotation"}
    linear = next(one for one in spans if one["name"] == "aten::addmm")
    assert "seeing/runs.py" in linear["args"]["Call stack"]
    assert [one for one in events if one.get("cat") == "fwdbwd"]
    assert all(isinstance(one["ts"], float | int) and one["ts"] >= 0 for one in spans)


def test_shapes_and_activities(step: Any, tmp_path: Path) -> None:
    def calls(**options: Any) -> list[dict[str, str]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return rows(profiled(step, folder, **options) / "ASCEND_PROFILER_OUTPUT" / "operator_details.csv")

    plain = next(row for row in calls() if row["Name"] == "aten::linear")
    shaped = next(row for row in calls(record_shapes=True) if row["Name"] == "aten::linear")
    assert (plain["Input Shapes"], shaped["Input Shapes"]) == ('""', '"2,144;5,144;5"')
    host = calls(activities=[ProfilerActivity.CPU])
    assert all(float(row["Device Total Duration(us)"]) == 0 for row in host) and len(host) > 50
    device = calls(activities=[ProfilerActivity.NPU])
    assert "aten::linear" not in {row["Name"] for row in device} and "aten::addmm" in {row["Name"] for row in device}


def test_the_database_has_the_kernels(step: Any, tmp_path: Path) -> None:
    folder = profiled(step, tmp_path, experimental_config=_ExperimentalConfig(export_type="db"))
    output = folder / "ASCEND_PROFILER_OUTPUT"
    assert not list(output.glob("*.csv"))
    with closing(sqlite3.connect(output / "ascend_pytorch_profiler.db")) as base:
        query = "SELECT s.value FROM COMPUTE_TASK_INFO c JOIN STRING_IDS s ON c.opType = s.id JOIN TASK t USING (globalTaskId) ORDER BY t.startNs"
        kinds = [row[0] for row in base.execute(query)]
        assert kinds[:3] == ["Conv2D", "Relu", "Addmm"] and len(kinds) == 34
        assert base.execute("SELECT id FROM STEP_TIME").fetchall() == [(2,), (3,)]
        assert base.execute("SELECT count(*) FROM PYTORCH_API WHERE endNs < startNs").fetchone() == (0,)


def test_the_table_of_memory_has_every_block(tmp_path: Path) -> None:
    kept: list[torch.Tensor] = []

    def run() -> None:
        torch.ones(1 << 18, device="npu").add(1)  # two blocks of a mebibyte that come back
        kept.append(torch.zeros(1 << 19, device="npu"))

    run()
    output = profiled(run, tmp_path, profile_memory=True) / "ASCEND_PROFILER_OUTPUT"
    blocks = rows(output / "operator_memory.csv")
    results = [(row["Name"], float(row["Size(KB)"]), bool(row["Release Time(us)"])) for row in blocks]
    large = [one for one in results if one[1] > 1]  # the number 1 is a tensor too
    assert large == [("aten::empty", 1024, True), ("aten::add", 1024, True), ("aten::empty", 2048, False)] * 2
    record = rows(output / "memory_record.csv")
    held = [float(row["Total Allocated(MB)"]) for row in record]
    assert max(held) - held[0] == pytest.approx(4, abs=1), "two blocks of two mebibytes stay, two more come and go"
    assert {row["Device Type"] for row in record} == {"NPU:0"} and {row["Component"] for row in record} == {"PTA"}


def test_collectives_are_no_kernels_and_files_carry_the_rank(tmp_path: Path) -> None:
    """Collectives are no kernels; files carry the rank."""
    distributed = torch.distributed
    distributed.init_process_group("hccl", store=distributed.HashStore(), world_size=1, rank=0)
    try:
        x = torch.ones(1000, device="npu")
        config = _ExperimentalConfig(export_type=["text", "db"])
        with profiler.profile(
            on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path)), experimental_config=config
        ):
            distributed.all_reduce(x)
            x.mul(2)
    finally:
        distributed.destroy_process_group()
    (folder,) = tmp_path.glob("*_ascend_pt")
    output = folder / "ASCEND_PROFILER_OUTPUT"
    assert (folder / "profiler_info_0.json").exists() and (output / "ascend_pytorch_profiler_0.db").exists()
    (row,) = rows(output / "step_trace_time.csv")
    assert 0 < float(row["Communication"]) == float(row["Communication(Not Overlapped)"])
    assert [one["Type"] for one in rows(output / "kernel_details.csv")] == ["Mul"]
    events = json.loads((output / "trace_view.json").read_text())
    layer = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    assert [one["name"] for one in events if one["ph"] == "X" and layer[one["pid"]] == "Communication"] == [
        "c10d::allreduce_"
    ]
