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
    made = parent / f"PROF_{number:06d}_{stamp(time.time())}_{tail}"
    made.mkdir(parents=True)
    return made


def write_cann_frame(folder: Path, found: Recording) -> None:
    """The parts of a PROF folder that say when and where: `host` and one `device_N` per device."""
    devices = sorted({one.device for one in found.tasks()})
    for name, tail in [("host", ""), *((f"device_{one}", f".{one}") for one in devices)]:
        place = folder / name
        place.mkdir(exist_ok=True)
        for word, at in (("start", found.start), ("end", found.end)):
            moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1e9))
            edge = "Begin" if word == "start" else "End"
            said = {f"collectionDate{edge}": moment, f"collectionTime{edge}": str(at // 1000)}
            (place / f"{word}_info{tail}").write_text(json.dumps(said))
        info: dict[str, Any] = {
            "pid": str(os.getpid()),
            "jobInfo": "NA",
            "devices": ",".join(map(str, devices)),
            "DeviceInfo": [],
        }
        info["DeviceInfo"] = [{"id": one, "soc": torch_with_npu.npu.get_device_name(one)} for one in devices]
        (place / f"info.json{tail}").write_text(json.dumps(info))


def save(parent: Path, worker: str | None, found: Recording, info: dict[str, Any], metadata: dict[str, Any]) -> Path:
    """A folder with what was recorded, ready for `analyse`."""
    folder = parent / f"{worker or socket.gethostname()}_{os.getpid()}_{stamp(time.time())}_ascend_pt"
    (folder / _RAW.parent).mkdir(parents=True)
    (folder / "logs").mkdir()
    write_cann_frame(new_cann_folder(folder), found)
    tail = f"_{rank()}" if rank() >= 0 else ""
    (folder / f"profiler_info{tail}.json").write_text(json.dumps(info, indent=2))
    (folder / "profiler_metadata.json").write_text(json.dumps(metadata, indent=2))
    found.save(folder / _RAW)
    return folder


def info_of(folder: Path) -> dict[str, Any]:
    """What a folder's profile was asked for."""
    (place,) = folder.glob("profiler_info*.json")
    found: dict[str, Any] = json.loads(place.read_text())
    return found


def is_profile(folder: Path) -> bool:
    """Whether `analyse` can read it."""
    return (folder / _RAW).is_file()


def write_output(folder: Path, export_types: list[str]) -> None:
    """The tables and timelines of a saved profile: as text, as a database, or both."""
    found, info = Recording.load(folder / _RAW), info_of(folder)
    output = folder / OUTPUT
    output.mkdir(exist_ok=True)
    if "text" in export_types:
        _write_text(output, found, info["config"])
    if "db" in export_types:
        tail = f"_{info['rank_id']}" if info["rank_id"] >= 0 else ""
        _database.write(output / f"ascend_pytorch_profiler{tail}.db", found)
    (output / _DONE).touch()


def _write_text(output: Path, found: Recording, config: dict[str, Any]) -> None:
    level = config["experimental_config"]["_profiler_level"]
    full = level in ("Level1", "Level2")
    _timeline.trace_view(found).write(output / "trace_view.json")
    tables = {"operator_details": _tables.operator_details(found), "step_trace_time": _tables.step_trace_time(found)}
    if level != "Level_none":
        tables["kernel_details"] = _tables.kernel_details(found, full)
    if full:
        tables |= {"op_statistic": _tables.op_statistic(found), "api_statistic": _tables.api_statistic(found)}
    if config["common_config"]["profile_memory"]:
        tables |= {"memory_record": _tables.memory_record(found), "operator_memory": _tables.operator_memory(found)}
    for name, table in tables.items():
        _tables.write(output / f"{name}.csv", table)
