"""Devices: what the machine has (`inventory`) and what this process does with them (`Device`)."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from softnpu.base.config import Settings
from softnpu.base.errors import NpuError, codes
from softnpu.runtime.backends.base import Backend
from softnpu.runtime.backends.host import HostBackend
from softnpu.runtime.board import Board, used_by_others
from softnpu.runtime.memory.arena import Arena
from softnpu.spec._generated.chips import CHIPS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from softnpu.runtime.streams.failure import ExceptionInfo

    class Owner(Protocol):
        """What a device and its streams need of the process object."""

        board: Board
        exception_callback: Callable[[ExceptionInfo], None] | None


_OTHERS_SECONDS = 0.1


@dataclass(frozen=True)
class Soc:
    """A chip row of `spec/soc/`."""

    name: str
    family: str
    short_name: str
    ai_cores: int
    cube_cores: int
    vector_cores: int
    ai_cpus: int
    memory_bytes: int
    memory_kind: str
    l2_bytes: int
    max_streams: int
    max_events: int
    max_notifies: int
    chips_per_card: int
    stream_priorities: int
    bf16: bool
    inf_nan: bool
    vector_core_split: bool
    fv: bool
    task_abort: bool
    ts_devices: int
    aicore_mhz: int
    power_idle_w: float
    temp_idle_c: int
    generation: str


def soc(name: str) -> Soc:
    """The chip row of this name."""
    row = CHIPS.get(name) or CHIPS.get(f"Ascend{name}")  # npu-smi prints the short name
    if row is None:
        known = ", ".join(sorted(CHIPS))
        raise NpuError(codes.RT_SOC_VERSION, f"chip {name!r} is not known", f"set SOFTNPU_SOC to one of: {known}")
    return Soc(**{field.name: row[field.name] for field in fields(Soc)})


@dataclass(frozen=True)
class DeviceInfo:
    """A device of this machine, in use or not."""

    index: int
    kind: str
    soc: Soc
    memory_bytes: int


def inventory(settings: Settings | None = None) -> list[DeviceInfo]:
    """All devices of the machine by physical id, as the environment describes them."""
    settings = settings or Settings()
    chip = soc(settings.soc)
    for kind in sorted(set(settings.kinds)):
        make_backend(kind)  # says so at once when this version has no such devices
    return [DeviceInfo(i, kind, chip, settings.memory or chip.memory_bytes) for i, kind in enumerate(settings.kinds)]


def make_backend(kind: str) -> Backend:
    """The backend of a device kind."""
    if kind == "host":
        return HostBackend()
    raise NpuError(
        codes.RT_FEATURE_NOT_SUPPORT,
        f"devices of kind {kind!r} are not available in this version",
        "set SOFTNPU_DEVICES to host devices, e.g. SOFTNPU_DEVICES=2",
    )


class Device:
    """A device as this process uses it. `index` is the id the program sees, `info.index` the physical one."""

    def __init__(self, owner: Owner, index: int, info: DeviceInfo, arena: Arena) -> None:
        self.owner = owner
        self.index = index
        self.info = info
        self.soc = info.soc
        self.arena = arena
        self.backend = arena.backend
        self.lock = threading.RLock()
        self.used = 0
        self.physical = 0  # of it, memory without an address (acl.rt.malloc_physical)
        self._others = (-math.inf, 0)
        self.reserved = 0  # addresses without memory of this device behind them
        self.allocations = 0
        self.contexts = 0  # how many there are; the registry has them
        self.stream_ids: set[int] = set()
        self.events = 0
        self.notifies = 0
        self.peers: set[int] = set()
        self.limits: dict[int, int] = {}
        self.restore()

    def restore(self) -> None:
        """Settings as they are before a program changes them."""
        self.references = 0
        self.opened = False
        self.peers.clear()
        self.limits.clear()
        self.saturation = 1 if self.soc.inf_nan else 0
        self.overflow = False
        self._sample = (time.monotonic_ns(), 0)

    def board_slot(self) -> tuple[Board, int]:
        """Where this device's figures are published."""
        return self.owner.board, self.index

    def account(self, change: int) -> None:
        """Count bytes; the caller holds the arena's lock."""
        self.used += change
        self.owner.board.set_memory(self.index, max(0, self.used))

    def take_stream_id(self) -> int:
        """The smallest free stream number; raises when the chip has no more."""
        with self.lock:
            if len(self.stream_ids) >= self.soc.max_streams:
                raise NpuError(
                    codes.RT_NO_STREAM_RESOURCE,
                    f"device {self.index} has {self.soc.max_streams} streams in use, the most that {self.soc.name} allows",
                    "destroy streams that are no longer needed",
                )
            number = len(self.stream_ids)
            while number in self.stream_ids:
                number -= 1
            self.stream_ids.add(number)
            self.publish()
            return number

    def drop_stream_id(self, number: int) -> None:
        """Give a stream number back."""
        with self.lock:
            self.stream_ids.discard(number)
            self.publish()

    def count(self, what: str, change: int, limit: int, code: int) -> None:
        """Count events or notifies against the chip's limit."""
        with self.lock:
            value = getattr(self, what) + change
            if change > 0 and value > limit:
                raise NpuError(
                    code,
                    f"device {self.index} has {limit} {what} in use, the most that {self.soc.name} allows",
                    f"destroy {what} that are no longer needed",
                )
            setattr(self, what, value)

    def publish(self) -> None:
        """Bring the board up to date."""
        board = self.owner.board
        board.set_open(self.index, bool(self.references or self.contexts))
        board.set_counts(self.index, contexts=self.contexts, streams=len(self.stream_ids))

    def _cores(self, kind: int) -> int:
        """Cube (0) or vector (1) cores of the chip."""
        whole = {0: self.soc.cube_cores or self.soc.ai_cores, 1: self.soc.vector_cores}
        if kind not in whole:
            raise NpuError(
                codes.INVALID_PARAM, f"resource type {kind} is not known", "pass 0 for cube cores or 1 for vector cores"
            )
        return whole[kind]

    def core_limit(self, kind: int) -> int:
        """Cube (0) or vector (1) cores that may be used."""
        whole = self._cores(kind)
        return self.limits.get(kind, whole)

    def check_cores(self, kind: int, value: int) -> int:
        """A core limit that the chip can keep."""
        most = self._cores(kind)
        if not 1 <= value <= most:
            raise NpuError(
                codes.INVALID_PARAM,
                f"a limit of {value} cores is not possible, {self.soc.name} has {most}",
                f"use 1 to {most}",
            )
        return value

    def need(self, feature: str, words: str) -> None:
        """Raise unless the chip has a feature."""
        if not getattr(self.soc, feature):
            raise NpuError(
                codes.RT_FEATURE_NOT_SUPPORT,
                f"{self.soc.name} does not support {words}",
                "set SOFTNPU_SOC to a chip that does, e.g. Ascend910B3",
            )

    def utilization(self) -> int:
        """Busy percentage since this was last asked, over at most the last second."""
        now = time.monotonic_ns()
        busy = self.owner.board.busy_ns(self.index)
        before, self._sample = self._sample, (now, busy)
        return min(100, max(0, round(100 * (busy - before[1]) / max(1, now - before[0]))))

    def free_bytes(self) -> int:
        """Bytes that are left, counting what other processes use."""
        return max(0, self.info.memory_bytes - self.used - used_by_others(self.info.index))

    def used_by_others(self) -> int:
        """Bytes that other processes use, at most a moment old: looking costs more than a large allocation."""
        now = time.monotonic()
        if now - self._others[0] > _OTHERS_SECONDS:
            self._others = (now, used_by_others(self.info.index))
        return self._others[1]

    def attributes(self) -> dict[int, int]:
        """Values of `acl.rt.get_device_info` by attribute number."""
        chip = self.soc
        return {
            1: chip.ai_cpus,
            101: chip.ai_cores,
            102: chip.cube_cores or chip.ai_cores,
            201: chip.vector_cores,
            301: self.info.memory_bytes,
            302: chip.l2_bytes,
            401: 0,
            402: self.info.index,
            408: 0,
            501: 0,
        }
