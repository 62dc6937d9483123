"""Snapshots and history of memory, in the form that torch's memory viewer reads.

The history is kept block by block in C++ (csrc/memory/trace.*). Stacks hold the program's Python frames; those of C++ are left out.
`segment_map`, `segment_unmap` and `workspace_snapshot` do not occur: segments keep their size, and operators have no workspaces.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from typing import Any

from torch_npu import _C, _environment
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import connection
from torch_npu.npu import _flame
from torch_npu.npu._lazy import _lazy_init

_ENABLED = (None, "state", "all")
_CONTEXTS = (None, "state", "alloc", "all")  # their places are the numbers of Stacks in csrc/memory/trace.h
_STACKS = ("python", "all")
_MOST_FOR_OOM = 100_000  # entries of the history that OOM_SNAPSHOT_ENABLE=1 keeps
_OFF, _WITH_HISTORY, _STATE_ONLY = 0, 1, 2


def _check(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} should be in {list(allowed)} but got {value!r}" + pta_error(ErrCode.VALUE))


def _record_memory_history(
    enabled: str | bool | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
) -> None:
    """Begin (or with None end, and forget) recording; all devices are recorded, always.

    enabled: "state" keeps the stacks of blocks in use only, "all" the history too. context: which entries have stacks.
    """
    if isinstance(enabled, bool):  # torch's old form
        enabled = "all" if enabled else None
    _check("enabled", enabled, _ENABLED)
    _check("context", context, _CONTEXTS)
    _check("stacks", stacks, _STACKS)
    del device  # recording has no cost worth saving on the other devices
    if max_entries <= 0:
        raise ValueError(f"max_entries should be positive but got {max_entries}" + pta_error(ErrCode.VALUE))
    _lazy_init()
    most = min(max_entries, sys.maxsize)
    _C._record_history(
        enabled is not None, enabled == "all", _CONTEXTS.index(context), most, clear_history or enabled is None
    )


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The segments of all devices with their blocks, or those of one pool."""
    return _C._memory_snapshot(None if mempool_id is None else mempool_id[1], False)[0]


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Segments, and the history of each device."""
    del device  # as in torch, the snapshot holds all devices
    segments, traces = _C._memory_snapshot(None, True)
    return {"segments": segments, "device_traces": traces}


def _write(filename: str | os.PathLike[str], data: bytes) -> None:
    """Under another name first: a program that looks finds the whole file or none."""
    draft = f"{os.fspath(filename)}.{os.getpid()}.part"
    try:
        with open(draft, "wb") as file:
            file.write(data)
        os.replace(draft, filename)
    except OSError:
        if os.path.exists(draft):
            os.unlink(draft)
        raise


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle") -> None:
    """Write a snapshot for torch's memory viewer."""
    _write(filename, pickle.dumps(_snapshot()))


def _save_segment_usage(
    filename: str | os.PathLike[str] = "output.svg", snapshot: dict[str, Any] | None = None
) -> None:
    """A flame graph of segments."""
    from torch.cuda._memory_viz import segments as flame_graph

    _write(filename, flame_graph(_snapshot() if snapshot is None else snapshot, _flame.svg).encode())


def _save_memory_usage(filename: str | os.PathLike[str] = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """A flame graph of memory in use."""
    from torch.cuda._memory_viz import memory as flame_graph

    _write(filename, flame_graph(_snapshot() if snapshot is None else snapshot, _flame.svg).encode())


# ---- out of memory -----------------------------------------------------------------------------------------------------


def _wish() -> int:
    return _environment.number("OOM_SNAPSHOT_ENABLE", _OFF, _OFF, _STATE_ONLY)


def record_for_snapshots() -> None:
    """Begin the history that a snapshot at the end of memory shall hold, where the environment asks for one."""
    if _wish() == _WITH_HISTORY:
        _C._record_history(True, True, _CONTEXTS.index("all"), _MOST_FOR_OOM, False)


def out_of_memory(device: int, size: int, free: int) -> None:
    """Called before the error is raised."""
    wish = _wish()
    if wish == _OFF:
        return
    snapshot = _snapshot()
    if wish == _STATE_ONLY:
        snapshot["device_traces"] = [[] for _ in snapshot["device_traces"]]
    folder = _environment.text("OOM_SNAPSHOT_PATH", os.getcwd())
    os.makedirs(folder, exist_ok=True)
    name = os.path.join(folder, f"oom_snapshot_{os.getpid()}_{time.time_ns() // 1000}.pickle")
    _write(name, pickle.dumps(snapshot))
    print(f"torch_npu: npu:{device} had {free} bytes left for {size}; the memory snapshot is {name}", file=sys.stderr)


connection.hooks.out_of_memory = out_of_memory
