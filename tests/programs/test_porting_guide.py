"""Code examples of the porting guide that no other test runs: training commands, profiling, the log.

`porting_guide/README.md` has the list of all. Lines are the guide's, but for paths, sizes and the slips that comments name.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from tests.programs.porting_guide.runs import PROGRAMS, TRAINING, Net, new_training, run

COLUMNS = (
    "Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "Self NPU %", "Self NPU", "NPU total",
    "NPU time avg", "# of Calls",
)  # fmt: skip


@pytest.fixture
def training() -> Any:
    """model, input_tensor, target, loss_func, optimizer as the examples call them, on npu."""
    return new_training()


def headers(table: str) -> list[str]:
    """The names of a table's columns."""
    return re.split(r"\s{2,}", table.splitlines()[1].strip())


# The quick start's second command, and its first with ShuffleNet

SEVERAL = (
    "imagenet --addr=127.0.0.1 --seed 49 --workers 0 --lr 0.0125 --print-freq 1 --arch resnet50 --dist-url tcp://127.0.0.1:50000 "
    "--multiprocessing-distributed --world-size 1 --batch-size 16 --epochs 1 --rank 0 --device-list 0,1 --width 4 --image-size 32"
)


def losses(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    """Rank and step, and the loss there."""
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = re.findall(r"((?:rank \d+ )?Epoch: \[\d+\] \[\d+/\d+\]) Time +\S+ Loss (\S+)", done.stdout)
    return {step: float(loss) for step, loss in found}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the folder imagenet in it."""
    for name in ("apex", "PIL"):
        pytest.importorskip(name)
    folder = tmp_path_factory.mktemp("pictures")
    made = run(str(TRAINING / "image_folder.py"), "imagenet", "--train", "4", "--val", "2", folder=folder)
    assert made.returncode == 0, made.stderr
    return folder


def train(folder: Path, pictures: Path, words: str) -> subprocess.CompletedProcess[str]:
    """The migrated program in a folder of its own."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = str(one.getsockname()[1])
    folder.mkdir()
    (folder / "imagenet").symlink_to(pictures / "imagenet")
    program = (str(TRAINING / "imagenet_npu.py"), *words.split())
    return run(*program, folder=folder, MASTER_PORT=port, OMP_NUM_THREADS="1")


def test_two_processes_on_two_devices_train_like_gloo_on_the_cpu(pictures: Path, tmp_path: Path) -> None:
    """Two processes on two devices with hccl and --amp, as printed but for sizes; beside it the same on the CPU with gloo.
    `test_torch_training.py` has the larger runs, which are slow."""
    with ThreadPoolExecutor(2) as pool:
        npu = pool.submit(train, tmp_path / "npu", pictures, f"{SEVERAL} --dist-backend hccl --amp")
        cpu = pool.submit(train, tmp_path / "cpu", pictures, f"{SEVERAL} --dist-backend gloo --device cpu")
    assert "Selected optimization level O2" in npu.result().stdout
    ours, theirs = losses(npu.result()), losses(cpu.result())
    assert sorted(theirs) == [f"rank {rank} Epoch: [0] [{step}/2]" for rank in (0, 1) for step in (0, 1)]
    assert ours == pytest.approx(theirs, rel=0.01)
    assert len(set(ours.values())) == 4, "a loss that stands still says nothing"
    assert (tmp_path / "npu" / "checkpoint.pth.tar").exists()


def test_shufflenet_as_architecture_trains_like_the_cpu(pictures: Path, tmp_path: Path) -> None:
    words = "imagenet --arch shufflenet_v2_x1_0 --epochs 1 --batch-size 16 --workers 0 --lr 0.0125 --seed 49 --width 8 --image-size 32 --print-freq 1"
    with ThreadPoolExecutor(2) as pool:
        npu = pool.submit(train, tmp_path / "npu", pictures, words)
        cpu = pool.submit(train, tmp_path / "cpu", pictures, f"{words} --device cpu")
    ours, theirs = losses(npu.result()), losses(cpu.result())
    assert len(theirs) == 2 and ours == pytest.approx(theirs, rel=1e-5)


# Profiling in PyTorch


def test_the_profiler_prints_a_table_and_exports_a_chrome_trace(
    training: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, input_tensor, target, loss_func, optimizer = training
    with torch.autograd.profiler.profile(use_npu=True) as prof:
        out = model(input_tensor)
        loss = loss_func(out, target)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
    print(prof)
    output_path = str(tmp_path / "profile_data.json")
    prof.export_chrome_trace(output_path)
    table = capsys.readouterr().out
    assert set(headers(table)) == set(COLUMNS)
    events = json.loads(Path(output_path).read_text())["traceEvents"]
    names = {one["name"] for one in events if one.get("cat") == "cpu_op"}
    assert {"aten::conv2d", "aten::convolution_backward", "aten::addmm", "AddmmBackward0"} <= names
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::addmm"].count == 1
    assert 0 < rows["aten::addmm"].npu_time_total == rows["aten::addmm"].device_time_total < 1e7


def test_the_profiler_records_shapes_of_inputs(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, input_tensor, *_ = training
    with torch.autograd.profiler.profile(use_npu=True, record_shapes=True) as prof:
        model(input_tensor)
    print(prof)
    table = capsys.readouterr().out
    assert headers(table)[-1] == "Input Shapes"
    (row,) = (line for line in table.splitlines() if "aten::addmm" in line)
    assert "[[5], [2, 144], [144, 5], [], []]" in row


def test_the_profiler_counts_memory_of_the_device(training: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, input_tensor, *_ = training
    with torch.autograd.profiler.profile(use_npu=True, profile_memory=True) as prof:
        kept = model(input_tensor)
        whole = torch.empty(1 << 20, device="npu")
    print(prof)
    assert {"CPU Mem", "Self CPU Mem", "NPU Mem", "Self NPU Mem"} <= set(headers(capsys.readouterr().out))
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::empty"].self_npu_memory_usage >= whole.nbytes == 4 << 20
    assert rows["aten::addmm"].npu_memory_usage == 512, f"{kept.nbytes} bytes in the smallest block"
    outside = torch.autograd.profiler.profile(use_npu=True)
    with outside:
        torch.empty(1 << 20, device="npu")
    assert all(row.npu_memory_usage == 0 for row in outside.key_averages())


def test_the_simple_profiler_keeps_operators_that_call_no_others(training: Any, tmp_path: Path) -> None:
    model, input_tensor, *_ = training
    with torch.autograd.profiler.profile(use_npu=True, use_npu_simple=True) as prof:
        model(input_tensor)
    output_path = str(tmp_path / "profile_data.json")
    prof.export_chrome_trace(output_path)
    spans = [one for one in json.loads(Path(output_path).read_text()) if one["ph"] == "X"]
    names = {one["name"] for one in spans}
    assert {"aten::addmm", "aten::relu"} <= names
    assert not names & {"aten::linear", "aten::conv2d", "aten::convolution", "aten::batch_norm"}, (
        "they only call others"
    )
    ends = sorted((one["ts"], one["ts"] + one["dur"]) for one in spans)
    assert all(end <= start + 0.002 for (_, end), (start, _) in zip(ends, ends[1:], strict=False)), "none is in another"
    with pytest.raises(RuntimeError, match="use_npu_simple needs use_npu=True"):
        torch.autograd.profiler.profile(use_npu_simple=True)


def test_operators_of_a_run_on_the_cpu_are_listed_by_time(capsys: pytest.CaptureFixture[str]) -> None:
    """On the CPU, before a migration."""
    model, input_tensor = Net(), torch.randn(2, 3, 8, 8)
    with torch.autograd.profiler.profile() as prof:
        out = model(input_tensor)
        loss = out.sum()
        loss.backward()
    print(prof.key_averages().table(sort_by="self_cpu_time_total"))
    table = capsys.readouterr().out
    assert not [one for one in headers(table) if "NPU" in one]
    times = [row.self_cpu_time_total for row in prof.key_averages()]
    names = [line.split()[0] for line in table.splitlines()[3:-4]]
    assert {"aten::conv2d", "aten::native_batch_norm", "aten::addmm"} <= set(names)
    slowest = max(prof.key_averages(), key=lambda row: row.self_cpu_time_total)
    assert names[0][:20] == slowest.key[:20] and max(times) > min(times)


# Profiling in CANN


def timelines(folder: Path) -> list[dict[str, Any]]:
    """The events of the one profile in a folder."""
    (place,) = folder.glob("PROF_*/timeline/*.json")
    assert re.fullmatch(r"PROF_\d{6}_\d{17}_\d{8}[A-R]{8}", place.parents[1].name)
    found: list[dict[str, Any]] = json.loads(place.read_text())
    return found


def layers(events: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Names of events by the name of their layer, from top to bottom."""
    order = {one["pid"]: one["args"]["sort_index"] for one in events if one["name"] == "process_sort_index"}
    named = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    return {
        named[pid]: {one["name"] for one in events if one["ph"] == "X" and one["pid"] == pid}
        for pid in sorted(named, key=order.__getitem__)
    }


def test_npu_profile_writes_timeline_and_summary(training: Any, tmp_path: Path) -> None:
    model, input_tensor, target, loss_func, optimizer = training
    profiler_result_path = str(tmp_path)
    with torch.npu.profile(profiler_result_path):
        out = model(input_tensor)
        loss = loss_func(out, target)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
    found = layers(timelines(tmp_path))
    assert list(found) == ["AscendCL", "Task Scheduler"], "operators of PyTorch only with E2E"
    assert {"aten::addmm", "aten::convolution_backward_overrideable"} <= found["Task Scheduler"]
    (table,) = tmp_path.glob("PROF_*/device_0/summary/op_summary_0_1.csv")
    rows = table.read_text().splitlines()
    assert rows[0].startswith(
        "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us)"
    )
    (linear,) = (row for row in rows if ",aten::addmm," in row)
    assert '"""5;2,144;144,5""",FLOAT;FLOAT;FLOAT' in linear


def test_the_e2e_profiler_has_the_four_layers_of_the_guide(
    training: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, input_tensor, *_ = training

    def model_train() -> None:
        model(input_tensor).sum().backward()
        torch.nonzero(input_tensor)

    with torch.npu.profile(profiler_result_path="./result", use_e2e_profiler=True):
        model_train()
    found = layers(timelines(tmp_path / "result"))
    assert list(found) == ["MsprofTx", "AscendCL", "Task Scheduler", "AI CPU"], "the four layers of the guide's picture"
    assert {"aten::linear", "aten::addmm"} <= found["MsprofTx"] and "aten::linear" not in found["Task Scheduler"]
    assert "aten::nonzero" in found["AI CPU"]


def test_the_configuration_of_the_e2e_profiler_chooses_layers(
    training: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, input_tensor, *_ = training
    with torch.npu.profile(profiler_result_path="./results", use_e2e_profiler=True, config=torch.npu.profileConfig(ACL_PROF_ACL_API=True,
    ACL_PROF_TASK_TIME=True,
    ACL_PROF_AICORE_METRICS=True,
    ACL_PROF_AICPU=True,
    ACL_PROF_L2CACHE=False,
    ACL_PROF_HCCL_TRACE=True,
    ACL_PROF_TRAINING_TRACE=False,
    aiCoreMetricsType=0)):  # fmt: skip
        model(input_tensor)
    assert list(layers(timelines(tmp_path / "results"))) == ["MsprofTx", "AscendCL", "Task Scheduler"]
    config = torch.npu.profileConfig(ACL_PROF_ACL_API=False, ACL_PROF_TASK_TIME=False)
    with torch.npu.profile(profiler_result_path="./less", use_e2e_profiler=True, config=config):
        model(input_tensor)
    assert list(layers(timelines(tmp_path / "less"))) == ["MsprofTx"]


# Operators in the log

ONE_STEP = """
import torch
from torch import nn
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).npu()
loss = model(torch.ones(2, 3, 8, 8).npu()).sum()
loss.backward()
print(f"loss is a number: {loss.item() == loss.item()}")
"""


def test_operators_are_collected_from_the_log(tmp_path: Path) -> None:
    """The log at level info, and the guide's script that collects operators from it."""
    done = run("-c", ONE_STEP, folder=tmp_path, ASCEND_GLOBAL_LOG_LEVEL="1")
    assert (done.returncode, done.stdout) == (0, "loss is a number: True\n"), done.stderr
    folder = tmp_path / "ascend" / "log" / "debug" / "plog"
    done = run(str(PROGRAMS / "get_ascend_op_info.py"), "--host_log_folder", str(folder), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "ascend_op_info_summary.txt").read_text().splitlines()
    assert {"Conv2D", "Relu", "Addmm", "ConvolutionBackward", "ReduceSumD"} <= {line.split()[0] for line in lines}
    (linear,) = (line for line in lines if line.startswith("Addmm "))
    assert linear.startswith("Addmm InputDesc: (DT_FLOAT [5] format 2) (DT_FLOAT [2,144] format")
    assert "OutputDesc: (DT_FLOAT [2,5] format" in linear


def test_the_log_goes_to_the_screen_when_asked(tmp_path: Path) -> None:
    done = run("-c", ONE_STEP, folder=tmp_path, ASCEND_GLOBAL_LOG_LEVEL="1", ASCEND_SLOG_PRINT_TO_STDOUT="1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\[INFO\] ASCENDCL\(\d+,.*aclopCompile::aclOp OpType: Addmm, ", done.stdout, re.MULTILINE)
    assert not (tmp_path / "ascend").exists()


def test_the_common_variables_of_the_environment_change_no_result(tmp_path: Path) -> None:
    """Every variable of the chapter, and that of the FAQ, with its value: the program runs and says no more than it should."""
    done = run(
        "-c",
        ONE_STEP,
        folder=tmp_path,
        TASK_QUEUE_ENABLE="1",
        ASCEND_SLOG_PRINT_TO_STDOUT="0",
        ASCEND_GLOBAL_LOG_LEVEL="3",
        DUMP_GE_GRAPH="2",
        DUMP_GRAPH_LEVEL="3",
        ASCEND_GLOBAL_EVENT_ENABLE="0",
        PTCOPY_ENABLE="1",
        COMBINED_ENABLE="1",
        DYNAMIC_OP="ADD#MUL",
        HCCL_WHITELIST_DISABLE="1",
        ASCEND_AICPU_PATH="/usr/local/Ascend/ascend-toolkit/latest",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "loss is a number: True\n", "")
    assert not (tmp_path / "ascend").exists(), "level error: nothing to write"
