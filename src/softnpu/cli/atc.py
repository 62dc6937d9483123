"""The command `atc`: converts models and looks at them, with the vendor's options, texts, codes and exit status."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import softnpu
from softnpu.base import config
from softnpu.base import log as plog
from softnpu.compiler.errors import AtcError
from softnpu.compiler.messages import error
from softnpu.compiler.options.checks import check
from softnpu.compiler.options.rows import ROWS, Options, Row, UsageError, parse

FAILED, INTERRUPTED = 255, 130
START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILURE = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
Progress = Callable[[str, float], None]
_HELP = frozenset({"--help", "-help", "-h", "--h"})
_LEVELS = {"debug": plog.DEBUG, "info": plog.INFO, "warning": plog.WARNING, "error": plog.ERROR, "null": plog.NONE}
_WIDTH, _INDENT = 100, 32
_NAMED = 5  # operators that the failure of mode 3 names


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if any(word in _HELP for word in words):
        _say(help_text())
        return 0
    _say(START)
    try:
        warnings = _run(words)
    except KeyboardInterrupt:
        sys.stderr.write("\natc was interrupted; no model was written.\n")
        return INTERRUPTED
    except UsageError as problem:
        sys.stderr.write(problem.text + "\n")
        return _fail(error("E10053", reason=problem.text.partition("\n")[0].removeprefix("ERROR: ")))
    except AtcError as problem:
        return _fail(problem)
    except MemoryError as problem:
        return _fail(error("E10044", reason=str(problem) or "an allocation failed"))
    except Exception as problem:  # a defect of ours: one line for the user, the rest for the log
        return _fail(_defect(problem))
    _say("...")
    _say(SUCCESS)
    for warning in warnings:
        _say(f"[WARNING] {warning}")
    return 0


def _run(words: Sequence[str]) -> list[str]:
    options = parse(words)
    warnings = check(options)
    if options.given("log"):
        log = plog.log()
        log.configure(replace(log.settings, level=_LEVELS[options.log]))
    plog.log().write(plog.INFO, f"atc {softnpu.__version__}: {options.command_line}", "GE")
    if options.given("singleop") or options.mode == 0:
        warnings += _convert(options)
    elif options.mode == 3:
        _precheck(options)
    else:
        _look(options)
    for warning in warnings:
        plog.log().write(plog.WARNING, warning, "GE")
    return warnings


def _convert(options: Options) -> list[str]:
    """Let the compiler work; returns its warnings."""
    # Late here and below: the compiler takes a third of the start, which --help and wrong options do without.
    from softnpu.compiler.build import build
    from softnpu.compiler.single_op.build import build_single_ops

    convert = build_single_ops if options.given("singleop") else build
    with _progress() as progress:
        result = convert(options, progress)
    if result.info:
        _say(result.info)
    return list(result.warnings)


def _precheck(options: Options) -> None:
    """Mode 3: write the report about every operator, and fail when one cannot be converted."""
    from softnpu.compiler.inspection import describe, precheck

    report = precheck.check(options)
    path = (config.work_path() or Path()) / options.check_report
    describe.write_json(path, report, "check_report")
    _say(f"The report is in {path}: {report['pass']} of {report['total']} operators can be converted.")
    failed = [row for row in report["op"] if row["result"] != "success"]
    if failed:
        raise _unsupported(report, failed, path)


def _unsupported(report: dict[str, Any], failed: list[dict[str, Any]], path: Path) -> AtcError:
    causes = [cause for row in failed for cause in row.get("cause", ())]
    names = ", ".join(f"{row['name']} ({row['type']})" for row in failed[:_NAMED])
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return AtcError(
        causes[0]["code"] if causes else "EZ3002",
        f"{len(failed)} of {report['total']} operators cannot be converted: {names}{more}",
        causes[0]["message"] if causes else "their types are not supported",
        f"Replace these operators; {path} lists all of them with the reasons",
    )


def _look(options: Options) -> None:
    """Modes 1, 5 and 6: show a model as JSON or as a few lines."""
    from softnpu.compiler.inspection import describe

    path = Path(options.om)
    if options.mode == 6:
        _say(describe.information(path))
        return
    if options.mode == 5:
        content = describe.dump_to_json(path)
    else:
        framework = options.framework if options.given("framework") else None
        content = describe.to_json(path, framework, bool(options.dump_mode))
    describe.write_json(Path(options.json), content, "json")


# ---- what is printed -------------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    """Print a line at once, whatever the encoding of the terminal; somebody who closed the pipe has read enough."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(problem: AtcError) -> int:
    block = error_block(problem)
    for line in block.splitlines():
        plog.log().write(plog.ERROR, line, "GE")
    _say("...")
    _say(FAILURE)
    _say(block)
    return FAILED


def error_block(problem: AtcError) -> str:
    """An error as atc prints it: code, process, time, message, cause and solution, then what lies behind it."""
    now = time.time()
    micro = int(now % 1 * 1_000_000)
    stamp = f"{time.strftime('%Y-%m-%d-%H:%M:%S', time.localtime(now))}.{micro // 1000:03d}.{micro % 1000:03d}"
    lines = [f"{problem.code}: [PID: {os.getpid()}] {stamp} {problem.message}"]
    if problem.cause:
        lines.append(f"        Possible Cause: {problem.cause}")
    if problem.solution:
        lines.append(f"        Solution: {problem.solution}")
    nested = problem.__cause__
    if isinstance(nested, AtcError):
        lines.append("        TraceBack (most recent call last):")
    while isinstance(nested, AtcError):
        lines.append(f"        {nested.message}")
        nested = nested.__cause__
    return "\n".join(lines)


def _defect(problem: Exception) -> AtcError:
    """The error block of an exception that nobody expected; its traceback goes to the log."""
    log = plog.log()
    for line in "".join(traceback.format_exception(problem)).splitlines():
        log.write(plog.ERROR, line, "GE")
    first = str(problem).strip().partition("\n")[0]
    written = log.enabled(plog.ERROR, "GE")
    location = "printed above" if log.settings.to_stdout else f"in {log.settings.directory / 'debug' / 'plog'}"
    solution = (
        f"Report it with the log, which is {location}" if written else "Run again with --log=error and report the log"
    )
    return error("E19999", reason=f"{type(problem).__name__}: {first}".rstrip(": "), solution=solution)


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """A progress bar on standard error where that is a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _stage, _share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda stage, share: bar.update(task, description=stage, completed=share)


# ---- help ------------------------------------------------------------------------------------------------------------

_USAGE = """\
usage: atc --model=FILE --framework=NUMBER --output=NAME --soc_version=CHIP [options]
       atc --singleop=FILE --output=FOLDER --soc_version=CHIP [options]
       atc --mode=1 --om=FILE --json=FILE | --mode=6 --om=FILE

Convert models to offline models (.om), or look at them. Options are written --name=value or
--name value; quote values that hold spaces, ; or ~. Options marked * are needed to convert; those
marked - are checked and have no effect here.

  atc --model=resnet50.onnx --framework=5 --output=resnet50 --soc_version=Ascend310P3 \\
      --input_shape="images:1,3,224,224\""""


def help_text() -> str:
    """The usage text, made from the rows."""
    parts = [_USAGE]
    for group in dict.fromkeys(row.group for row in ROWS.values()):
        lines = [line for row in ROWS.values() if row.group == group for line in _help_row(row)]
        parts.append("\n".join([f"{group}:", *lines]))
    parts.append("  --help                        Show this text.")
    return "\n\n".join(parts)


def _help_row(row: Row) -> list[str]:
    values = {"b": "true|false", "01": "0|1"}.get(row.kind, row.metavar or "VALUE")
    mark = "*" if row.required else "-" if row.status == "accepted" else " "
    head = f"{mark} --{row.name}={values}"
    text = row.help
    if row.kind == "choice" and row.name != "input_format":
        text += f" One of: {', '.join(row.values)}."
    if row.default and row.default != "-1":
        text += f" [default: {row.default}]"
    body = textwrap.wrap(text, _WIDTH - _INDENT, break_on_hyphens=False, break_long_words=False)
    if len(head) >= _INDENT:
        return [head, *(" " * _INDENT + line for line in body)]
    return [head.ljust(_INDENT) + body[0], *(" " * _INDENT + line for line in body[1:])]


if __name__ == "__main__":
    sys.exit(main())
