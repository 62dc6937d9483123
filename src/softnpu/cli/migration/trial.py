"""What `pytorch_analyse --run` does: run a program on the CPU and write which of its operators a chip lacks."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from softnpu.cli.migration.terminal import result_folder
from softnpu.migrate.analysis.chip_rows import lacks
from softnpu.migrate.analysis.run_ops import COLUMNS, Use, judge, run_script
from softnpu.migrate.reporting.reports import write_csv

_SHOWN = 20


def run(options: argparse.Namespace) -> int:
    """Run a program on the CPU and tell which of its operators the chip lacks; returns the exit status."""
    lacks(options.soc)  # a wrong chip is told before the program runs
    script = Path(options.run[0])
    folder = result_folder(options.output, script.stem) if options.output else None
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
