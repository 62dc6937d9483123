"""The command `pytorch_analyse`: what of a project will not work on an NPU, by reading it or by running it on the CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softnpu.cli.ms_fmk_transplt import INTERRUPTED, confirm, reader_left
from softnpu.migrate.errors import MigrateError
from softnpu.migrate.rules.rows import VERSIONS

if TYPE_CHECKING:
    from softnpu.migrate.analysis.analyse import Analysis
    from softnpu.migrate.analysis.run_ops import Use

MODES = ("torch_apis", "third_party", "affinity_apis", "dynamic_shape")
_SHOWN = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser()
    options = arguments.parse_args(_soc_first(words))
    try:
        if options.run:
            return _flushed(_run(options))
        if options.input is None or options.output is None or options.version is None:
            arguments.error("the following arguments are required: -i/--input, -o/--output, -v/--version (or --run)")
        return _flushed(_analyse(options))
    except BrokenPipeError:
        return reader_left()
    except MigrateError as problem:
        sys.stderr.write(f"[ERROR] {problem}\n")
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except ModuleNotFoundError as problem:
        if problem.name != "libcst":
            raise
        sys.stderr.write('[ERROR] libcst is not installed; type: pip install "softnpu[migrate]"\n')
        return 1


def _flushed(status: int) -> int:
    sys.stdout.flush()  # here, where a reader who left is told apart
    return status


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        "pytorch_analyse", description="Tell what of a PyTorch project an NPU does not support.", allow_abbrev=False
    )
    top.add_argument("-i", "--input", metavar="PATH", help="folder or .py file to analyse")
    top.add_argument("-o", "--output", metavar="DIR", help="folder for the result, <input>_analysis")
    top.add_argument("-v", "--version", choices=VERSIONS, help="version of torch")
    top.add_argument("-m", "--mode", choices=MODES, default=MODES[0], help="what to look for [torch_apis]")
    top.add_argument(
        "-env", "--env-path", nargs="+", default=[], metavar="DIR", help="folders of libraries, read with third_party"
    )
    top.add_argument(
        "-api", "--api-files", nargs="+", default=[], metavar="CSV", help="lists of further unsupported names"
    )
    top.add_argument("--soc", default="Ascend910A", metavar="CHIP", help="chip that --run compares with [Ascend910A]")
    top.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT",
        help="run a program with its arguments on the CPU; stands last",
    )
    return top


def _soc_first(words: list[str]) -> list[str]:
    """`--run script … --soc CHIP`: a chip at the very end is ours, not the program's."""
    if "--run" in words and len(words) > 3 and words[-2] == "--soc" and words[-1].startswith("Ascend"):
        return [*words[-2:], *words[:-2]]
    return words


def _folder(options: argparse.Namespace, name: str) -> Path:
    from softnpu.migrate.reading.tree import check_output

    folder = check_output(options.output) / f"{name}_analysis"
    if folder.exists() and not confirm(
        f"The output {folder} exists already; files of the same names will be replaced."
    ):
        raise MigrateError("Nothing was written.")
    folder.mkdir(exist_ok=True)
    return folder


# ---- reading ---------------------------------------------------------------------------------------------------------


def _analyse(options: argparse.Namespace) -> int:
    from softnpu.migrate.analysis import analyse, dynamic_shape, third_party
    from softnpu.migrate.reading.tree import check_input
    from softnpu.migrate.reporting.reports import write_csv

    source = check_input(options.input)
    extra = third_party.read_extra(options.api_files)
    folder = _folder(options, source.stem if source.is_file() else source.name)
    lines = [f"Analysis of {source}, mode {options.mode}, torch {options.version}."]
    if options.mode == "third_party":
        for place, root in enumerate([source, *(check_input(one) for one in options.env_path)]):
            target = folder if not place else folder / root.name
            target.mkdir(exist_ok=True)
            told, *unread = third_party.write_third_party(root, target, extra)
            lines += [f"{root.name}: {told}", *unread]
    elif options.mode == "dynamic_shape":
        entries, unread = dynamic_shape.write_hooked_copy(source, folder)
        lines.append(f"Entry files with hooks: {', '.join(entries) or 'none; import ascend_dynamic_shape in yours'}.")
        lines.append(f"Run one of them; {folder}/ascend_dynamic_shape.csv will hold the shapes.")
        lines += unread
    else:
        analysis = analyse.analyse(source, frozenset({folder}))
        if options.mode == "affinity_apis":
            found = list(analyse.affinity_rows(analysis))
            write_csv(folder / "affinity_api_call.csv", analyse.AFFINITY_COLUMNS, found)
            lines.append(f"{len(found)} calls have a faster form.")
        else:
            analyse.write_results(source, folder, analysis)
            lines += _sentences(analysis, extra)
        lines += [f"{one.path}: {one.error}" for one in analysis.files if one.error]
    (folder / "pytorch_analysis.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write("\n".join([*lines, f"The result is in {folder}."]) + "\n")
    return 0


def _sentences(analysis: Analysis, extra: frozenset[str]) -> list[str]:
    findings = [one for file in analysis.files for one in file.findings]
    counts = {
        kind: sum(one.row.kind == kind for one in findings) for kind in ("unsupported", "precision", "performance")
    }
    own = sum(one.name in extra for file in analysis.files for one in file.torch)
    return [
        f"{len(analysis.files)} files; uses of unsupported interfaces: {counts['unsupported'] + own}.",
        f"Advice about precision: {counts['precision']}, about performance: {counts['performance']}.",
    ]


# ---- running ---------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    from softnpu.migrate.analysis.chip_rows import lacks
    from softnpu.migrate.analysis.run_ops import COLUMNS, judge, run_script
    from softnpu.migrate.reporting.reports import write_csv

    lacks(options.soc)  # a wrong chip is told before the program runs
    script = Path(options.run[0])
    folder = _folder(options, script.stem) if options.output else None
    uses, end = run_script(script, options.run[1:])
    judged = judge(uses, options.soc)
    bad = [(use, why) for use, why in judged if why]
    if folder is not None:
        table = [
            (use.name, " ".join(use.dtypes), use.calls, "; ".join(use.shapes), use.place, "no" if why else "yes", why)
            for use, why in judged
        ]
        write_csv(folder / "operators.csv", COLUMNS, table)
        write_csv(folder / "framework_unsupported_op.csv", COLUMNS, (row for row in table if row[-1]))
    calls = sum(use.calls for use in uses)
    lines = [
        f"{script}: {end}; {calls} calls of {len({use.name for use in uses})} operators.",
        f"{len({use.name for use, _ in bad})} of them would not run on {options.soc}.",
    ]
    if folder is not None:
        (folder / "pytorch_analysis.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        lines.append(f"The result is in {folder}.")
    sys.stdout.write("\n".join(lines) + "\n")
    _show(bad)
    return 0 if end.startswith("it ran") else 1


def _show(bad: list[tuple[Use, str]]) -> None:
    """The operators that would fail: a table on a terminal, lines elsewhere."""
    if not bad:
        return
    if not sys.stdout.isatty():
        for use, why in bad[:_SHOWN]:
            sys.stdout.write(f"{use.name} ({', '.join(use.dtypes)}) x{use.calls} at {use.place}: {why}\n")
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table("Operator", "Data types", "Calls", "First call", "Why", title="Would not run")
        for use, why in bad[:_SHOWN]:
            table.add_row(use.name, " ".join(use.dtypes), str(use.calls), use.place, why)
        Console().print(table)
    if len(bad) > _SHOWN:
        sys.stdout.write(f"and {len(bad) - _SHOWN} more; give -o for the whole list\n")


if __name__ == "__main__":
    sys.exit(main())
