"""How npu-smi writes a snapshot: the summary table, key/value blocks, watch columns, JSON and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.cli.smi.collect import DeviceRow, ProcessRow, Snapshot, megabytes

MAX_PROCESSES = 8


@dataclass(frozen=True)
class Shape:
    """The column widths and headings of one generation of the summary table."""

    columns: tuple[int, int, int]
    identity: int
    version: int
    head: tuple[str, str]
    process_head: str
    process_name: int


SHAPE_A = Shape(
    columns=(27, 15, 52),
    identity=5,
    version=24,
    head=(
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|",
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |",
    ),
    process_head="| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |",
    process_name=24,
)
SHAPE_C = Shape(
    columns=(31, 17, 54),
    identity=7,
    version=40,
    head=(
        "| NPU     Name                  | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |",
        "| Chip    Device                | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |",
    ),
    process_head=(
        "| NPU     Chip                  | Process id      | Process name             | Process memory(MB)        |"
    ),
    process_name=24,
)


def render_table(snapshot: Snapshot) -> str:
    """The text of `npu-smi info`; chips of both generations on one machine give one table each."""
    tables = []
    for hbm, shape in ((True, SHAPE_A), (False, SHAPE_C)):
        cards = [card for card in snapshot.cards() if card[0].has_hbm == hbm]
        if cards:
            tables.append("\n".join(_table(shape, snapshot.version, cards)))
    return "\n".join(tables) + "\n"


def _table(shape: Shape, version: str, cards: list[list[DeviceRow]]) -> list[str]:
    whole = sum(shape.columns) + 2
    thin, thick = _rule(shape, "-"), _rule(shape, "=")
    line = "+" + "-" * whole + "+"
    title = f" npu-smi {version[: shape.version]:<{shape.version}} Version: {version}"
    upper, lower = shape.head
    if cards[0][0].shows_physical_id:
        lower = lower.replace("Chip        ", "Chip  Phy-ID", 1)
    lines = [line, f"|{_fit(title, whole)}|", thin, upper, lower, thick]
    for card in cards:
        for device in card:
            if device is not card[0]:
                lines.append(line if shape is SHAPE_A else thin)
            lines += _device_lines(shape, device)
        lines.append(thick)
    lines += [thin, shape.process_head, thick]
    for card in cards:
        rows = [_process_line(shape, device, row) for device in card for row in device.processes[:MAX_PROCESSES]]
        lines += rows or [f"|{_fit(f' No running processes found in NPU {card[0].card}', whole)}|"]
        lines.append(thick)
    return lines


def _device_lines(shape: Shape, device: DeviceRow) -> tuple[str, str]:
    pad = shape.identity
    temperature = device.soc.temp_idle_c
    memory = f"{device.used_mb:<5}/ {device.total_mb}"
    second = "" if shape is SHAPE_A else str(device.logic)
    if device.shows_physical_id:
        second = str(device.info.index)
    if shape is SHAPE_A:
        upper = f" {device.power:<11} {temperature:<17} {0:<5}/ 0"
        lower = f" {device.aicore:<11} {0:<5}/ {0:<11}{memory}"
    else:
        upper = f" {device.power:<12} {temperature:<17} {0:<6}/ 0"
        lower = f" {device.aicore:<12} {memory}"
    return (
        _row(shape, f" {device.card:<{pad}} {device.soc.short_name}", " OK", upper),
        _row(shape, f" {device.chip:<{pad}} {second}", f" {device.bus_id}", lower),
    )


def _process_line(shape: Shape, device: DeviceRow, row: ProcessRow) -> str:
    right = f" {_ascii(row.name)[:15]:<{shape.process_name}} | {row.used_mb}"
    return _row(shape, f" {device.card:<7} {device.chip}", f" {row.pid}", right)


def _row(shape: Shape, *cells: str) -> str:
    return "|" + "|".join(_fit(cell, width) for cell, width in zip(cells, shape.columns, strict=True)) + "|"


def _rule(shape: Shape, char: str) -> str:
    return "+" + "+".join(char * width for width in shape.columns) + "+"


def _fit(text: str, width: int) -> str:
    # Cut as well as padded: a number that outgrows its column must not move the border that scripts cut at.
    return f"{text[:width]:<{width}}"


def _ascii(text: str) -> str:
    # Scripts cut the table at byte positions, and a name may hold anything.
    return text.encode("ascii", "replace").decode()


@dataclass(frozen=True)
class Block:
    """Lines of a key/value query: the processes of a chip, if it is about those, then the fields."""

    fields: tuple[tuple[str, str], ...]
    processes: tuple[ProcessRow, ...] | None = None


def render_blocks(blocks: Iterable[Block]) -> str:
    """Key/value text: a tab, the key padded to 30, the value; an empty line between blocks."""
    return "\n".join("".join(f"\t{line}\n" for line in _block_lines(block)) for block in blocks)


def _block_lines(block: Block) -> list[str]:
    lines = []
    if block.processes is not None:
        lines = [
            f"Process id:{row.pid:<7} Process name:{_ascii(row.name):<17} Process memory(MB):{row.used_mb}"
            for row in block.processes
        ] or ["No process in device."]
    return lines + [f"{key:<30} : {value}" for key, value in block.fields]


# Letter of `watch -s`, heading, width (the long headings need more than the 12 of the others), value.
WATCH_COLUMNS: tuple[tuple[str, str, int, Callable[[DeviceRow], object]], ...] = (
    ("p", "Pwr(W)", 12, lambda device: device.power),
    ("t", "Temp(C)", 12, lambda device: device.soc.temp_idle_c),
    ("a", "AI Core(%)", 12, lambda device: device.aicore),
    ("i", "AI Cpu(%)", 12, lambda device: 0),
    ("c", "Ctrl Cpu(%)", 12, lambda device: 0),
    ("m", "Memory(%)", 12, lambda device: device.memory_percent),
    ("b", "Memory BW(%)", 15, lambda device: 0),
    ("n", "NPU Util(%)", 15, lambda device: device.aicore),
    ("u", "AI Cube(%)", 12, lambda device: device.aicore),
)
WATCH_LETTERS = "".join(column[0] for column in WATCH_COLUMNS)


def render_watch(snapshot: Snapshot | None, letters: str = WATCH_LETTERS) -> str:
    """The heading (without a snapshot) or the rows of one period of `npu-smi info watch`."""
    columns = [column for column in WATCH_COLUMNS if column[0] in letters]
    if snapshot is None:
        cells = [("NpuID(Idx)", 12), ("ChipId(Idx)", 12), *((head, width) for _, head, width, _ in columns)]
        return "".join(f"{text:<{width}}" for text, width in cells).rstrip() + "\n"
    lines = []
    for device in snapshot.devices:
        values = "".join(f"{value(device)!s:<{width}}" for _, _, width, value in columns)
        lines.append(f"{device.card:<12}{device.chip:<12}{values}\n")
    return "".join(lines)


def render_processes(snapshot: Snapshot | None) -> str:
    """The heading (without a snapshot) or the rows of `npu-smi info proc`."""
    if snapshot is None:
        heads = ("NpuID(Idx)", "ChipId(Idx)", "Process id", "Memory(MB)", "AI Core(%)")
        return "".join(f"{head:<12}" for head in heads) + "Process name\n"
    return "".join(
        f"{device.card:<12}{device.chip:<12}{row.pid:<12}{row.used_mb:<12}{row.aicore:<12}{_ascii(row.name)}\n"
        for device in snapshot.devices
        for row in device.processes
    )


def render_json(snapshot: Snapshot, indent: int | None = 2) -> str:
    """One JSON object whose keys are stable; `docs` of the keys: `npu-smi info --help`."""
    return _dump({**_envelope(snapshot), "devices": [_device_json(device) for device in snapshot.devices]}, indent)


def render_blocks_json(snapshot: Snapshot, query: str, blocks: Iterable[Block]) -> str:
    """The blocks of a key/value query as JSON, with the printed keys."""
    items: list[dict[str, Any]] = []
    for block in blocks:
        item: dict[str, Any] = dict(block.fields)
        if block.processes is not None:
            item["Processes"] = [_process_json(row) for row in block.processes]
        items.append(item)
    return _dump({**_envelope(snapshot), "query": query, "blocks": items}, 2)


def _dump(value: dict[str, Any], indent: int | None) -> str:
    return json.dumps(value, indent=indent) + "\n"


def _envelope(snapshot: Snapshot) -> dict[str, Any]:
    return {"tool": "npu-smi", "version": snapshot.version, "simulated": True}


def _device_json(device: DeviceRow) -> dict[str, Any]:
    return {
        "id": device.info.index,
        "logic_id": device.logic,
        "card": device.card,
        "chip": device.chip,
        "name": device.soc.name,
        "short_name": device.soc.short_name,
        "kind": device.info.kind,
        "health": "OK",
        "bus_id": device.bus_id,
        "memory": {
            "kind": device.soc.memory_kind,
            "used_mb": device.used_mb,
            "total_mb": device.total_mb,
            "used_bytes": device.used,
            "total_bytes": device.info.memory_bytes,
        },
        "utilization": {"aicore": device.aicore, "memory": device.memory_percent},
        "power": {"watts": device.soc.power_idle_w, "simulated": True},
        "temperature": {"celsius": device.soc.temp_idle_c, "simulated": True},
        "processes": [_process_json(row) for row in device.processes],
    }


def _process_json(row: ProcessRow) -> dict[str, Any]:
    return {
        "pid": row.pid,
        "name": row.name,
        "used_mb": row.used_mb,
        "peak_mb": megabytes(row.peak),
        "streams": row.streams,
        "contexts": row.contexts,
        "tasks": row.tasks,
        "aicore": row.aicore,
    }


# Name of a `--query` field, its unit, its value. The names of nvidia-smi are kept where the thing is the same.
QUERY_FIELDS: dict[str, tuple[str, Callable[[DeviceRow], object]]] = {
    "index": ("", lambda device: device.info.index),
    "logic_id": ("", lambda device: device.logic),
    "card": ("", lambda device: device.card),
    "chip": ("", lambda device: device.chip),
    "name": ("", lambda device: device.soc.name),
    "short_name": ("", lambda device: device.soc.short_name),
    "kind": ("", lambda device: device.info.kind),
    "health": ("", lambda device: "OK"),
    "pci.bus_id": ("", lambda device: device.bus_id),
    "memory.used": ("MiB", lambda device: device.used_mb),
    "memory.free": ("MiB", lambda device: max(0, device.total_mb - device.used_mb)),
    "memory.total": ("MiB", lambda device: device.total_mb),
    "utilization.aicore": ("%", lambda device: device.aicore),
    "utilization.npu": ("%", lambda device: device.aicore),
    "utilization.gpu": ("%", lambda device: device.aicore),
    "utilization.memory": ("%", lambda device: device.memory_percent),
    "power.draw": ("W", lambda device: f"{device.soc.power_idle_w:.1f}"),
    "temperature": ("", lambda device: device.soc.temp_idle_c),
    "temperature.gpu": ("", lambda device: device.soc.temp_idle_c),
    "processes": ("", lambda device: len(device.processes)),
}
DEFAULT_FIELDS = ("index", "name", "health", "memory.used", "memory.total", "utilization.aicore", "processes")


def render_csv(
    snapshot: Snapshot, fields: Sequence[str] = DEFAULT_FIELDS, header: bool = True, units: bool = True
) -> str:
    """Chosen fields, a line per device, in the manner of `nvidia-smi --query-gpu`."""
    lines = []
    if header:
        named = ((name, QUERY_FIELDS[name][0]) for name in fields)
        lines.append(", ".join(f"{name} [{unit}]" if unit else name for name, unit in named))
    for device in snapshot.devices:
        cells = []
        for name in fields:
            unit, value = QUERY_FIELDS[name]
            cells.append(f"{value(device)} {unit}" if unit and units else str(value(device)))
        lines.append(", ".join(cells))
    return "".join(f"{line}\n" for line in lines)
