"""A migration by `ms_fmk_transplt` and `pytorch_gpu2npu`: convert, then print what was done."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from softnpu.cli.migration.terminal import confirm, progress_bar, say
from softnpu.migrate import project
from softnpu.migrate.analysis.analyse import write_results
from softnpu.migrate.convert import Options
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.reading.tree import check_input, check_output
from softnpu.migrate.reporting import reports
from softnpu.migrate.reporting.results import Summary
from softnpu.migrate.rules.rows import DEFAULT_VERSION
from softnpu.migrate.rules.rule_set import read_custom

_NAMED = 10  # warnings on the terminal; the log has all


def convert(options: argparse.Namespace) -> int:
    """Convert a project as the options say; returns the exit status."""
    several = options.mode == "distributed"
    if several and not options.target_model.isidentifier():
        raise MigrateError(f"The model {options.target_model!r} after -t is not the name of a variable.")
    wanted = Options(
        read_custom(_path(options.rule)) if options.rule is not None else None,
        options.specify_device,
        options.similar,
        options.modelarts,
        several,
        options.target_model if several else "model",
        options.version or DEFAULT_VERSION,
    )
    job = project.Job(
        check_input(options.input),
        _path(options.output) if options.dry_run else check_output(options.output),
        wanted,
        options.main if several else "",
    )
    if options.dry_run:
        for result, text in project.preview(job):
            sys.stdout.write(text)
            if result.error:
                sys.stderr.write(f"[ERROR] {result.path}: {result.error}\n")
        return 0
    say("MsFmkTransplt start working now, please wait for a moment.")
    with progress_bar() as progress:
        summary = project.run(job, confirm, progress)
    if options.reports:
        write_results(job.source, job.target / "transplant_result_file")
    _show(summary)
    return 1 if summary.lost else 0


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _show(summary: Summary) -> None:
    problems = [("ERROR", file.path, file.error) for file in summary.files if file.error]
    problems += [("ERROR", path, f"{why}; it is missing in the output") for path, why in summary.lost]
    problems += [("WARNING", path, why) for path, why in summary.warnings]
    for level, path, why in problems[:_NAMED]:
        say(f"[{level}] {path}: {why}")
    if len(problems) > _NAMED:
        say(f"[WARNING] {len(problems) - _NAMED} more are in {reports.LOG}")
    _table(summary)
    say(f"The result is in {summary.target}; {reports.LOG}, change_list.csv and diff_report.html tell what was done.")
    say(reports.SUCCESS if not summary.lost else reports.FAILURE)


def _table(summary: Summary) -> None:
    rows = [
        ("Python files", len(summary.files)),
        ("changed", summary.changed),
        ("changes", summary.changes),
        ("copied unchanged after an error", summary.failed),
        ("uses of unsupported interfaces", summary.unsupported),
        ("other files", summary.others),
        ("seconds", round(summary.seconds, 1)),
    ]
    if not sys.stdout.isatty():
        for name, value in rows:
            say(f"{name + ':':34}{value}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Migration of {summary.name}")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows:
        table.add_row(name, str(value))
    Console().print(table)
