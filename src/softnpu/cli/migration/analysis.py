"""What `pytorch_analyse` does without --run: read a project and write what of it an NPU would refuse."""

from __future__ import annotations

import argparse
import sys

from softnpu.cli.migration.terminal import result_folder
from softnpu.migrate.analysis import analyse as reading
from softnpu.migrate.analysis import dynamic_shape, third_party
from softnpu.migrate.analysis.analyse import Analysis
from softnpu.migrate.reading.tree import check_input
from softnpu.migrate.reporting.reports import write_csv


def analyse(options: argparse.Namespace) -> int:
    """Read a project and write what of it will not work; returns the exit status."""
    source = check_input(options.input)
    extra = third_party.read_extra(options.api_files)
    folder = result_folder(options.output, source.stem if source.is_file() else source.name)
    lines = [f"Analysis of {source}, mode {options.mode}, torch {options.version}."]
    if options.mode == "third_party":
        for index, root in enumerate([source, *(check_input(path) for path in options.env_path)]):
            target = folder if not index else folder / root.name
            target.mkdir(exist_ok=True)
            told, *unread = third_party.write_third_party(root, target, extra)
            lines += [f"{root.name}: {told}", *unread]
    elif options.mode == "dynamic_shape":
        entries, unread = dynamic_shape.write_hooked_copy(source, folder)
        lines.append(f"Entry files with hooks: {', '.join(entries) or 'none; import ascend_dynamic_shape in yours'}.")
        lines.append(f"Run one of them; {folder}/ascend_dynamic_shape.csv will hold the shapes.")
        lines += unread
    else:
        analysis = reading.analyse(source, frozenset({folder}))
        if options.mode == "affinity_apis":
            faster = list(reading.affinity_rows(analysis))
            write_csv(folder / "affinity_api_call.csv", reading.AFFINITY_COLUMNS, faster)
            lines.append(f"{len(faster)} calls have a faster form.")
        else:
            reading.write_results(source, folder, analysis)
            lines += _sentences(analysis, extra)
        lines += [f"{file.path}: {file.error}" for file in analysis.files if file.error]
    (folder / "pytorch_analysis.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join([*lines, f"The result is in {folder}."]) + "\n")
    return 0


def _sentences(analysis: Analysis, extra: frozenset[str]) -> list[str]:
    findings = [finding for file in analysis.files for finding in file.findings]
    counts = {
        kind: sum(finding.row.kind == kind for finding in findings)
        for kind in ("unsupported", "precision", "performance")
    }
    own = sum(use.name in extra for file in analysis.files for use in file.torch)
    return [
        f"{len(analysis.files)} files; uses of unsupported interfaces: {counts['unsupported'] + own}.",
        f"Advice about precision: {counts['precision']}, about performance: {counts['performance']}.",
    ]
