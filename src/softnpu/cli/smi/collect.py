"""What npu-smi knows at one moment: the machine's devices joined with what the boards of live processes say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import softnpu

if TYPE_CHECKING:
    from softnpu.runtime.board import DeviceUse, ProcessUse
    from softnpu.runtime.device import DeviceInfo, Soc

SAMPLE_S = 0.1

# Bus numbers as an 8-card server shows them, then the same again one bridge further.
_BUSES = ("C1", "C2", "81", "82", "01", "02", "41", "42", "C5", "C6", "85", "86", "05", "06", "45", "46")

Reader = Callable[[], "Iterable[ProcessUse]"]


@dataclass(frozen=True)
class ProcessRow:
    """One process on one device."""

    pid: int
    name: str
    used: int
    peak: int
    streams: int
    contexts: int
    tasks: int
    aicore: int

    @property
    def used_mb(self) -> int:
        """Memory in MB, rounded up."""
        return megabytes(self.used)


@dataclass(frozen=True)
class DeviceRow:
    """One chip with everything that any view shows of it."""

    info: DeviceInfo
    logic: int
    card: int
    chip: int
    aicore: int
    processes: tuple[ProcessRow, ...]

    @property
    def soc(self) -> Soc:
        """The chip's row."""
        return self.info.soc

    @property
    def used(self) -> int:
        """Bytes in use by all processes together."""
        return sum(process.used for process in self.processes)

    @property
    def used_mb(self) -> int:
        """Memory in use in MB, rounded up."""
        return megabytes(self.used)

    @property
    def total_mb(self) -> int:
        """Memory of the device in MB."""
        return self.info.memory_bytes >> 20

    @property
    def memory_percent(self) -> int:
        """Memory in use in per cent."""
        return percent(self.used, self.info.memory_bytes)

    @property
    def bus_id(self) -> str:
        """A PCI address that is stable per device; nothing is on that bus."""
        return f"0000:{_BUSES[self.info.index % len(_BUSES)]}:00.0"

    @property
    def has_hbm(self) -> bool:
        """Whether the chip belongs to the HBM families (table generation A) and not to the 310 ones (C)."""
        return self.soc.generation == "A"

    @property
    def shows_physical_id(self) -> bool:
        """Whether the tool prints a `Phy-ID` (910_93: two chips on a card)."""
        return self.has_hbm and self.soc.chips_per_card > 1

    @property
    def is_310p(self) -> bool:
        """Whether the chip is a 310P, which reports no power."""
        return self.soc.family == "310P"

    @property
    def full_name(self) -> str:
        """The name with its family word, as `-m` prints it."""
        name = self.soc.short_name
        return name if name.startswith("Ascend") else f"Ascend {name}"

    @property
    def power(self) -> str:
        """The chip row's idle power; a 310P has none, and the second chip of a card none of its own."""
        if self.is_310p:
            return "NA"
        return "-" if self.has_hbm and self.chip > 0 else f"{self.soc.power_idle_w:.1f}"


@dataclass(frozen=True)
class Snapshot:
    """All devices at one moment; `activity` lets the next snapshot tell how busy they were in between."""

    version: str
    taken_ns: int
    devices: tuple[DeviceRow, ...]
    unlisted: tuple[tuple[int, int], ...] = ()
    activity: Mapping[tuple[int, int, int], int] = field(default_factory=dict, repr=False)

    def select(self, card: int | None = None, chip: int | None = None, physical: int | None = None) -> Snapshot:
        """The same moment with only the devices of this card, chip or physical id."""
        kept = tuple(
            device
            for device in self.devices
            if card in (None, device.card) and chip in (None, device.chip) and physical in (None, device.info.index)
        )
        return replace(self, devices=kept)

    def cards(self) -> list[list[DeviceRow]]:
        """The devices grouped by card."""
        groups: dict[int, list[DeviceRow]] = {}
        for device in self.devices:
            groups.setdefault(device.card, []).append(device)
        return list(groups.values())


def megabytes(size: int) -> int:
    """Bytes as MB, rounded; anything at all shows as 1."""
    return max(1, (size + (1 << 19)) >> 20) if size else 0


def percent(part: float, whole: float) -> int:
    """A whole percentage between 0 and 100."""
    return max(0, min(100, round(100 * part / whole))) if whole > 0 else 0


def collect(
    inventory: Sequence[DeviceInfo],
    processes: Iterable[ProcessUse],
    previous: Snapshot | None = None,
    now: int | None = None,
) -> Snapshot:
    """Join devices and processes; AI Core use is the busy time since `previous`, 0 without one."""
    now = time.monotonic_ns() if now is None else now
    uses = [(process, use) for process in processes for use in process.devices]
    activity = {(process.pid, process.start_time, use.device): _busy_until(use, now) for process, use in uses}
    uses = [(process, use) for process, use in uses if use.open or use.used]
    window = now - previous.taken_ns if previous else 0
    known = {info.index for info in inventory}
    # Chips of different cards on one machine: a card number per device, or two would share one.
    mixed = len({info.soc.chips_per_card for info in inventory}) > 1
    rows = []
    for logic, info in enumerate(inventory):
        chips = 1 if mixed else max(1, info.soc.chips_per_card)
        spent, here = 0, []
        for process, use in uses:
            if use.device == info.index:
                key = (process.pid, process.start_time, use.device)
                # A process that was not there before has done all its work within the window.
                delta = max(0, activity[key] - previous.activity.get(key, 0)) if previous else 0
                spent += delta
                here.append(_process_row(process, use, percent(delta, window)))
        here.sort(key=lambda row: (-row.used, row.pid))
        card, chip = divmod(info.index, chips)
        rows.append(DeviceRow(info, logic, card, chip, percent(spent, window), tuple(here)))
    unlisted = tuple((process.pid, use.device) for process, use in uses if use.device not in known)
    return Snapshot(softnpu.__version__, now, tuple(rows), unlisted, activity)


def sample(inventory: Sequence[DeviceInfo], read: Reader, previous: Snapshot | None = None) -> Snapshot:
    """A snapshot with AI Core use: since `previous`, else over a short window if any device is in use at all."""
    if previous is not None:
        return collect(inventory, read(), previous)
    first = collect(inventory, read())
    if not any(device.processes for device in first.devices):
        return first
    time.sleep(SAMPLE_S)
    return collect(inventory, read(), first)


def _busy_until(use: DeviceUse, now: int) -> int:
    return use.busy_ns + (max(0, now - use.running_since) if use.running_since else 0)


def _process_row(process: ProcessUse, use: DeviceUse, aicore: int) -> ProcessRow:
    return ProcessRow(process.pid, process.name[:15], use.used, use.peak, use.streams, use.contexts, use.tasks, aicore)
