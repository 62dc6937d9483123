"""Dictionaries of `acl.himpi` as the binding reads and writes them: C structures with Python's names.

A structure is declared once, as a field for each key:

    PIC = Struct("pic info", picture_address="ptr", picture_width="u32", picture_format="i32", reserved="i32[4]")
    REGION = Struct("region", dest_pic_info=PIC, crop_region=CROP)
    LINES = Struct("lines", count="u32", line=[LINE, 100])          # at most 100 of them

Rules of reading: a missing key is 0, a scalar of a wrong type is 0, a nested value that is no
dict raises TypeError, a number too large for its field and a list that is too long raise ValueError, other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from softnpu.base.errors import NpuError, Raise

Fields = Any  # a SimpleNamespace with an attribute for each key
_RANGES = {
    kind: (0 if kind[0] == "u" else -(1 << int(kind[1:]) - 1), (1 << int(kind[1:]) - (kind[0] != "u")) - 1)
    for kind in ("u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64")
}
_RANGES["ptr"] = _RANGES["u64"]
_RANGES["bool"] = _RANGES["i32"]


class Struct:
    """A C structure: its keys in order. A field is a scalar type, a scalar array `u32[4]`, a Struct or `[Struct, most]`.

    `required` names keys without which the binding raises (TypeError when the key is missing, ValueError when the list is
    not exactly as long as the array).
    """

    def __init__(self, struct_name: str, /, required: tuple[str, ...] = (), **fields: Any) -> None:
        self.name = struct_name
        self.required = frozenset(required)
        self.fields: dict[str, Any] = {key: _field(kind) for key, kind in fields.items()}

    def read(self, dictionary: Any) -> Fields:
        """The values of a dict of the program."""
        if not isinstance(dictionary, dict):
            raise Raise(TypeError(f"{self.name} must be a dict, not {type(dictionary).__name__}"))
        values = {}
        for key, field in self.fields.items():
            if key in self.required and key not in dictionary:
                raise Raise(TypeError(f"{self.name} lacks the key {key!r}"))
            values[key] = field.read(key, dictionary.get(key), key in self.required)
        return SimpleNamespace(**values)

    def blank(self) -> Fields:
        """The values of an empty dict."""
        return SimpleNamespace(**{key: field.zero() for key, field in self.fields.items()})

    def write(self, values: Fields) -> dict[str, Any]:
        """A fresh dict with every key."""
        return {key: field.write(getattr(values, key)) for key, field in self.fields.items()}

    def zeros(self) -> dict[str, Any]:
        """A fresh dict with every key, all 0: what a failed call hands out."""
        return self.write(self.blank())


class _Scalar:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_float = kind[0] == "f"

    def zero(self) -> Any:
        return 0.0 if self.is_float else 0

    def read(self, key: str, value: Any, _required: bool = False) -> Any:
        if self.is_float:
            return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
        if not isinstance(value, int):
            return 0
        low, high = _RANGES[self.kind]
        if low == 0 and -high <= value < 0:
            return value & high  # as C converts it
        if not low <= value <= high:
            raise Raise(ValueError(f"{key} is {value}, which does not fit its {self.kind} field"))
        return int(value)

    def write(self, value: Any) -> Any:
        return value


class _Array:
    def __init__(self, kind: str, length: int) -> None:
        self.item = _Scalar(kind)
        self.length = length

    def zero(self) -> list[Any]:
        return [self.item.zero()] * self.length

    def read(self, key: str, value: Any, required: bool = False) -> list[Any]:
        if not isinstance(value, list | tuple):
            if required:
                raise Raise(TypeError(f"{key} must be a list of {self.length} values"))
            return self.zero()
        if required and len(value) != self.length:
            raise Raise(ValueError(f"{key} has {len(value)} values, it must have exactly {self.length}"))
        if len(value) > self.length:
            raise Raise(ValueError(f"{key} has {len(value)} values, the maximum is {self.length}"))
        read = [self.item.read(key, item) for item in value]
        return read + [self.item.zero()] * (self.length - len(read))

    def write(self, value: Any) -> list[Any]:
        return list(value)


class _Nested:
    def __init__(self, struct: Struct) -> None:
        self.struct = struct

    def zero(self) -> Fields:
        return self.struct.blank()

    def read(self, key: str, value: Any, _required: bool = False) -> Fields:
        if value is None:
            return self.struct.blank()
        if not isinstance(value, dict):
            raise Raise(TypeError(f"{key} must be a dict, not {type(value).__name__}"))
        return self.struct.read(value)

    def write(self, value: Any) -> dict[str, Any]:
        return self.struct.write(value)


class _List:
    def __init__(self, struct: Struct, most: int) -> None:
        self.struct = struct
        self.most = most

    def zero(self) -> list[Fields]:
        return []

    def read(self, key: str, value: Any, required: bool = False) -> list[Fields]:
        if value is None and not required:
            return []
        if not isinstance(value, list | tuple):
            raise Raise(TypeError(f"{key} must be a list of dicts"))
        if len(value) > self.most:
            raise Raise(ValueError(f"{key} has {len(value)} entries, the maximum is {self.most}"))
        return [self.struct.read(entry) for entry in value]

    def write(self, value: Any) -> list[dict[str, Any]]:
        return [self.struct.write(entry) for entry in value]


def _field(kind: Any) -> _Scalar | _Array | _Nested | _List:
    if isinstance(kind, Struct):
        return _Nested(kind)
    if isinstance(kind, list):
        return _List(*kind)
    name, _, length = kind.partition("[")
    return _Array(name, int(length.rstrip("]"))) if length else _Scalar(name)


# ---- around a call ---------------------------------------------------------------------------------------------------


def written(struct: Struct, make: Callable[[], Fields]) -> dict[str, Any]:
    """The dictionary of what `make` gives; a failure hands out one that is all 0."""
    try:
        return struct.write(make())
    except NpuError as error:
        error.values = (struct.zeros(),)
        raise


def same_count(count: int, items: list[Any], noun: str) -> None:
    """The binding itself compares a count with the list it counts."""
    if count != len(items):
        raise Raise(TypeError(f"the count is {count}, the list of {noun} has {len(items)} entries"))


def read_all(struct: Struct, items: list[Any]) -> list[Any]:
    """The values of a list of dicts."""
    return [struct.read(item) for item in items]
