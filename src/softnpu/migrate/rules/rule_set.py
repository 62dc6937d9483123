"""The rules of a run: the rows, what `-sim` adds, and the user's own rule file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from softnpu.migrate.errors import MigrateError
from softnpu.migrate.rules import rows


@dataclass(frozen=True)
class ArgsRule:
    """Replace an argument of a function."""

    func_name: str
    arg_idx: int
    arg_new: str
    arg_keyword: str = ""
    white_list: Sequence[str] = ()


@dataclass(frozen=True)
class Rules:
    """What is rewritten; names are dotted."""

    names: Mapping[str, str]
    functions: Mapping[str, str]
    attributes: Mapping[str, str]
    keywords: Mapping[tuple[str, str], str]
    strings: Sequence[rows.StringRow]
    keep: frozenset[str]
    foreign: frozenset[str]
    paths: frozenset[str]
    args: Sequence[ArgsRule] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    custom: frozenset[str] = frozenset()
    import_line: str = "import torch_npu"

    def rename(self, name: str) -> str:
        """The new form of a dotted name; the longest rule wins, and what has no counterpart stays."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            head = ".".join(parts[:count])
            if head in self.keep:
                return name
            if head in self.names:
                return ".".join([self.names[head], *parts[count:]])
        return name

    def note(self, name: str) -> str:
        """What the change list adds about a replaced name."""
        return str(rows.find(self.notes, name) or "")


def built_in(text: str = "", similar: bool = False, version: str = rows.DEFAULT_VERSION) -> Rules:
    """The rules of the rows; `text` is the file, for rows that depend on it."""
    table = rows.table("rewrites")
    names = {
        row["old"]: row["new"]
        for row in table["name"]
        if row.get("when", "") in text and rows.at_least(version, row.get("since", "0"))
    }
    notes: dict[str, str] = {}
    if similar:
        for row in rows.table("similar")["similar"]:
            names[row["old"]] = row["new"]
            notes[row["old"]] = row["note"]
    return Rules(
        names,
        {row["old"]: row["new"] for row in table["function"]},
        {row["old"]: row["new"] for row in table["attribute"]},
        {(row["function"], row["old"]): row["new"] for row in table["keyword"]},
        rows.strings(),
        frozenset(table["keep"]["names"]),
        frozenset(table["foreign"]["roots"]),
        frozenset(table["paths"]["functions"]),
        notes=notes,
        import_line=[row["line"] for row in table["import"] if rows.at_least(version, row["since"])][-1],
    )


def with_custom(rules: Rules, custom: Custom | None) -> Rules:
    """The same with the user's rules, which win."""
    if custom is None:
        return rules
    return replace(
        rules,
        names={**rules.names, **custom.modules},
        functions={**rules.functions, **custom.functions},
        args=(*rules.args, *custom.args),
        custom=frozenset(custom.functions),
    )


# ---- the rule file ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Custom:
    """What a rule file asks for."""

    args: Sequence[ArgsRule]
    functions: Mapping[str, str]
    modules: Mapping[str, str]


_KINDS = {
    "ArgsModifyRule": ({"func_name", "arg_idx", "arg_new"}, {"arg_keyword", "white_list"}),
    "FuncNameModifyRule": ({"old_name", "new_name"}, set()),
    "ModuleNameModifyRule": ({"old_name", "new_name"}, {"parent_module"}),
}


def read_custom(path: Path) -> Custom:
    """The rules of a JSON file; every mistake in it is named with its place."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as problem:
        raise MigrateError(
            f"The rule file {path} cannot be read ({problem.strerror}); check the path after -r."
        ) from problem
    except json.JSONDecodeError as problem:
        location = f"line {problem.lineno}, column {problem.colno}"
        raise MigrateError(
            f"The rule file {path} is not valid JSON at {location}: {problem.msg}. Correct it there."
        ) from problem
    except UnicodeDecodeError as problem:
        raise MigrateError(f"The rule file {path} is not UTF-8 text ({problem.reason}); save it as UTF-8.") from problem
    kinds = content.get("rules") if isinstance(content, dict) else None
    if not isinstance(kinds, dict):
        raise MigrateError(
            f'The rule file {path} must be an object with the key "rules" and an object below it; see docs/howto_migrate.md.'
        )
    for kind in kinds:
        if kind not in _KINDS:
            raise MigrateError(
                f"{kind} is not supported customization! The rule file {path} may hold {', '.join(_KINDS)}."
            )
    read = {kind: _entries(path, kind, kinds.get(kind, [])) for kind in _KINDS}
    return Custom(
        [ArgsRule(**entry) for entry in read["ArgsModifyRule"]],
        {entry["old_name"]: entry["new_name"] for entry in read["FuncNameModifyRule"]},
        dict(_module(entry) for entry in read["ModuleNameModifyRule"]),
    )


def _module(entry: dict[str, Any]) -> tuple[str, str]:
    parent = entry.get("parent_module", "")
    prefix = f"{parent}." if parent else ""
    return prefix + entry["old_name"], prefix + entry["new_name"]


def _entries(path: Path, kind: str, entries: Any) -> list[dict[str, Any]]:
    if not isinstance(entries, list):
        raise MigrateError(f"{kind} in {path} must be a list of objects, not {type(entries).__name__}.")
    for number, entry in enumerate(entries):
        _check(f"{kind}[{number}] in {path}", kind, entry)
    return entries


def _check(where: str, kind: str, entry: Any) -> None:
    if not isinstance(entry, dict):
        raise MigrateError(f"{where} must be an object, not {entry!r}.")
    needed, optional = _KINDS[kind]
    if missing := sorted(needed - entry.keys()):
        raise MigrateError(f"{where} lacks {', '.join(missing)}; add it.")
    if unknown := sorted(entry.keys() - needed - optional):
        raise MigrateError(f"{where} has the unknown key {unknown[0]!r}; it may hold {', '.join(needed | optional)}.")
    for key, value in entry.items():
        fits, wanted = _FIELDS[key]
        if not fits(value):
            raise MigrateError(f"{where}: {key} is {value!r}; it must be {wanted}.")


def _dotted(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and all(part.isidentifier() for part in value.split("."))


def _expression(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        compile(f"({value})", "arg_new", "eval")
    except (SyntaxError, ValueError):
        return False
    return True


_NAME = (_dotted, "a name, with dots or without")
_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "func_name": _NAME,
    "old_name": _NAME,
    "new_name": _NAME,
    "parent_module": (lambda value: value == "" or _dotted(value), "the full name of a module"),
    "arg_idx": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        "an integer from 0",
    ),
    "arg_new": (_expression, "the text of a Python expression"),
    "arg_keyword": (lambda value: isinstance(value, str) and value.isidentifier(), "the name of a keyword argument"),
    "white_list": (
        lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
        "a list of texts",
    ),
}
