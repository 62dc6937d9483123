"""The inside of a folder PROF_*: tables per device, and a timeline in the layers of the porting guide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_npu.profiler import _folder, _tables, _tasks
from torch_npu.profiler._record import Operator, Recording
from torch_npu.profiler._timeline import Timeline

_RENAMED = {
    "Name": "Op Name", "Type": "OP Type", "Accelerator Core": "Task Type", "Start Time(us)": "Task Start Time(us)",
    "Duration(us)": "Task Duration(us)", "Wait Time(us)": "Task Wait Time(us)",
}  # fmt: skip
_LAYERS = {"MsprofTx": 0, "AscendCL": 1, "Task Scheduler": 2, "AI CPU": 3, "HCCL": 4}
_BY_CORE = {_tasks.COMMUNICATION: ("HCCL", "ACL_PROF_HCCL_TRACE"), _tasks.CPU: ("AI CPU", "ACL_PROF_AICPU")}
Wants = Callable[[str], bool]


def write(folder: Path, found: Recording, wants: Wants, with_host: bool) -> None:
    """All that was asked for."""
    _folder.write_cann_frame(folder, found)
    for device in sorted({one.device for one in found.tasks()}):
        summary = folder / f"device_{device}" / "summary"
        summary.mkdir()
        tables: dict[str, _tables.Rows] = {}
        if wants("ACL_PROF_TASK_TIME"):
            tables |= {
                "op_summary": _op_summary(found, device),
                "op_statistic": _of(_tables.op_statistic(found), device),
            }
        if wants("ACL_PROF_TRAINING_TRACE"):
            tables["step_trace"] = _step_trace(found, device)
        for name, table in tables.items():
            _tables.write(summary / f"{name}_{device}_1.csv", table)
    (folder / "timeline").mkdir()
    _timeline(found, wants, with_host).write(folder / "timeline" / f"msprof_{_folder.stamp(found.end / 1e9)}.json")


def _of(table: _tables.Rows, device: int) -> _tables.Rows:
    header, rows = table
    place = header.index("Device_id")
    return header, [row for row in rows if row[place] == device]


def _op_summary(found: Recording, device: int) -> _tables.Rows:
    header, rows = _of(_tables.kernel_details(found, True), device)
    skipped = header.index("Device_id")  # the step is not a column of CANN's table
    return [_RENAMED.get(one, one) for one in header[skipped:]], [row[skipped:] for row in rows]


def _step_trace(found: Recording, device: int) -> _tables.Rows:
    """Iterations from the first task to the end of backward and to their own end."""
    header = [
        "Device_id", "Iteration ID", "FP Start(us)", "BP End(us)", "Iteration End(us)", "Iteration Time(us)",
        "FP to BP Time(us)", "Iteration Refresh(us)", "Data Aug Bound(us)", "Model ID",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    before = 0
    for number, step in found.steps():
        inside = [one for one in found.tasks() if step.start <= one.start < step.end and one.device == device]
        if not inside:
            continue
        backward = [one.end for one in found.operators if one.backward and step.start <= one.start < step.end]
        first, last = inside[0].start, max(backward, default=inside[-1].end)
        times = (_tables.us(step.end - first), _tables.us(last - first), _tables.us(step.end - last))
        bound = _tables.us(first - before) if before else "N/A"
        edges = map(_tables.moment, (first, last, step.end))
        rows.append([device, number + 1, *edges, *times, bound, 1])
        before = step.end
    return header, rows


class _Layers(Timeline):
    """A timeline whose rows are named after threads of the host or streams of a device."""

    def add(self, layer: str, one: Operator, row: str, name: str, args: dict[str, Any]) -> None:
        """A span of an operator."""
        of_host = layer in ("MsprofTx", "AscendCL")
        pid = self.layer(layer, _LAYERS[layer], "CPU" if of_host else "NPU", one.device)
        number = one.thread if of_host else 0
        self.span((pid, self.row(pid, number, f"{row} {number}")), name, one.start, one.end, args)


def _timeline(found: Recording, wants: Wants, with_host: bool) -> Timeline:
    made = _Layers(found.start)
    for one in found.operators if with_host else ():
        if one.kind != "python_function":
            stack = found.stack(one)
            made.add("MsprofTx", one, "Thread", one.name, {"Call stack": stack} if stack else {})
    for number, one in enumerate(found.tasks()):
        if wants("ACL_PROF_ACL_API"):
            call = "aclrtMemcpyAsync" if one.core == _tasks.COPY else "aclopCompileAndExecute"
            made.add("AscendCL", one, "Thread", call, {"connection_id": number, "item_id": one.name})
        layer, option = _BY_CORE.get(one.core, ("Task Scheduler", "ACL_PROF_TASK_TIME"))
        if wants(option):
            args = {"Task Type": one.core, "Stream Id": 0, "Task Id": number, "connection_id": number}
            made.add(layer, one, "Stream", one.name, args)
    return made
