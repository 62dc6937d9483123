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


def write(folder: Path, recording: Recording, wants: Wants, with_host: bool) -> None:
    """All that was asked for."""
    _folder.write_cann_frame(folder, recording)
    for device in sorted({task.device for task in recording.tasks()}):
        summary = folder / f"device_{device}" / "summary"
        summary.mkdir()
        tables: dict[str, _tables.Rows] = {}
        if wants("ACL_PROF_TASK_TIME"):
            tables |= {
                "op_summary": _op_summary(recording, device),
                "op_statistic": _of(_tables.op_statistic(recording), device),
            }
        if wants("ACL_PROF_TRAINING_TRACE"):
            tables["step_trace"] = _step_trace(recording, device)
        for name, table in tables.items():
            _tables.write(summary / f"{name}_{device}_1.csv", table)
    (folder / "timeline").mkdir()
    _timeline(recording, wants, with_host).write(
        folder / "timeline" / f"msprof_{_folder.stamp(recording.end / 1e9)}.json"
    )


def _of(table: _tables.Rows, device: int) -> _tables.Rows:
    header, rows = table
    column = header.index("Device_id")
    return header, [row for row in rows if row[column] == device]


def _op_summary(recording: Recording, device: int) -> _tables.Rows:
    header, rows = _of(_tables.kernel_details(recording, True), device)
    skipped = header.index("Device_id")  # the step is not a column of CANN's table
    return [_RENAMED.get(column, column) for column in header[skipped:]], [row[skipped:] for row in rows]


def _step_trace(recording: Recording, device: int) -> _tables.Rows:
    """Iterations from the first task to the end of backward and to their own end."""
    header = [
        "Device_id", "Iteration ID", "FP Start(us)", "BP End(us)", "Iteration End(us)", "Iteration Time(us)",
        "FP to BP Time(us)", "Iteration Refresh(us)", "Data Aug Bound(us)", "Model ID",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    before = 0
    for number, step in recording.steps():
        inside = [task for task in recording.tasks() if step.start <= task.start < step.end and task.device == device]
        if not inside:
            continue
        backward = [
            operator.end
            for operator in recording.operators
            if operator.backward and step.start <= operator.start < step.end
        ]
        first, last = inside[0].start, max(backward, default=inside[-1].end)
        times = (_tables.us(step.end - first), _tables.us(last - first), _tables.us(step.end - last))
        bound = _tables.us(first - before) if before else "N/A"
        edges = map(_tables.moment, (first, last, step.end))
        rows.append([device, number + 1, *edges, *times, bound, 1])
        before = step.end
    return header, rows


class _Layers(Timeline):
    """A timeline whose rows are named after threads of the host or streams of a device."""

    def add(self, layer: str, operator: Operator, row: str, name: str, args: dict[str, Any]) -> None:
        """A span of an operator."""
        of_host = layer in ("MsprofTx", "AscendCL")
        pid = self.layer(layer, _LAYERS[layer], "CPU" if of_host else "NPU", operator.device)
        number = operator.thread if of_host else 0
        self.span((pid, self.row(pid, number, f"{row} {number}")), name, operator.start, operator.end, args)


def _timeline(recording: Recording, wants: Wants, with_host: bool) -> Timeline:
    timeline = _Layers(recording.start)
    for operator in recording.operators if with_host else ():
        if operator.kind != "python_function":
            stack = recording.stack(operator)
            timeline.add("MsprofTx", operator, "Thread", operator.name, {"Call stack": stack} if stack else {})
    for number, task in enumerate(recording.tasks()):
        if wants("ACL_PROF_ACL_API"):
            call = "aclrtMemcpyAsync" if task.core == _tasks.COPY else "aclopCompileAndExecute"
            timeline.add("AscendCL", task, "Thread", call, {"connection_id": number, "item_id": task.name})
        layer, option = _BY_CORE.get(task.core, ("Task Scheduler", "ACL_PROF_TASK_TIME"))
        if wants(option):
            args = {"Task Type": task.core, "Stream Id": 0, "Task Id": number, "connection_id": number}
            timeline.add(layer, task, "Stream", task.name, args)
    return timeline
