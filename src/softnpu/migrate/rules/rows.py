"""The rows of `spec/migrate`: which names are rewritten, reported or slow."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSIONS = ("1.5.0", "1.8.1", "1.11.0", "2.0.1", "2.1.0", "2.6.0", "2.7.1", "2.8.0", "2.11.0", "2.12.0", "2.13.0")
DEFAULT_VERSION = "2.13.0"


@dataclass(frozen=True)
class StringRow:
    """Text of string constants: a whole string, or a pattern for a part of it."""

    pattern: re.Pattern[str]
    new: str


@dataclass(frozen=True)
class Unsupported:
    """A name that is reported, with the advice."""

    name: str
    tip: str
    origin: str
    kind: str


@dataclass(frozen=True)
class Affinity:
    """A name for which there is a faster form."""

    name: str
    type: str
    better: str


@functools.cache
def table(name: str) -> dict[str, Any]:
    """A file of `spec/migrate`, as the table that is made from it."""
    rows: dict[str, Any] = importlib.import_module(f"softnpu.spec._generated.migrate.{name}").ROWS
    return rows


@functools.cache
def strings() -> tuple[StringRow, ...]:
    rows = []
    for row in table("rewrites")["string"]:
        pattern = rf"\A{re.escape(row['whole'])}\Z" if "whole" in row else row["part"]
        rows.append(StringRow(re.compile(pattern), row["new"]))
    return tuple(rows)


@functools.cache
def unsupported() -> dict[str, Unsupported]:
    """Reported names, by name."""
    return {
        name: Unsupported(name, row["tip"], row["origin"], row.get("kind", "unsupported"))
        for row in table("unsupported")["unsupported"]
        for name in row["names"]
    }


@functools.cache
def affinity() -> dict[str, Affinity]:
    """Names with a faster form, by name."""
    return {
        name: Affinity(name, row["type"], row["better"])
        for row in table("affinity")["affinity"]
        for name in row["names"]
    }


def at_least(version: str, wanted: str) -> bool:
    """Whether a version such as 2.1.0 is not below another."""
    return _numbers(version) >= _numbers(wanted)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def find(rows: Mapping[str, Any], name: str) -> Any | None:
    """The row of a dotted name or of the nearest name above it."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        row = rows.get(".".join(parts[:count]))
        if row is not None:
            return row
    return None
