"""Snapshots and history of memory, in the form that torch's memory viewer reads.

The history holds segments (segment_alloc, segment_free) with their Python stacks, and snapshots. It does not hold the blocks inside
segments (alloc, free_requested, free_completed), `oom`, C++ frames, or what happened before recording began.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import deque
from typing import Any

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu import _stream_ids as ids
from torch_npu.npu._lazy import _lazy_init
from torch_npu.npu.pools import segments

_ENABLED = (None, "state", "all")
_CONTEXTS = (None, "state", "alloc", "all")
_STACKS = ("python", "all")


class _History:
    """What is recorded, per device."""

    def __init__(self) -> None:
        self.enabled: str | None = None
        self.with_stacks = False
        self.entries: dict[int, deque[dict[str, Any]]] = {}
        self.frames: dict[int, list[dict[str, Any]]] = {}  # where a live segment was made
        self.most = sys.maxsize

    def record(self, action: str, device: int, address: int, size: int, stream: int) -> None:
        frames = _frames() if self.with_stacks else []
        if action == "segment_alloc":
            self.frames[address] = frames
        else:
            self.frames.pop(address, None)
        if self.enabled == "all":
            entry = {"action": action, "addr": address, "size": size, "stream": stream, "frames": frames}
            entry["time_us"] = time.time_ns() // 1000
            self.entries.setdefault(device, deque(maxlen=self.most)).append(entry)


_history = _History()


def _frames() -> list[dict[str, Any]]:
    """The Python stack of the program, innermost first, without this package's own part."""
    found = []
    frame = sys._getframe(1)
    package = os.path.dirname(__file__)
    while frame is not None:
        code = frame.f_code
        if os.path.dirname(code.co_filename) != package:
            found.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return found


def _check(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} should be in {list(allowed)} but got {value!r}" + pta_error(ErrCode.VALUE))


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,
    clear_history: bool = False,
) -> None:
    """Begin (or with None end) recording; see the head of this module for what is recorded. All devices are, always."""
    _check("enabled", enabled, _ENABLED)
    _check("context", context, _CONTEXTS)
    _check("stacks", stacks, _STACKS)
    del device  # recording has no cost worth saving on the other devices
    if max_entries <= 0:
        raise ValueError(f"max_entries should be positive but got {max_entries}" + pta_error(ErrCode.VALUE))
    _lazy_init()
    if clear_history or enabled is None:
        _history.entries.clear()
    _history.enabled, _history.with_stacks = enabled, context is not None
    _history.most = min(max_entries, sys.maxsize)
    for index, entries in _history.entries.items():
        _history.entries[index] = deque(entries, maxlen=_history.most)
    segments.listener = None if enabled is None else _history.record
    if enabled is not None:
        segments.install()


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """The segments of all devices with their blocks, or those of one pool."""
    found = []
    for segment in _C._memory_snapshot():
        marked = segment["stream"]
        segment["stream"], segment["segment_pool_id"] = ids.plain(marked), (0, ids.pool_of(marked))
        segment["frames"] = _history.frames.get(segment["address"], [])
        if mempool_id is None or tuple(mempool_id) == segment["segment_pool_id"]:
            found.append(segment)
    return found


def _snapshot(device: Any = None) -> dict[str, Any]:
    """Segments, and the history of each device."""
    del device  # as in torch, the snapshot holds all devices
    if _history.enabled == "all":
        for index in range(_C._get_device_count()):
            _history.record("snapshot", index, 0, 0, 0)
    traces = [list(_history.entries.get(index, ())) for index in range(_C._get_device_count())]
    return {"segments": memory_snapshot(), "device_traces": traces}


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Write a snapshot for torch's memory viewer."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _save_segment_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """A flame graph of segments. torch fetches the script for it from the network the first time."""
    from torch.cuda._memory_viz import segments as flame_graph

    _write(filename, flame_graph(_snapshot() if snapshot is None else snapshot))


def _save_memory_usage(filename: str = "output.svg", snapshot: dict[str, Any] | None = None) -> None:
    """A flame graph of memory in use. torch fetches the script for it from the network the first time."""
    from torch.cuda._memory_viz import memory as flame_graph

    _write(filename, flame_graph(_snapshot() if snapshot is None else snapshot))


def _write(filename: str, text: str) -> None:
    with open(filename, "w", encoding="utf-8") as file:
        file.write(text)
