"""torch_npu.profiler: schedules, methods, marks, profiles of a program that runs, names."""

from __future__ import annotations

import inspect
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import ProfilerAction, ProfilerActivity, _ExperimentalConfig, dynamic_profile
from torch_npu.profiler.profiler import analyse

from tests.torch.seeing.runs import STEPS, rows, training_step


@pytest.fixture
def step() -> Any:
    return training_step()


# Schedules


@pytest.mark.parametrize(
    ("options", "letters"),
    [
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "NWRSNNNN"),
        ({"wait": 0, "active": 1}, "SSSSSSSS"),
        ({"wait": 1, "active": 2, "skip_first": 2}, "NNNRSNRS"),
        ({"wait": 2, "active": 1, "repeat": 2, "skip_first": 1}, "NNNSNNSN"),
        ({"wait": 2, "active": 1, "skip_first": 1, "skip_first_wait": 1}, "NSNNSNNS"),
    ],
)
def test_a_schedule_says_what_happens_at_every_step(options: dict[str, int], letters: str) -> None:
    names = {"N": "NONE", "W": "WARMUP", "R": "RECORD", "S": "RECORD_AND_SAVE"}
    plan = profiler.Schedule(**options)
    assert [plan(number).name for number in range(8)] == [names[letter] for letter in letters]


def test_wrong_schedules_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    plan = profiler.schedule(wait=-1, active=0)
    assert plan(0) == ProfilerAction.RECORD_AND_SAVE
    said = capsys.readouterr().out
    assert "wait should be a whole number of at least 0 but got -1" in said and "active should be" in said


def test_what_a_schedule_calls(step: Any) -> None:
    seen: list[list[int]] = []
    plan = profiler.schedule(wait=1, active=1, repeat=2)
    with profiler.profile(
        schedule=plan, on_trace_ready=lambda prof: seen.append([n for n, _ in prof._result().steps()])
    ) as prof:
        for _ in range(STEPS):
            step()
            prof.step()
    assert seen == [[1], [3]]


def test_a_schedule_that_stops_early_is_said(step: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ready: list[Any] = []
    with profiler.profile(schedule=profiler.schedule(wait=0, active=5), on_trace_ready=ready.append) as prof:
        step()
        prof.step()
    assert len(ready) == 1
    assert "Incorrect schedule: Stop profiler while current state is RECORD" in capsys.readouterr().out


# Methods


def test_analyse_later(step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)
    with profiler.profile(on_trace_ready=handler):
        step()
    (folder,) = tmp_path.glob("*_ascend_pt")
    output = folder / "ASCEND_PROFILER_OUTPUT"
    assert not output.exists()
    analyse(str(tmp_path), max_process_number=2)
    assert (output / "kernel_details.csv").exists() and not list(output.glob("*.db"))
    analyse(str(folder), export_type="db")
    assert (output / "ascend_pytorch_profiler.db").exists()
    capsys.readouterr()
    analyse(str(tmp_path / "nowhere"))
    assert "profiler_path should be a folder" in capsys.readouterr().out
    analyse(str(output))
    assert "there is no profile" in capsys.readouterr().out


def test_tables_in_a_thread(step: Any, tmp_path: Path) -> None:
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(str(tmp_path), async_mode=True)):
        step()
    for one in threading.enumerate():
        if one is not threading.current_thread() and "_write" in one.name:
            one.join()
    assert list(tmp_path.glob("*/ASCEND_PROFILER_OUTPUT/analyse.done"))


def test_traces_and_stacks_are_exported(step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.profile(with_stack=True, record_shapes=True, profile_memory=True) as prof:
        step()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert {"aten::addmm"} <= {one["name"] for one in json.loads((tmp_path / "trace.json").read_text())}
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_npu_time_total")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("seeing/runs.py" in line and re.search(r";aten::addmm \d+$", line) for line in lines)
    assert not any(";aten::linear " in line for line in lines)
    prof.export_memory_timeline(str(tmp_path / "memory.json"), "npu:0")
    times, sizes = json.loads((tmp_path / "memory.json").read_text())
    assert len(times) == len(sizes) > 1 and max(map(sum, sizes)) > 0
    assert "WARNING" not in capsys.readouterr().out


def test_no_method_raises(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prof = profiler.profile(activities=[ProfilerActivity.CUDA])
    prof.export_chrome_trace(str(tmp_path / "a.json"))
    prof.export_stacks(str(tmp_path / "a.txt"), "self_time")
    prof.export_memory_timeline(str(tmp_path / "a.json"))
    prof.add_metadata("name", 1)
    prof.add_metadata_json("name", "{")
    prof.stop()
    profiler.profile.enable_profiler_in_child_thread()
    said = capsys.readouterr().out
    for text in (
        "activities should be of CPU and NPU but got CUDA",
        "export_chrome_trace failed: RuntimeError: nothing was recorded yet",
        "export_stacks failed: ValueError: metric should be one of",
        "export_memory_timeline failed: ValueError",
        "add_metadata failed: TypeError",
        "add_metadata_json failed: JSONDecodeError",
        "enable_profiler_in_child_thread is not supported by softnpu",
    ):
        assert text in said, text
    assert not list(tmp_path.iterdir())


def test_errors_of_the_program_pass_through() -> None:
    with pytest.raises(ZeroDivisionError), profiler.profile():
        _ = 1 / 0
    with profiler.profile() as prof:
        torch.ones(2, device="npu") + 1
    assert [one.name for one in prof._result().tasks()] == ["aten::fill_", "aten::add"]


def test_metadata_and_trace_id(step: Any, tmp_path: Path) -> None:
    handler = profiler.tensorboard_trace_handler(str(tmp_path), analyse_flag=False)
    with profiler.profile(on_trace_ready=handler, custom_trace_id_callback=lambda: "first") as prof:
        prof.add_metadata("model", "cnn")
        prof.add_metadata_json("sizes", "[1, 2]")
        step()
    (folder,) = tmp_path.glob("*_ascend_pt")
    assert json.loads((folder / "profiler_metadata.json").read_text()) == {"model": "cnn", "sizes": [1, 2]}
    assert prof.get_trace_id() == json.loads((folder / "profiler_info.json").read_text())["trace_id"] == "first"


def test_options_that_are_not_supported_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    _ExperimentalConfig(profiler_level="Level1", aic_metrics="PipeUtilization", l2_cache=True, sys_io=True)
    said = capsys.readouterr().out
    assert "aic_metrics PipeUtilization is not supported by softnpu" in said
    assert "l2_cache is not supported" in said and "sys_io is not supported" in said
    config = _ExperimentalConfig(profiler_level="Level9", aic_metrics="Memory", export_type="xml")
    said = capsys.readouterr().out
    assert (config.profiler_level, config.aic_metrics, config.export_type) == ("Level0", "AiCoreNone", ["text"])
    assert (
        "profiler_level should be one of" in said
        and "needs Level1 or Level2" in said
        and "export_type should be" in said
    )
    _ExperimentalConfig()
    assert capsys.readouterr().out == ""


# Marks


def test_marks_and_ranges_are_in_the_trace(tmp_path: Path) -> None:
    mstx = torch.npu.mstx

    @mstx.mstx_range("function")
    def work() -> None:
        mstx.mark("moment", domain="left out")
        mstx.mark("here")

    config = _ExperimentalConfig(mstx=True, mstx_domain_exclude=["left out"])
    with profiler.profile(experimental_config=config) as prof:
        number = mstx.range_start("outer")
        assert (mstx.range_push("a"), mstx.range_push("b")) == (0, 1)
        work()
        assert (mstx.range_pop(), mstx.range_pop(), mstx.range_pop()) == (1, 0, -1)
        mstx.range_end(number)
        with mstx.annotate("block"):
            pass
    results = [one for one in prof._result().operators if one.kind == "user_annotation" and "Step" not in one.name]
    assert [one.name for one in results] == ["here", "function", "b", "a", "outer", "block"]
    assert (
        results[0].duration == 0 < results[4].duration
        and results[4].start <= results[3].start <= results[3].end <= results[4].end
    )
    assert mstx.range_start("nobody listens") == 0
    mstx.range_end(0)
    with pytest.raises(ValueError, match="message should be a text"):
        mstx.mark("")


# Profiles of a program that runs


def test_dynamic_profile(step: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dynamic_profile.init(str(tmp_path))
    place = tmp_path / "profiler_config.json"
    assert json.loads(place.read_text())["active"] == 1
    wanted = {"start_step": -1, "active": 2, "prof_dir": str(tmp_path / "out"), "analyse": True}
    for number in range(6):
        if number == 2:
            place.write_text(json.dumps(wanted))
        step()
        dynamic_profile.step()
    (output,) = tmp_path.glob("out/*/ASCEND_PROFILER_OUTPUT")
    assert len(rows(output / "step_trace_time.csv")) == 2
    place.write_text(json.dumps(wanted | {"start_step": 1}))
    dynamic_profile.step()
    assert "start_step 1 of" in capsys.readouterr().out
    dynamic_profile.start()
    for _ in range(4):
        step()
        dynamic_profile.step()
    assert len(list(tmp_path.glob("out/*_ascend_pt"))) == 2


# Names


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("profile", "activities schedule on_trace_ready record_shapes profile_memory with_stack with_flops with_modules "
         "experimental_config execution_trace_observer custom_trace_id_callback use_cuda"),
        ("schedule", "wait active warmup repeat skip_first skip_first_wait"),
        ("tensorboard_trace_handler", "dir_name worker_name analyse_flag async_mode"),
        ("analyse", "profiler_path max_process_number export_type"),
        ("_ExperimentalConfig", "profiler_level aic_metrics l2_cache msprof_tx mstx data_simplification record_op_args op_attr "
         "gc_detect_threshold export_type host_sys mstx_domain_include mstx_domain_exclude sys_io sys_interconnection"),
        ("npu.profile", "profiler_result_path use_e2e_profiler config"),
        ("npu.profileConfig", "ACL_PROF_ACL_API ACL_PROF_TASK_TIME ACL_PROF_AICORE_METRICS ACL_PROF_AICPU ACL_PROF_L2CACHE "
         "ACL_PROF_HCCL_TRACE ACL_PROF_TRAINING_TRACE TORCH_CALL_STACK aiCoreMetricsType"),
    ],
)  # fmt: skip
def test_functions_have_the_arguments_of_the_manual(name: str, arguments: str) -> None:
    """Those of the manual, in its order."""
    home, _, last = name.rpartition(".")
    result = inspect.signature(getattr(torch.npu if home else profiler, last))
    assert list(result.parameters) == arguments.split()


def test_the_names_of_the_profiler_are_there() -> None:
    assert {*profiler.__all__} <= {*dir(profiler)} and all(hasattr(profiler, one) for one in profiler.__all__)
    assert profiler.supported_activities() == {ProfilerActivity.CPU, ProfilerActivity.NPU}
    assert (profiler.ProfilerLevel.Level_none, profiler.ExportType.Db) == ("Level_none", "db")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        profiler.nothing
