"""Static analysis of a project: unsupported and unknown interfaces, uses of CUDA, advice, and calls with a faster form."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libcst as cst

from softnpu.migrate.convert import MARK
from softnpu.migrate.reading.findings import Finding, Used, Uses, find, invalid
from softnpu.migrate.reading.findings import parse as parse_plain
from softnpu.migrate.reading.newer import NewerUses
from softnpu.migrate.reading.source import Source
from softnpu.migrate.reading.tree import scan
from softnpu.migrate.reporting.reports import UNSUPPORTED_COLUMNS, write_csv
from softnpu.migrate.rules import rows

AFFINITY_COLUMNS = ("File", "Start Line", "End Line", "Api Type", "Api Call Name", "Affinity Api Name")


@dataclass
class Inspection:
    """What one file uses; `error` where it cannot be read."""

    path: str
    findings: Sequence[Finding] = ()
    affinity: Sequence[Finding] = ()
    torch: Sequence[Finding] = ()
    error: str = ""

    def cuda(self) -> Iterator[Finding]:
        return (use for use in self.torch if use.name.startswith("torch.cuda"))


@dataclass
class Analysis:
    """A project."""

    root: Path
    files: list[Inspection] = field(default_factory=list)


def parse(path: Path) -> tuple[cst.Module | None, str]:
    """The tree of a file, or why there is none."""
    text, error = _text(path)
    return parse_text(text) if text is not None else (None, error)


def _text(path: Path) -> tuple[str | None, str]:
    """The text of a file, or why there is none: no reason is needed for one that we wrote."""
    try:
        text = Source.read(path).text
    except OSError as problem:
        return None, f"cannot be read ({problem.strerror})"
    except (SyntaxError, UnicodeDecodeError) as problem:
        return None, f"its encoding cannot be read ({problem})"
    return (None, "") if text.startswith(MARK) else (text, "")


def parse_text(text: str) -> tuple[cst.Module | None, str]:
    """The tree of a text, or why there is none."""
    try:
        return cst.parse_module(text), ""
    except cst.ParserSyntaxError:
        return None, invalid(text)
    except RecursionError:
        return None, "nested too deeply to be parsed"


def _uses(text: str) -> tuple[Used | None, str]:
    uses = Uses.read(parse_plain(text))
    if uses is not None:
        return uses, ""
    module, error = parse_text(text)
    try:
        return (NewerUses(module), "") if module is not None else (None, error)
    except RecursionError:
        return None, "nested too deeply to be read"


def inspect(root: Path, relative: Path) -> Inspection:
    """Read one file."""
    text, error = _text(root / relative)
    uses, error = _uses(text) if text is not None else (None, error)
    if uses is None:
        return Inspection(str(relative), error=error)
    return Inspection(
        str(relative),
        find(uses, rows.unsupported()),
        find(uses, rows.affinity()),
        find(uses, {"torch": "torch"}),
    )


def analyse(source: Path, skip: frozenset[Path] = frozenset()) -> Analysis:
    """Read a project; `skip` are the folders of results in it."""
    tree = scan(source, skip)
    return Analysis(tree.root, [inspect(tree.root, relative) for relative in tree.python])


def unknown_names(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Names of torch that the torch installed here does not have: file and name. Without torch there are none to tell."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return
    known: dict[str, bool] = {}
    for inspection in analysis.files:
        for name in dict.fromkeys(finding.name for finding in inspection.torch):
            if name not in known:
                known[name] = _exists(torch, name)
            if not known[name]:
                yield inspection.path, name


def _exists(torch: Any, name: str) -> bool:
    value = torch
    parts = name.split(".")
    for length, part in enumerate(parts[1:], 2):
        if value is None:  # torch.version.cuda.split: there on a machine with CUDA
            return True
        if not hasattr(value, part):
            module = ".".join(parts[:length])
            try:
                value = importlib.import_module(module)
            except ImportError as problem:
                return not module.startswith(
                    problem.name or module
                )  # torch has it, and a library that it needs is missing
        else:
            value = getattr(value, part)
    return True


def write_results(source: Path, folder: Path, analysis: Analysis | None = None) -> Analysis:
    """The lists of `transplant_result_file`."""
    analysis = analysis or analyse(source, frozenset({folder.parent}))
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(
        folder / "cuda_op_list.csv",
        ("File", "Api"),
        dict.fromkeys((inspection.path, f.name) for inspection in analysis.files for f in inspection.cuda()),
    )
    write_csv(folder / "unknown_api.csv", ("File", "Api"), unknown_names(analysis))
    for name, kind in (
        ("unsupported_api.csv", "unsupported"),
        ("api_precision_advice.csv", "precision"),
        ("api_performance_advice.csv", "performance"),
    ):
        write_csv(folder / name, UNSUPPORTED_COLUMNS, _of_kind(analysis, kind))
    write_csv(folder / "affinity_api_call.csv", AFFINITY_COLUMNS, affinity_rows(analysis))
    return analysis


def _of_kind(analysis: Analysis, kind: str) -> Iterator[tuple[object, ...]]:
    for inspection in analysis.files:
        for finding in inspection.findings:
            if finding.row.kind == kind:
                yield inspection.path, finding.start_line, finding.end_line, finding.name, finding.row.tip


def affinity_rows(analysis: Analysis) -> Iterator[tuple[object, ...]]:
    """The rows of the affinity list."""
    for inspection in analysis.files:
        for use in inspection.affinity:
            yield inspection.path, use.start_line, use.end_line, use.row.type, use.name, use.row.better
