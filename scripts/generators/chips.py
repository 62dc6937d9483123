"""From the chips of `spec/soc`: their table and their page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generators.common import PAGE_MARK, SPEC, SUPPORT, TABLES, load, mapping


def chips() -> list[dict[str, Any]]:
    """All chips, in the order of their names."""
    files = sorted((SPEC / "soc").glob("*/*.toml"), key=lambda path: path.name)
    rows = [load(str(path.relative_to(SPEC))) for path in files]
    for path, row in zip(files, rows, strict=True):
        if row["name"] != path.stem:
            raise SystemExit(f"{path.relative_to(SPEC)}: its name is {row['name']!r}, not that of the file")
    return rows


def chips_table() -> str:
    """Chip rows by name."""
    return mapping("CHIPS", "dict[str, dict[str, Any]]", ((row["name"], row) for row in chips()))


def chips_page() -> str:
    """All chips."""
    lines = [
        PAGE_MARK,
        "",
        "# Chips",
        "",
        "`SOFTNPU_SOC` chooses one. A size marked ~ is not stated in the manuals.",
        "",
        "| Name | AI cores | Vector cores | AI CPUs | Memory | Kind | L2 | Streams | Events |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|",
    ]
    for row in chips():
        guess = "~" if row.get("memory_guess") else ""
        lines.append(
            f"| {row['name']} | {row['ai_cores']} | {row['vector_cores']} | {row['ai_cpus']} | {guess}{row['memory_bytes'] >> 30} GiB | {row['memory_kind']} | {row['l2_bytes'] >> 20} MiB | {row['max_streams']} | {row['max_events']} |"
        )
    return "\n".join([*lines, ""])


def tables() -> dict[Path, str]:
    """What code reads."""
    return {TABLES / "chips.py": chips_table()}


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "chips.md": chips_page()}
