"""JSON files that a program points at: hostile until parsed. Every text names the file, the key and the value."""

from __future__ import annotations

import json
from typing import Any, NoReturn, TypeVar

from softnpu.base.errors import NpuError
from softnpu.flow import codes, log
from softnpu.flow.errors import DfException

T = TypeVar("T")
_WORDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
_SHOWN = 80


class Item:
    """One object of a file, with where it is, so that a complaint can say so."""

    def __init__(self, values: dict[str, Any], path: str, where: str = "") -> None:
        self.values = values
        self.path = path
        self.where = where

    def fail(self, key: str, what: str) -> NoReturn:
        """Refuse the file because of this key."""
        where = f"{self.where}.{key}" if self.where and key else self.where or key or "the file"
        raise DfException(f"{self.path}: {where} {what}", codes.PARAM_INVALID)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self.values

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """A value of this type; required unless there is a default."""
        if key not in self.values:
            if default is None:
                self.fail(key, f"is missing; add it with {_WORDS[kind]}")
            return default
        return self._typed(key, self.values[key], kind)

    def number(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in a range."""
        value = self.get(key, int, default)
        if not low <= value <= high:
            self.fail(key, f"is {show(value)}; use {low} to {high}")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts, at least one."""
        values = self.get(key, list)
        if not values:
            self.fail(key, "is empty; list at least one name")
        return [self._typed(f"{key}[{number}]", value, str) for number, value in enumerate(values)]

    def numbers(self, key: str) -> list[int]:
        """A list of whole numbers."""
        return [self._typed(f"{key}[{number}]", value, int) for number, value in enumerate(self.get(key, list))]

    def objects(self, key: str, most: int = 65535) -> list[Item]:
        """A list of objects; empty when the key is not there."""
        values = self.get(key, list, [])
        if len(values) > most:
            self.fail(key, f"has {len(values)} entries; at most {most} are allowed")
        return [self._child(f"{key}[{number}]", value) for number, value in enumerate(values)]

    def object(self, key: str) -> Item:
        """An object; an empty one when the key is not there."""
        return self._child(key, self.values.get(key, {}))

    def note_unknown(self, known: tuple[str, ...]) -> None:
        """Say which keys mean nothing here; newer files may have more than we know."""
        others = sorted(self.values.keys() - set(known))
        if others:
            text = "%s: %s mean nothing here and are ignored; known keys are %s"
            log.warning(text, self.path, show(others), ", ".join(known))

    def _child(self, key: str, value: Any) -> Item:
        where = f"{self.where}.{key}" if self.where else key
        return Item(self._typed(key, value, dict), self.path, where)

    def _typed(self, key: str, value: Any, kind: type[T]) -> T:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"is {show(value)}; write {_WORDS[kind]}")
        return value


def show(value: object) -> str:
    """A value of a file in a message, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read(path: str) -> Item:
    """The object that a file holds; DfException 145000 for anything else."""
    from softnpu.runtime.init_config import read_json  # 1 ms, for programs with a deployment file or a project

    try:
        return Item(read_json(path), path)
    except NpuError as error:
        raise DfException(f"{error.text}; {error.remedy}", codes.PARAM_INVALID) from error
