"""A profile as an SQLite database: names are numbers of STRING_IDS, times are nanoseconds."""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

from torch_npu._runtime.face import torch_with_npu
from torch_npu.profiler import _tasks
from torch_npu.profiler._record import Operator, Recording

_TABLES = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
    "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER, blockNum INTEGER, mixBlockNum INTEGER, taskType INTEGER, "
    "opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
    "outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER, opState INTEGER, hf32Eligible INTEGER",
    "PYTORCH_API": "startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER, sequenceNumber INTEGER, "
    "fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "SESSION_TIME_INFO": "startTimeNs INTEGER, endTimeNs INTEGER",
    "HOST_INFO": "hostUid TEXT, hostName TEXT",
    "NPU_INFO": "id INTEGER, name TEXT",
    "META_DATA": "name TEXT, value TEXT",
}
_NO_MODEL = 4294967295


class _Names:
    """Numbers of texts."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


def write(path: Path, recording: Recording) -> None:
    """A new database; nobody opens half of one."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(part)) as base, base:
        for name, columns in _TABLES.items():
            base.execute(f"CREATE TABLE {name} ({columns})")
        _fill(base, recording, _Names())
    part.replace(path)


def _insert(base: sqlite3.Connection, table: str, rows: list[tuple[object, ...]]) -> None:
    marks = ",".join("?" * (_TABLES[table].count(",") + 1))
    base.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _texts(operator: Operator, names: _Names) -> tuple[int, int]:
    """Types and sizes of the inputs."""
    return names[";".join(operator.dtypes)], names[";".join(",".join(map(str, shape)) for shape in operator.shapes)]


def _calls(recording: Recording, names: _Names) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for operator in recording.operators:
        call = (
            operator.start,
            operator.end,
            (os.getpid() << 32) | operator.thread,
            None,
            names[operator.name],
            operator.sequence,
            operator.forward_thread,
        )
        rows.append((*call, *_texts(operator, names), None, names[operator.kind]))
    return rows


def _fill(base: sqlite3.Connection, recording: Recording, names: _Names) -> None:
    _insert(base, "PYTORCH_API", _calls(recording, names))
    unknown, dynamic, no = names["N/A"], names["dynamic"], names["NO"]
    tasks: list[tuple[object, ...]] = []
    kernels: list[tuple[object, ...]] = []
    for number, task in enumerate(recording.tasks()):
        kind = names[task.core]
        tasks.append((task.start, task.end, task.device, number, number, os.getpid(), kind, 0, 0, number, _NO_MODEL))
        if _tasks.is_kernel(task.core):
            first = (names[task.name], number, 1, 0, kind, names[_tasks.type_of(task.name)], unknown)
            kernels.append((*first, *_texts(task, names), unknown, unknown, unknown, unknown, dynamic, no))
    _insert(base, "TASK", tasks)
    _insert(base, "COMPUTE_TASK_INFO", kernels)
    _insert(base, "STEP_TIME", [(number, step.start, step.end) for number, step in recording.steps()])
    _insert(base, "SESSION_TIME_INFO", [(recording.start, recording.end)])
    _insert(base, "HOST_INFO", [(str(os.getpid()), socket.gethostname())])
    devices = sorted({task.device for task in recording.tasks()})
    _insert(base, "NPU_INFO", [(device, torch_with_npu.npu.get_device_name(device)) for device in devices])
    _insert(base, "META_DATA", [("SCHEMA_VERSION", "softnpu")])
    _insert(base, "STRING_IDS", [(number, text) for text, number in names.all.items()])
