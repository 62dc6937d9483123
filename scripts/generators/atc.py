"""From the rows about atc: the tables of its options and messages, and the page about the options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from generators.common import PAGE_MARK, SUPPORT, TABLES, cell, load, mapping

_KINDS = {"s": "", "i": "number", "b": "true, false", "01": "0, 1", "choice": ""}


def options_table() -> str:
    """Options by name, in the order of the rows."""
    rows = load("atc_options.toml")["option"]
    return mapping("OPTIONS", "dict[str, dict[str, Any]]", ((row["name"], row) for row in rows))


def errors_table() -> str:
    """Messages by code: (message, possible cause, solution)."""
    rows = load("atc_errors.toml")["error"]
    items = ((row["code"], (row["message"], row.get("cause", ""), row.get("solution", ""))) for row in rows)
    return mapping("ERRORS", "dict[str, tuple[str, str, str]]", items)


def _values(row: dict[str, Any]) -> str:
    if row.get("values"):
        return ", ".join(f"`{value}`" for value in row["values"])
    return _KINDS[row["kind"]] or str(row.get("metavar", "text")).lower()


def _here(row: dict[str, Any]) -> str:
    words = "" if row["status"] == "used" else "No effect. "
    return (words + row.get("note", "")).strip()


def options_page() -> str:
    """What each option does here."""
    table = load("atc_options.toml")["option"]
    used = sum(row["status"] == "used" for row in table)
    lines = [
        PAGE_MARK,
        "",
        "# Options of atc",
        "",
        f"All {len(table)} options are parsed and checked; {used} of them change what atc does here (✓). The others are named in a",
        "warning when they are given. ★ marks what a conversion needs.",
    ]
    for group in dict.fromkeys(row["group"] for row in table):
        lines += [
            "",
            f"## {group}",
            "",
            "| | Option | Values | Default | Meaning | Here |",
            "|---|---|---|---|---|---|",
        ]
        for row in (row for row in table if row["group"] == group):
            mark = ("✓" if row["status"] == "used" else "–") + ("★" if row.get("required") else "")
            default = f"`{row['default']}`" if row.get("default") not in (None, "-1") else ""
            cells = (mark, f"`--{row['name']}`", _values(row), default, row["help"], _here(row))
            lines.append("| " + " | ".join(cell(text) for text in cells) + " |")
    return "\n".join([*lines, ""])


def tables() -> dict[Path, str]:
    """What code reads."""
    return {TABLES / "atc_options.py": options_table(), TABLES / "atc_errors.py": errors_table()}


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "atc_options.md": options_page()}
