"""torch.npu.profile and its parts, the class of torch_npu.utils, and the names of torch 1.8.1 in torch's own profiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch_npu import profiler
from torch_npu.utils.profiler import Profile

from tests.torch.seeing.runs import rows, training_step


@pytest.fixture
def step() -> Any:
    return training_step()


def test_the_steps_of_npu_profile(step: Any, tmp_path: Path) -> None:
    npu = torch.npu
    for call in (npu.prof_start, npu.prof_stop, npu.iteration_start, npu.iteration_end):
        with pytest.raises(RuntimeError, match="needs a"):
            call()
    npu.prof_init(str(tmp_path / "made"))
    with pytest.raises(RuntimeError, match="not reentrant"):
        npu.prof_init(str(tmp_path))
    npu.prof_start(npu.profileConfig(ACL_PROF_TRAINING_TRACE=True))
    for _ in range(2):
        npu.iteration_start()
        step()
        npu.iteration_end()
    npu.prof_stop()
    npu.prof_finalize()
    (table,) = tmp_path.glob("made/PROF_*/device_0/summary/step_trace_0_1.csv")
    first, second = rows(table)
    assert (first["Iteration ID"], second["Iteration ID"], first["Data Aug Bound(us)"]) == ("1", "2", "N/A")
    whole = float(second["FP to BP Time(us)"]) + float(second["Iteration Refresh(us)"])
    assert whole == pytest.approx(float(second["Iteration Time(us)"]), abs=0.01)
    assert 0 < float(second["Iteration Refresh(us)"]) < float(second["Iteration Time(us)"])


def test_npu_profile_twice_and_nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    one = torch.npu.profile()
    for _ in range(2):
        with one, pytest.raises(RuntimeError, match="npu profiler traces are not reentrant"):
            one.__enter__()
    assert len(list(tmp_path.glob("profiling_data/PROF_*"))) == 2
    with pytest.raises(KeyError), torch.npu.profile(str(tmp_path)):
        raise KeyError
    with torch.npu.profile(str(tmp_path)):
        torch.ones(2, device="npu")


def test_config_of_npu_profile() -> None:
    make = torch.npu.profileConfig
    assert make().NpuEventConfig == 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x100
    assert (
        make(ACL_PROF_ACL_API=False, ACL_PROF_TRAINING_TRACE=True).NpuEventConfig
        == 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x100
    )
    assert (make().AiCoreMetricsConfig, make(aiCoreMetricsType=0xFF).AiCoreMetricsConfig) == (0, 255)
    with pytest.raises(ValueError, match="aiCoreMetricsType should be in"):
        make(aiCoreMetricsType=9)
    with pytest.raises(TypeError, match="ACL_PROF_AICPU should be a bool"):
        make(ACL_PROF_AICPU=1)
    with pytest.warns(UserWarning, match="no data of an L2 cache"):
        make(ACL_PROF_L2CACHE=True)


def test_old_class_of_utils(step: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(Profile, "_the_one", None)
    for kind, made in (("TORCH", "chrome_trace_*.json"), ("CANN", "PROF_*")):
        monkeypatch.setattr(Profile, "_the_one", None)
        for _ in range(4):
            one = Profile(start_step=2, save_path=str(tmp_path / kind), profile_type=kind)
            one.start()
            step()
            one.end()
        assert len(list((tmp_path / kind).glob(made))) == 1
    assert "Self NPU" in capsys.readouterr().out
    monkeypatch.setattr(Profile, "_the_one", None)
    with pytest.raises(RuntimeError, match='"GE" is not supported by softnpu'):
        Profile(profile_type="GE")


def test_names_of_figures(step: Any, tmp_path: Path) -> None:
    with torch.autograd.profiler.profile(use_npu=True, with_stack=True, experimental_config=None) as prof:
        step()
    for row in prof.key_averages():
        assert (row.npu_time, row.npu_time_total, row.self_npu_time_total) == (
            row.device_time, row.device_time_total, row.self_device_time_total,
        )  # fmt: skip
    keys = [row.key for row in prof.key_averages()]
    assert len(keys) == len(set(keys)), "one row for a name, however short a call was"
    assert prof.key_averages().table(sort_by="self_npu_time_total", row_limit=3).count("\n") == 9
    prof.export_stacks(str(tmp_path / "stacks.txt"), "self_npu_time_total")
    assert torch_npu.profiler is profiler
