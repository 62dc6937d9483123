"""Where a profile goes: `<worker>_<pid>_<time>_ascend_pt` with what was recorded, what was asked for, and the tables made from it."""

from __future__ import annotations

import json
import os
import random
import socket
import string
import time
from pathlib import Path
from typing import Any

import torch

from torch_npu import _environment
from torch_npu._runtime.face import torch_with_npu
from torch_npu.profiler import _database, _tables, _timeline
from torch_npu.profiler._record import Recording

OUTPUT = "ASCEND_PROFILER_OUTPUT"
_RAW = Path("FRAMEWORK") / "torch.op_range"
_DONE = "analyse.done"
_TAIL = string.ascii_uppercase[:18]  # CANN's names end in letters from A to R


def stamp(now: float) -> str:
    """A moment as names have it: to the millisecond, without separators."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now)) + f"{int(now % 1 * 1000):03d}"


def rank() -> int:
    """The rank in a job, -1 outside of one."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return _environment.number("RANK", -1, -1, 1 << 20)


def new_cann_folder(parent: Path) -> Path:
    """An empty PROF_<number>_<time>_<16 characters>."""
    number = 1 + sum(1 for _ in parent.glob("PROF_*"))
    tail = f"{os.getpid() % 10**8:08d}" + "".join(random.SystemRandom().choices(_TAIL, k=8))
    folder = parent / f"PROF_{number:06d}_{stamp(time.time())}_{tail}"
    folder.mkdir(parents=True)
    return folder


def write_cann_frame(folder: Path, recording: Recording) -> None:
    """The parts of a PROF folder that say when and where: `host` and one `device_N` per device."""
    devices = sorted({task.device for task in recording.tasks()})
    for name, tail in [("host", ""), *((f"device_{device}", f".{device}") for device in devices)]:
        part = folder / name
        part.mkdir(exist_ok=True)
        for edge_name, at in (("start", recording.start), ("end", recording.end)):
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))
            edge = "Begin" if edge_name == "start" else "End"
            moment_info = {f"collectionDate{edge}": moment, f"collectionTime{edge}": str(at // 1000)}
            (part / f"{edge_name}_info{tail}").write_text(json.dumps(moment_info))
        info: dict[str, Any] = {
            "pid": str(os.getpid()),
            "jobInfo": "NA",
            "devices": ",".join(map(str, devices)),
            "DeviceInfo": [],
        }
        info["DeviceInfo"] = [{"id": device, "soc": torch_with_npu.npu.get_device_name(device)} for device in devices]
        (part / f"info.json{tail}").write_text(json.dumps(info))


def save(
    parent: Path, worker: str | None, recording: Recording, info: dict[str, Any], metadata: dict[str, Any]
) -> Path:
    """A folder with what was recorded, ready for `analyse`."""
    folder = parent / f"{worker or socket.gethostname()}_{os.getpid()}_{stamp(time.time())}_ascend_pt"
    (folder / _RAW.parent).mkdir(parents=True)
    (folder / "logs").mkdir()
    write_cann_frame(new_cann_folder(folder), recording)
    tail = f"_{rank()}" if rank() >= 0 else ""
    (folder / f"profiler_info{tail}.json").write_text(json.dumps(info, indent=2))
    (folder / "profiler_metadata.json").write_text(json.dumps(metadata, indent=2))
    recording.save(folder / _RAW)
    return folder


def info_of(folder: Path) -> dict[str, Any]:
    """What a folder's profile was asked for."""
    (path,) = folder.glob("profiler_info*.json")
    info: dict[str, Any] = json.loads(path.read_text())
    return info


def is_profile(folder: Path) -> bool:
    """Whether `analyse` can read it."""
    return (folder / _RAW).is_file()


def write_output(folder: Path, export_types: list[str]) -> None:
    """The tables and timelines of a saved profile: as text, as a database, or both."""
    recording, info = Recording.load(folder / _RAW), info_of(folder)
    output = folder / OUTPUT
    output.mkdir(exist_ok=True)
    if "text" in export_types:
        _write_text(output, recording, info["config"])
    if "db" in export_types:
        tail = f"_{info['rank_id']}" if info["rank_id"] >= 0 else ""
        _database.write(output / f"ascend_pytorch_profiler{tail}.db", recording)
    (output / _DONE).touch()


def _write_text(output: Path, recording: Recording, config: dict[str, Any]) -> None:
    level = config["experimental_config"]["_profiler_level"]
    full = level in ("Level1", "Level2")
    _timeline.trace_view(recording).write(output / "trace_view.json")
    tables = {
        "operator_details": _tables.operator_details(recording),
        "step_trace_time": _tables.step_trace_time(recording),
    }
    if level != "Level_none":
        tables["kernel_details"] = _tables.kernel_details(recording, full)
    if full:
        tables |= {"op_statistic": _tables.op_statistic(recording), "api_statistic": _tables.api_statistic(recording)}
    if config["common_config"]["profile_memory"]:
        tables |= {
            "memory_record": _tables.memory_record(recording),
            "operator_memory": _tables.operator_memory(recording),
        }
    for name, table in tables.items():
        _tables.write(output / f"{name}.csv", table)
