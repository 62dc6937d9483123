"""What is made from the rows of DataFlow: its support page. Signatures come from the code, so that they cannot be wrong."""

from __future__ import annotations

import enum
import importlib
import inspect
from functools import reduce
from pathlib import Path
from typing import Any

from generators.common import PAGE_MARK, SUPPORT, cell, load

_MARKS = {"yes": "✓", "partly": "partly", "no": "–", "own": "own"}


def find(module: str, name: str) -> Any:
    """The object that a row speaks of."""
    return reduce(getattr, name.split("."), importlib.import_module(module))


def _call(module: str, name: str) -> str:
    """The name with its parameters, without their types."""
    target = find(module, name)
    if not callable(target) or name.isupper() or (isinstance(target, type) and issubclass(target, enum.Enum)):
        return name
    try:
        signature = inspect.signature(target)
    except ValueError:
        return name
    parameters = [
        each.replace(annotation=inspect.Parameter.empty, default=_plain(each.default))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    if any(each.name in ("instance", "message", "inlet", "boundary") for each in parameters) and isinstance(
        target, type
    ):
        return name  # made by the engine, or an enumeration
    return f"{name}{signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"


class _Shown:
    """A default that is shown by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


def _plain(default: Any) -> Any:
    if default is inspect.Parameter.empty or isinstance(default, str | int | float | bool | None):
        member = getattr(default, "name", None)
        return _Shown(member) if isinstance(member, str) else default
    return _Shown(getattr(default, "__name__", repr(default)))


def _line(call: str, row: dict[str, Any]) -> str:
    note = f"*{row['note']}*" if row.get("note") else ""
    text = "; ".join(part for part in (row.get("doc", ""), note) if part)
    return f"| {_MARKS[row.get('is', 'yes')]} | `{cell(call)}` | {cell(text)} |"


def page() -> str:
    """The support page."""
    body: list[str] = []
    states: list[str] = []
    for group in load("flow/names.toml")["group"]:
        states += [row.get("is", "yes") for row in group["row"]]
        body += [f"## {group['title']}", "", f"`{group['module']}`", "", "| | Name | |", "|---|---|---|"]
        body += [_line(_call(group["module"], row["name"]), row) for row in group["row"]] + [""]
    for group in load("flow/options.toml")["group"]:
        body += [f"## {group['title']}", "", "| | Key | |", "|---|---|---|"]
        body += [_line(row["name"], row) for row in group["row"]] + [""]
    documented = len(states) - states.count("own")
    head = [
        PAGE_MARK,
        "",
        "# DataFlow",
        "",
        f"`import dataflow as df`. Of {documented} names {states.count('yes')} are supported (✓) and {states.count('partly')} partly, "
        f"{states.count('no')} are not (–); {states.count('own')} names are softnpu's own. [How to](../howto_dataflow.md) use it, "
        "[how it differs](../howto_dataflow.md#differences-from-the-real-engine) from the real engine.",
        "",
    ]
    return "\n".join([*head, *body])


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "dataflow.md": page()}
