"""The tables of a profile: columns as Ascend's readers look for them."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch_npu.profiler import _spans, _tasks
from torch_npu.profiler._record import Memory, Operator, Recording
from torch_npu.profiler._steps import steps_of

Rows = tuple[list[str], list[list[Any]]]

_NO_MODEL = 4294967295
_UNKNOWN = "N/A"
_TYPES = {
    "float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "DT_BF16", "float64": "DOUBLE", "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
}  # fmt: skip
_SHORT = ["Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)", "Block Num"]
_LONG = [
    "Model ID", "Task ID", "Stream ID", "Name", "Type", "OP State", "Accelerator Core", "Start Time(us)", "Duration(us)",
    "Wait Time(us)", "Block Num", "Mix Block Num", "HF32 Eligible", "Input Shapes", "Input Data Types", "Input Formats",
    "Output Shapes", "Output Data Types", "Output Formats", "Context ID",
]  # fmt: skip


def us(nanoseconds: int) -> float:
    """Microseconds with three digits behind the point."""
    return round(nanoseconds / 1e3, 3)


def moment(nanoseconds: int) -> str:
    """A moment as spreadsheets keep it: with all its digits, which a tab behind it protects."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}\t"


def shapes_text(operator: Operator) -> str:
    """Sizes of the inputs, in quotes of their own."""
    return '"' + ";".join(",".join(map(str, shape)) for shape in operator.shapes) + '"'


def _types_text(operator: Operator) -> str:
    return ";".join(_TYPES.get(dtype, dtype.upper()) for dtype in operator.dtypes)


def kernel_details(recording: Recording, full: bool) -> Rows:
    """Kernels in the order of time; `full` from Level1 on."""
    steps = recording.steps()
    header = (["Step Id"] if steps else []) + ["Device_id"] + (_LONG if full else _SHORT)
    rows, last = [], dict.fromkeys((task.device for task in recording.tasks()), 0)
    for number, task in enumerate(recording.tasks()):
        waited = max(task.start - last[task.device], 0) if last[task.device] else 0
        last[task.device] = max(last[task.device], task.end)
        if not _tasks.is_kernel(task.core):
            continue
        name, kind = task.name, _tasks.type_of(task.name)
        times = [moment(task.start), us(task.duration), us(waited), 1]
        row: list[Any] = [name, kind, task.core, *times]
        if full:
            inputs = [shapes_text(task), _types_text(task), _UNKNOWN]
            row = [_NO_MODEL, number, 0, name, kind, "dynamic", task.core, *times, 0, "NO", *inputs]
            row += [_UNKNOWN] * 4
        inside = [str(step) for step, span in steps if span.start <= task.start < span.end]
        rows.append([*([inside[0] if inside else ""] if steps else []), task.device, *row])
    return header, rows


def operator_details(recording: Recording) -> Rows:
    """Operators of the host with their times there and on the devices."""
    host = [operator.duration for operator in recording.operators]
    device = [operator.duration if _tasks.is_kernel(operator.core) else 0 for operator in recording.operators]
    cube = [operator.duration if operator.core == _tasks.CUBE else 0 for operator in recording.operators]
    own_device, own_cube = list(device), list(cube)
    for index in range(len(host) - 1, -1, -1):  # children come after their parents
        parent = recording.operators[index].parent
        if parent >= 0:
            device[parent] += device[index]
            cube[parent] += cube[index]
    inner = [0] * len(host)
    for index, operator in enumerate(recording.operators):
        if operator.kind != "python_function" and operator.parent >= 0:
            inner[operator.parent] += host[index]
    header = [
        "Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)", "Device Self Duration(us)",
        "Device Total Duration(us)", "Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)",
    ]  # fmt: skip
    rows = []
    for index, operator in enumerate(recording.operators):
        if operator.kind == "cpu_op":
            times = (
                host[index] - inner[index],
                host[index],
                own_device[index],
                device[index],
                own_cube[index],
                cube[index],
            )
            rows.append(
                [operator.name, shapes_text(operator), ";\r\n".join(recording.stack(operator)), *map(us, times)]
            )
    return header, rows


def step_trace_time(recording: Recording) -> Rows:
    """Where the time of each step went."""
    header = [
        "Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage",
        "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing",
    ]  # fmt: skip
    rows = []
    for step in steps_of(recording):
        whole = step.window[1] - step.window[0]
        computing, all_of_it = (_spans.total(step.computing), _spans.total(step.communication))
        alone = _spans.total(step.alone)
        parts = (
            computing,
            alone,
            all_of_it - alone,
            all_of_it,
            whole - computing - alone,
            whole,
            0,
            alone,
            step.prepared,
        )
        rows.append([step.device, "" if step.number is None else step.number, *map(us, parts)])
    return header, rows


def _times(group: list[Operator]) -> list[float]:
    durations = [operator.duration for operator in group]
    return [us(sum(durations)), us(min(durations)), us(sum(durations) // len(durations)), us(max(durations))]


def _grouped(operators: Iterable[Operator], key: Callable[[Operator], Any]) -> dict[Any, list[Operator]]:
    groups: dict[Any, list[Operator]] = {}
    for operator in operators:
        groups.setdefault(key(operator), []).append(operator)
    return groups


def op_statistic(recording: Recording) -> Rows:
    """Kernels by type, those that took longest first."""
    kernels = [task for task in recording.tasks() if _tasks.is_kernel(task.core)]
    whole = sum(kernel.duration for kernel in kernels) or 1
    groups = _grouped(kernels, lambda kernel: (kernel.device, _tasks.type_of(kernel.name), kernel.core))
    rows = [
        [*key, len(group), *_times(group), round(sum(kernel.duration for kernel in group) * 100 / whole, 3)]
        for key, group in groups.items()
    ]
    header = [
        "Device_id",
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
    ]
    return [*header, "Ratio(%)"], sorted(rows, key=lambda row: -row[-1])


def api_statistic(recording: Recording) -> Rows:
    """Calls by which the host gave work to a device."""
    groups = _grouped(recording.tasks(), lambda task: "communication" if task.core == _tasks.COMMUNICATION else "node")
    rows = []
    for level, group in groups.items():
        whole, low, mean, high = _times(group)
        variance = round(statistics.pvariance(task.duration / 1e3 for task in group), 3)
        rows.append(["host", level, "launch", whole, len(group), mean, low, high, variance])
    return ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"], rows


def memory_record(recording: Recording) -> Rows:
    """What the caching allocator held, after each change."""
    header = [
        "Component",
        "Timestamp(us)",
        "Total Allocated(MB)",
        "Total Reserved(MB)",
        "Total Active(MB)",
        "Stream Ptr",
    ]
    rows = [
        [
            "PTA",
            moment(event.time),
            _mb(event.allocated),
            _mb(event.reserved),
            _mb(event.allocated),
            0,
            f"NPU:{event.device}",
        ]
        for event in recording.memory
    ]
    return [*header, "Device Type"], rows


def _mb(size: int) -> float:
    return round(size / 2**20, 6)


def operator_memory(recording: Recording) -> Rows:
    """Blocks with the operators that took them; one that was not given back has no end."""
    whole = ("Allocated(MB)", "Reserved(MB)", "Active(MB)")
    header = [
        "Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)",
        "Active Duration(us)", *(f"Allocation Total {kind}" for kind in whole), *(f"Release Total {kind}" for kind in whole),
        "Stream Ptr", "Device Type",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for taken, freed in _lifetimes(recording.memory):
        end = [moment(freed.time)] * 2 + [us(freed.time - taken.time)] * 2 if freed else [""] * 4
        totals = [*_totals(taken), *(_totals(freed) if freed else [""] * 3)]
        size = round(taken.size / 1024, 3)
        rows.append([taken.operator, size, moment(taken.time), *end, *totals, 0, f"NPU:{taken.device}"])
    return header, rows


def _totals(event: Memory) -> list[float]:
    return [_mb(event.allocated), _mb(event.reserved), _mb(event.allocated)]


def _lifetimes(events: Sequence[Memory]) -> list[tuple[Memory, Memory | None]]:
    """Blocks with the moment when they came back."""
    lifetimes: list[tuple[Memory, Memory | None]] = []
    held: dict[tuple[int, int], int] = {}
    for change in sorted(events, key=lambda event: event.time):
        key = (change.device, change.address)
        if change.size > 0:
            held[key] = len(lifetimes)
            lifetimes.append((change, None))
        elif key in held:
            index = held.pop(key)
            lifetimes[index] = (lifetimes[index][0], change)
    return lifetimes


def write(path: Path, table: Rows) -> None:
    """As CSV; nobody reads half of it."""
    header, rows = table
    part = path.with_name(f".{path.name}.part")
    with part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    part.replace(path)
