"""Run the benchmarks (all, or those named) and print a table: ours, the peer in the same run, the ratio, the wish.

python benchmarks/run.py [import|alloc|copy|streams|models|load …] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
NAMES = sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))


def main() -> int:
    """Measure and print; exit code 1 when a wish is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which (default: all)")
    parser.add_argument("--json", type=Path, help="also write the rows to a file")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    os.environ.setdefault("ASCEND_GLOBAL_LOG_LEVEL", "4")
    console = Console(width=max(140, Console().width))
    rows = []
    for name in options.names or NAMES:
        with console.status(f"measuring {name} …"):
            rows += importlib.import_module(f"bench_{name}").results()
    table = Table("What", "Ours", "Peer, same run", "Ratio", "Wish", "")
    for row in rows:
        table.add_row(
            row.name,
            row.ours,
            row.peer,
            row.ratio,
            row.wish,
            "" if row.wish.startswith("–") else "✓" if row.good else "✗",
        )
    console.print(table)
    if options.json:
        options.json.write_text(
            json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False), encoding="utf-8"
        )
    return int(not all(row.good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
