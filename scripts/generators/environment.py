"""From `spec/environment.toml`: what code needs of each variable, and the page of environment variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from generators.common import PAGE_MARK, ROOT, TABLES, cell, load, mapping

_KEYS = {"name", "default", "otherwise", "choices", "range", "meaning"}


def _rows() -> Iterator[tuple[str, tuple[str, tuple[str, ...], tuple[int, ...]]]]:
    for group in load("environment.toml")["group"]:
        for row in group["variable"]:
            if not row.keys() <= _KEYS:
                raise SystemExit(f"environment.toml: {row['name']} has fields that mean nothing: {row.keys() - _KEYS}")
            yield row["name"], (row.get("default", ""), tuple(row.get("choices", ())), tuple(row.get("range", ())))


def environment_table() -> str:
    """Variables by name, in the order of the fields of `base.config.Variable`."""
    return mapping("VARIABLES", "dict[str, tuple[str, tuple[str, ...], tuple[int, ...]]]", _rows())


def environment_page() -> str:
    """All environment variables."""
    lines = [
        PAGE_MARK,
        "",
        "# Environment variables",
        "",
        "All of them. They are read in one place (`softnpu/base/config.py`): most when `acl.init` runs or a command starts, those of the log when its first line is written; only whether a real CANN is installed is asked earlier, by `import acl` (`softnpu/base/cann.py`). `XDG_CACHE_HOME`, `XDG_RUNTIME_DIR` and `TMPDIR` mean what they mean elsewhere. Those of torch_npu have a door of their own (`torch_npu/_environment.py`).",
        "",
    ]
    for group in load("environment.toml")["group"]:
        lines += [f"## {group['title']}", "", "| Variable | Default | Meaning |", "|---|---|---|"]
        for row in group["variable"]:
            default = row.get("default") or row.get("otherwise") or "–"
            lines.append(f"| `{row['name']}` | {default} | {cell(row['meaning'])} |")
        lines.append("")
    return "\n".join(lines)


def tables() -> dict[Path, str]:
    """What code reads."""
    return {TABLES / "environment.py": environment_table()}


def pages() -> dict[Path, str]:
    """What people read."""
    return {ROOT / "docs/environment.md": environment_page()}
