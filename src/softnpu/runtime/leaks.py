"""What a program never gave back: found when memory goes, told on stderr and in the log."""

from __future__ import annotations

import os

from softnpu.base import log
from softnpu.base.handles import HandleTable, words
from softnpu.base.units import human, plural
from softnpu.runtime.device import Device
from softnpu.runtime.memory.kinds import LASTING_KINDS
from softnpu.runtime.memory.memory import Memory
from softnpu.runtime.parts import Parts

_SHOWN = 50


def find(memory: Memory, handles: HandleTable, parts: Parts, device: Device | None = None) -> list[str]:
    """On one device or at all: a line for each allocation and kind of handle, below a line with their sum."""
    leaked = [
        allocation
        for allocation in memory.allocator.live_allocations()
        if allocation.kind not in LASTING_KINDS and (device is None or allocation.device is device)
    ]
    kinds: dict[str, int] = {}
    for _, kind, obj in handles.live():
        default = getattr(obj, "default", False) or getattr(obj, "is_default", False)
        home = getattr(getattr(obj, "context", None), "device", None)
        if not default and (device is None or home is device):
            kinds[kind] = kinds.get(kind, 0) + 1
    lines = [allocation.describe() for allocation in leaked]
    lines += [f"{plural(count, f'{words(kind)} handle')} never destroyed" for kind, count in sorted(kinds.items())]
    lines += [line for part in parts.all() for line in part.leaks(device)]
    if not lines:
        return []
    return [f"{human(sum(allocation.size for allocation in leaked))} in {plural(len(leaked), 'allocation')}", *lines]


def report(leaks: list[str], occasion: str, traced: bool) -> None:
    """Tell what `find` found, if anything; `traced` when it names the lines that allocated."""
    if not leaks:
        return
    head, *lines = leaks
    for line in leaks:
        log.log().write(log.WARNING, f"leak at {occasion}: {line}", "RUNTIME", "leaks")
    shown = [f"  {line}" for line in lines[:_SHOWN]]
    if len(lines) > _SHOWN:
        shown.append(f"  … and {len(lines) - _SHOWN} more")
    if not traced:
        shown.append("  (SOFTNPU_CHECK=leaks,trace names the lines that allocated them)")
    os.write(2, "\n".join([f"softnpu: leaks at {occasion}: {head}", *shown, ""]).encode())
