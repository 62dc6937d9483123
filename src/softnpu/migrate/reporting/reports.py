"""The files that a run leaves beside the converted sources."""

from __future__ import annotations

import csv
import logging
import logging.handlers
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from softnpu.migrate.reporting.html import report
from softnpu.migrate.reporting.results import Summary
from softnpu.migrate.reporting.xlsx import write_xlsx

LOG = "msFmkTranspltlog.txt"
SUCCESS = "MsFmkTransplt run success, welcome to the next use."
FAILURE = "MsFmkTransplt run failed!"
UNSUPPORTED_COLUMNS = ("File", "Start Line", "End Line", "OP", "Tips")
CHANGE_COLUMNS = ("File", "Start Line", "End Line", "Operation Type", "Message")
_LOG_BYTES, _LOG_FILES = 1 << 20, 10


class RunLog:
    """Lines `YYYY-mm-dd HH:MM:SS [LEVEL] text` in the log file."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, encoding="utf-8", errors="backslashreplace"
        )
        self._handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] %(message)s", "%Y-%m-%d %H:%M:%S"))

    def write(self, level: int, text: str) -> None:
        self._handler.emit(logging.LogRecord("migrate", level, "", 0, text, None, None))

    def close(self) -> None:
        self._handler.close()


def log_run(log: RunLog, summary: Summary) -> None:
    """What happened to each file."""
    for file in summary.files:
        if file.error:
            log.write(logging.ERROR, f"{file.path}: {file.error}; it was copied unchanged.")
        if not (file.changes or file.unsupported or file.warnings):
            continue
        log.write(logging.INFO, f"[File] {file.path}")
        for change in file.changes:
            lines = f"line: {change.start_line} ~ {change.end_line}"
            log.write(logging.INFO, f"{lines}  Operation Type: {change.operation}  Message: {change.message}")
        for finding in file.unsupported:
            lines = f"line: {finding.start_line} ~ {finding.end_line}"
            log.write(logging.WARNING, f"{lines}  Unsupported: {finding.name}  Tips: {finding.row.tip}")
    for path, text in summary.warnings:
        log.write(logging.WARNING, f"{path}: {text}")
    for path, text in summary.lost:
        log.write(logging.ERROR, f"{path}: {text}; it is missing in the output.")
    log.write(logging.INFO, summary.sentence())


def write_reports(folder: Path, summary: Summary) -> None:
    """Change list, unsupported operators in both forms, and the diff page."""
    write_csv(
        folder / "change_list.csv",
        CHANGE_COLUMNS,
        (
            (file.path, change.start_line, change.end_line, change.operation, change.message)
            for file in summary.files
            for change in file.changes
        ),
    )
    unsupported = [
        (file.path, finding.start_line, finding.end_line, finding.name, finding.row.tip)
        for file in summary.files
        for finding in file.unsupported
    ]
    write_csv(folder / "unsupported_op.csv", UNSUPPORTED_COLUMNS, unsupported)
    write_xlsx(folder / "unsupported_op.xlsx", "unsupported_op", UNSUPPORTED_COLUMNS, unsupported)
    with (folder / "diff_report.html").open("w", encoding="utf-8", errors="replace") as page:
        page.writelines(report(summary))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_template(name: str, target: Path) -> None:
    """Copy a folder of helper sources to the output; `.py.in` becomes `.py`."""
    target.mkdir(exist_ok=True)
    folder = resources.files("softnpu.migrate").joinpath("templates", name)
    for entry in folder.iterdir():
        if entry.name.endswith(".in"):
            (target / entry.name.removesuffix(".in")).write_text(entry.read_text(encoding="utf-8"), encoding="utf-8")


def write_launcher(folder: Path, main: str) -> None:
    """The script that starts one process for each device."""
    source = resources.files("softnpu.migrate").joinpath("templates", "run_distributed_npu.sh.in")
    path = folder / "run_distributed_npu.sh"
    path.write_text(source.read_text(encoding="utf-8").replace("@MAIN@", main), encoding="utf-8")
    path.chmod(0o755)
