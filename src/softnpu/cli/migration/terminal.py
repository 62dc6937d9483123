"""What the commands of migration share: a line, a question, a bar, a reader who left."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from softnpu.migrate.errors import MigrateError
from softnpu.migrate.reading.tree import check_output

INTERRUPTED = 130


def reader_left() -> int:
    """`ms_fmk_transplt --dry-run … | head`: whoever read has enough, and the rest goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def say(text: str) -> None:
    """Print a line at once, whatever the encoding of the terminal."""
    sys.stdout.write(text.encode(sys.stdout.encoding or "utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


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


def result_folder(output: str, name: str) -> Path:
    """The folder of an analysis, made; one that is there already is asked about."""
    folder = check_output(output) / f"{name}_analysis"
    if folder.exists() and not confirm(
        f"The output {folder} exists already; files of the same names will be replaced."
    ):
        raise MigrateError("Nothing was written.")
    folder.mkdir(exist_ok=True)
    return folder
