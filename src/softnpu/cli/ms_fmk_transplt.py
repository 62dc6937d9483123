"""The command `ms_fmk_transplt`: converts a CUDA project to npu, with the options and outputs of the porting guide."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softnpu.migrate.errors import MigrateError
from softnpu.migrate.rules.rows import DEFAULT_VERSION, VERSIONS

if TYPE_CHECKING:
    from softnpu.migrate.reporting.results import Summary

INTERRUPTED = 130
_PROGRAM = "ms_fmk_transplt"
_NAMED = 10  # warnings on the terminal; the log has all


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    return run(parser(_PROGRAM, version_needed=False), argv)


def run(arguments: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    """Parse, convert and print; the commands of both names share it."""
    options = arguments.parse_args(argv)
    try:
        status = _convert(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return reader_left()
    except MigrateError as problem:
        sys.stderr.write(f"[ERROR] {problem}\nMsFmkTransplt run failed!\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{arguments.prog} was interrupted; nothing was written.\n")
        return INTERRUPTED
    except ModuleNotFoundError as problem:
        if problem.name != "libcst":
            raise
        sys.stderr.write('[ERROR] libcst is not installed; type: pip install "softnpu[migrate]"\n')
        return 1


def reader_left() -> int:
    """`ms_fmk_transplt --dry-run … | head`: whoever read has enough, and the rest goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def parser(program: str, version_needed: bool) -> argparse.ArgumentParser:
    """The options; those after `distributed` have their own parser, since -m means something else there."""
    top = argparse.ArgumentParser(program, description="Convert a PyTorch project for CUDA to npu.", allow_abbrev=False)
    top.add_argument("-i", "--input", required=True, metavar="PATH", help="folder or .py file to convert")
    top.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the result, <input>_msft")
    top.add_argument("-r", "--rule", metavar="JSON", help="file with your own rules")
    top.add_argument(
        "-s", "--specify-device", action="store_true", help="take the device from the variable NPU_CALCULATE_DEVICE"
    )
    top.add_argument(
        "-sim",
        "--similar",
        action="store_true",
        help="use near equivalents of unsupported interfaces (values may differ)",
    )
    top.add_argument(
        "-v",
        "--version",
        required=version_needed,
        choices=VERSIONS,
        help=f"version of torch that the result is for [{DEFAULT_VERSION}]",
    )
    top.add_argument("-m", "--modelarts", action="store_true", help="add a package that maps paths on ModelArts")
    top.add_argument("--dry-run", action="store_true", help="print the differences and write nothing")
    top.set_defaults(mode="", reports=version_needed)
    modes = top.add_subparsers(dest="mode", metavar="distributed", title="one GPU to several NPUs")
    several = modes.add_parser("distributed", help="-m MAIN.py [-t MODEL]; stands last", allow_abbrev=False)
    several.add_argument("-m", "--main", required=True, metavar="FILE", help="entry file of the training")
    several.add_argument(
        "-t", "--target_model", "--target-model", default="model", metavar="NAME", help="variable of the model [model]"
    )
    return top


def _convert(options: argparse.Namespace) -> int:
    from softnpu.migrate import project
    from softnpu.migrate.convert import Options
    from softnpu.migrate.reading.tree import check_input, check_output
    from softnpu.migrate.rules.rule_set import read_custom

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
    _say("MsFmkTransplt start working now, please wait for a moment.")
    with progress_bar() as progress:
        summary = project.run(job, confirm, progress)
    if options.reports:
        from softnpu.migrate.analysis.analyse import write_results

        write_results(job.source, job.target / "transplant_result_file")
    _show(summary)
    return 1 if summary.lost else 0


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def confirm(question: str) -> bool:
    """Ask on the terminal; without an answer nothing goes on."""
    sys.stdout.write(f"[WARNING] {question} Enter 'continue' or 'c' to go on: ")
    sys.stdout.flush()
    answer = sys.stdin.readline() if sys.stdin is not None else ""
    if not answer:
        sys.stdout.write("\n")
        raise MigrateError(
            f"{question} Nobody is there to confirm it: remove or rename the folder, choose another -o, or run on a terminal."
        )
    return answer.strip().lower() in ("continue", "c")


# ---- what is printed -------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def _show(summary: Summary) -> None:
    from softnpu.migrate.reporting import reports

    problems = [("ERROR", one.path, one.error) for one in summary.files if one.error]
    problems += [("ERROR", path, f"{why}; it is missing in the output") for path, why in summary.lost]
    problems += [("WARNING", path, why) for path, why in summary.warnings]
    for level, path, why in problems[:_NAMED]:
        _say(f"[{level}] {path}: {why}")
    if len(problems) > _NAMED:
        _say(f"[WARNING] {len(problems) - _NAMED} more are in {reports.LOG}")
    _table(summary)
    _say(f"The result is in {summary.target}; {reports.LOG}, change_list.csv and diff_report.html tell what was done.")
    _say(reports.SUCCESS if not summary.lost else reports.FAILURE)


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
            _say(f"{name + ':':34}{value}")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Migration of {summary.name}")
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows:
        table.add_row(name, str(value))
    Console().print(table)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error where that is a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    with Progress(
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, everything: bar.update(task, completed=done, total=everything)


if __name__ == "__main__":
    sys.exit(main())
