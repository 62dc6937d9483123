"""From the rows of `spec/migrate` and `spec/torch`: the tables that the migration of programs reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generators.common import MARK, TABLES, load

FILES = {
    "migrate/affinity": "migrate/affinity.toml",
    "migrate/rewrites": "migrate/rewrites.toml",
    "migrate/similar": "migrate/similar.toml",
    "migrate/unsupported": "migrate/unsupported.toml",
    "torch_adapter": "torch/adapter.toml",
}


def _lines(key: str, value: Any) -> Iterator[str]:
    """An entry of a table: a list a row per line, everything else in one line."""
    if not isinstance(value, list):
        yield f"    {key!r}: {value!r},"
        return
    yield f"    {key!r}: ["
    for row in value:
        yield f"        {row!r},"
    yield "    ],"


def table(rows: dict[str, Any]) -> str:
    """A file of rows as a module."""
    body = [line for key, value in rows.items() for line in _lines(key, value)]
    return "\n".join([MARK, "", "from typing import Any", "", "ROWS: dict[str, Any] = {", *body, "}", ""])


def tables() -> dict[Path, str]:
    """What code reads."""
    return {TABLES / f"{name}.py": table(load(file)) for name, file in FILES.items()}
