"""A run of the migration: scan, convert every file, write the copy and the reports, and put them in place at once."""

from __future__ import annotations

import difflib
import gc
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from softnpu.migrate.convert import Options, convert
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.reading.source import Source
from softnpu.migrate.reading.tree import (
    MAX_BYTES,
    MAX_FILES,
    Tree,
    copied_sources,
    copy_file,
    copy_link,
    mentions,
    publish,
    scan,
)
from softnpu.migrate.reporting import reports
from softnpu.migrate.reporting.results import FileResult, Summary
from softnpu.migrate.rewriting.distributed import SHARE

_PARALLEL = 64  # files from which more processes are worth their start
Confirm = Callable[[str], bool]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Job:
    """A run: where from, where to, and how."""

    source: Path
    output: Path
    options: Options = field(default_factory=Options)
    main: str = ""

    @property
    def name(self) -> str:
        return self.source.stem if self.source.is_file() else self.source.name

    @property
    def target(self) -> Path:
        return self.output / (self.name + ("_msft_multi" if self.options.distributed else "_msft"))

    @property
    def main_path(self) -> Path:
        """The entry file of the distributed mode, relative to the input."""
        root = self.source.parent if self.source.is_file() else self.source
        for base in (Path.cwd(), root):
            path = Path(os.path.abspath(base / self.main))
            if path.is_file() and path.is_relative_to(root) and path.suffix == ".py":
                return path.relative_to(root)
        raise MigrateError(f"The entry file {self.main} is not a .py file inside {root}; give its path after -m.")


def run(job: Job, confirm: Confirm, progress: Progress = lambda _done, _all: None) -> Summary:
    """Convert a project into a new folder. `confirm` is asked before something large or existing is touched."""
    started = time.monotonic()
    tree = _scan(job)
    main = _entry(job, tree)
    _ask(job, tree, confirm)
    built = Path(tempfile.mkdtemp(prefix=f".{job.target.name}.", dir=job.output))
    try:
        summary = _build(job, tree, main, built, progress)
        summary.seconds = time.monotonic() - started
        _report(job, summary, main, built)
        built.chmod(0o755)
        publish(built, job.target)
    finally:
        shutil.rmtree(built, ignore_errors=True)
    return summary


def preview(job: Job) -> Iterator[tuple[FileResult, str]]:
    """The results of a run that writes nothing, each with its unified diff."""
    tree = _scan(job)
    for result in _convert_all(tree, job.options, _entry(job, tree), lambda _done, _all: None):
        before, after = result.before.splitlines(True), result.after.splitlines(True)
        yield result, "".join(difflib.unified_diff(before, after, f"a/{result.path}", f"b/{result.path}"))


def _scan(job: Job) -> Tree:
    earlier = (job.output / (job.name + suffix) for suffix in ("_msft", "_msft_multi", "_analysis"))
    return scan(job.source, frozenset(earlier))


def _entry(job: Job, tree: Tree) -> Path | None:
    main = job.main_path if job.options.distributed else None
    if main is not None and main in tree.untouched:
        raise MigrateError(
            f"The entry file {job.main} is in a folder that is copied unchanged; move it, or give another after -m."
        )
    return main


def _ask(job: Job, tree: Tree, confirm: Confirm) -> None:
    questions = []
    if len(tree.python) > MAX_FILES:
        questions.append(f"The input has {len(tree.python)} Python files, more than {MAX_FILES}; this takes long.")
    if tree.size > MAX_BYTES:
        questions.append(
            f"The input has {tree.size / (1 << 30):.1f} GB, more than {MAX_BYTES >> 30}; it will be copied."
        )
    if job.target.exists():
        questions.append(f"The output {job.target} exists already; files of the same names will be replaced.")
    for question in questions:
        if not confirm(question):
            raise MigrateError("Nothing was written.")


# ---- files -----------------------------------------------------------------------------------------------------------


def _build(job: Job, tree: Tree, main: Path | None, built: Path, progress: Progress) -> Summary:
    summary = Summary(job.name, str(job.target), others=len(tree.others) + len(tree.untouched))
    for folder in tree.folders:
        (built / folder).mkdir(parents=True, exist_ok=True)
    for result in _convert_all(tree, job.options, main, progress):
        summary.files.append(result)
        summary.warnings += [(result.path, text) for text in result.warnings]
        _write(tree, result, built, summary)
    for relative in (*tree.others, *tree.untouched):
        _copy(tree, relative, built, summary)
    for link in tree.links:
        if warning := copy_link(tree, link, built):
            summary.warnings.append((str(link), warning))
    summary.lost += [(str(path), "neither a file nor a folder") for path in tree.special]
    summary.lost += [(str(path), f"cannot be read ({why})") for path, why in tree.unreadable]
    summary.warnings += [(str(folder), text) for folder, text in copied_sources(tree)]
    for path, line, text in mentions(tree):
        summary.warnings.append((f"{path}:{line}", f"speaks of CUDA and is for you to change: {text}"))
    return summary


def _convert_all(tree: Tree, options: Options, main: Path | None, progress: Progress) -> Iterator[FileResult]:
    work = [(tree.root, relative, options, relative == main) for relative in tree.python]
    workers = min(len(os.sched_getaffinity(0)), 8)
    if len(work) < _PARALLEL or workers < 2:
        for done, item in enumerate(work, 1):
            yield convert_file(item)
            progress(done, len(work))
        return
    with ProcessPoolExecutor(workers) as pool:
        for done, result in enumerate(pool.map(convert_file, work, chunksize=8), 1):
            yield result
            progress(done, len(work))


def convert_file(item: tuple[Path, Path, Options, bool]) -> FileResult:
    """Convert one file; whatever is wrong with it is told in the result."""
    root, relative, options, main = item
    try:
        source = Source.read(root / relative)
    except OSError as problem:
        return FileResult(str(relative), error=f"cannot be read ({problem.strerror})")
    except (SyntaxError, UnicodeDecodeError) as problem:
        return FileResult(str(relative), error=f"its encoding cannot be read ({problem})")
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5000))  # long chains of operators nest deeply in the tree
    collecting = gc.isenabled()
    gc.disable()  # trees are large and die together: looking for garbage meanwhile costs half of the time
    try:
        done = convert(source, options, main)
        source.encode(done.text)
    except Exception as problem:  # one file that we cannot handle must not cost the others
        first = (str(problem).splitlines() or [""])[0]
        return FileResult(str(relative), error=f"the conversion failed ({type(problem).__name__}: {first})")
    finally:
        if collecting:
            gc.enable()
    result = FileResult(str(relative), done.changes, done.findings, done.warnings, done.error)
    if done.text != source.text:
        result = replace(result, before=source.text, after=done.text)
    return result


def _write(tree: Tree, result: FileResult, built: Path, summary: Summary) -> None:
    relative = Path(result.path)
    if not result.changed:
        _copy(tree, relative, built, summary)
        return
    (built / relative).write_bytes(Source.read(tree.root / relative).encode(result.after))
    shutil.copymode(tree.root / relative, built / relative)


def _copy(tree: Tree, relative: Path, built: Path, summary: Summary) -> None:
    try:
        copy_file(tree, relative, built)
    except OSError as problem:
        summary.lost.append((str(relative), f"cannot be copied ({problem.strerror})"))


# ---- reports ---------------------------------------------------------------------------------------------------------


def _report(job: Job, summary: Summary, main: Path | None, built: Path) -> None:
    if job.options.similar:
        reports.write_template("ascend_function", built / "ascend_function")
        _warn_import_path(summary, "ascend_function.")
    if job.options.modelarts:
        reports.write_template("ascend_modelarts_function", built / "ascend_modelarts_function")
    if main is not None:
        reports.write_launcher(built, str(main))
        _warn_no_loader(summary, str(main))
    reports.write_reports(built, summary)
    log = reports.RunLog(built / reports.LOG)
    log.write(logging.INFO, f"Input {job.source}, output {job.target}.")
    reports.log_run(log, summary)
    log.write(logging.INFO, reports.SUCCESS if not summary.lost else reports.FAILURE)
    log.close()


def _warn_no_loader(summary: Summary, main: str) -> None:
    """Loaders that a library makes are out of reach; without a share each, all processes would train on the same data."""
    divided = any(SHARE in change.message for file in summary.files for change in file.changes)
    known = any("DistributedSampler" in file.before for file in summary.files)
    if summary.changed and not divided and not known:
        advice = "no DataLoader was found to divide among the processes; give the one that you use a DistributedSampler"
        summary.warnings.append((main, advice))


def _warn_import_path(summary: Summary, text: str) -> None:
    inner = [file.path for file in summary.files if os.sep in file.path and text in file.after]
    if inner:
        advice = f"run programs with PYTHONPATH={summary.target}, so that they find the helper package"
        summary.warnings.append((inner[0], f"{len(inner)} files below the top folder use {text[:-1]}: {advice}"))
