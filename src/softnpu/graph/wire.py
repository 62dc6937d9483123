"""Protocol-buffer messages from field numbers: the wire format, driven by small tables instead of generated code.

One codec serves every format we must read (`.om`, Caffe, TensorFlow). Input is hostile until decoded: lengths are
checked before anything is sliced, nesting and the number of values are bounded, and what is wrong raises `WireError`
with its byte offset. Fields that a table does not name are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

MAX_DEPTH = 100
MAX_VALUES = 50_000_000
_VARINT, _FIXED64, _BYTES, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_WIRE_TYPES = {
    "int32": _VARINT, "int64": _VARINT, "uint32": _VARINT, "uint64": _VARINT, "bool": _VARINT, "enum": _VARINT,
    "float": _FIXED32, "double": _FIXED64, "string": _BYTES, "bytes": _BYTES,
}  # fmt: skip
_SIGNED = frozenset({"int32", "int64", "enum"})
_M64 = (1 << 64) - 1
Piece = bytes | memoryview


class WireError(ValueError):
    """Bytes that are no message of the expected kind."""


@dataclass(frozen=True)
class Field:
    """One field of a message: number, kind (a scalar word, "enum", "message" or "map"), whether it repeats."""

    number: int
    name: str
    kind: str
    repeated: bool = False
    message: Message | None = None
    words: Mapping[str, int] | None = None  # names of an enum's values, for the text format

    @cached_property
    def packs(self) -> bool:
        """Whether repeated values stand together in one field."""
        return self.kind in _WIRE_TYPES and _WIRE_TYPES[self.kind] != _BYTES

    @cached_property
    def tag(self) -> bytes:
        """What stands before a value on the wire."""
        wire = _BYTES if self.kind in ("message", "map") or (self.repeated and self.packs) else _WIRE_TYPES[self.kind]
        return _write_varint(self.number << 3 | wire)


@dataclass(eq=False)
class Message:
    """The table of a message. Fields can be added after the fact, since messages may contain themselves."""

    name: str
    fields: dict[int, Field] = field(default_factory=dict)
    by_name: dict[str, Field] = field(default_factory=dict)

    def add(self, **fields: tuple[Any, ...]) -> Message:
        """Name fields: `x=(1, "int64")`, `x=(2, "string", True)` repeated, `x=(3, OTHER)` a message, `x=(4, "map", OTHER)`,
        `x=(5, {"A": 0})` an enum with the names of its values."""
        for name, (number, kind, *rest) in fields.items():
            repeated = bool(rest and rest[0])
            if kind == "map":
                new_field = Field(number, name, "map", True, rest[0])
            elif isinstance(kind, Message):
                new_field = Field(number, name, "message", repeated, kind)
            elif isinstance(kind, Mapping):
                new_field = Field(number, name, "enum", repeated, words=kind)
            else:
                new_field = Field(number, name, kind, repeated)
            self.fields[number] = self.by_name[name] = new_field
        return self


# ---- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.values = 0

    def count(self, more: int, at: int) -> None:
        """Bound the number of decoded values, since a byte of input becomes many bytes of objects."""
        self.values += more
        if self.values > MAX_VALUES:
            raise WireError(f"more than {MAX_VALUES} values, at byte {at}")

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number and the place after it."""
        data = self.data
        value = shift = 0
        while at < end:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _M64, at
            shift += 7
            if shift > 63:
                break
        raise WireError(f"a number is cut off or too long at byte {at}")

    def message(self, table: Message, at: int, end: int, depth: int) -> dict[str, Any]:
        """The fields of a message between two places."""
        if depth > MAX_DEPTH:
            raise WireError(f"messages nest deeper than {MAX_DEPTH}, at byte {at}")
        content: dict[str, Any] = {}
        fields = table.fields
        while at < end:
            tag, at = self.varint(at, end)
            known = fields.get(tag >> 3)
            wire = tag & 7
            if wire == _BYTES:
                size, at = self.varint(at, end)
                if size > end - at:
                    raise WireError(f"a field of {size} bytes reaches past the end of {table.name}, at byte {at}")
                if known is not None:
                    self._take_bytes(content, known, at, at + size, depth)
                at += size
                continue
            value, at = self._scalar(wire, at, end)
            if known is not None:
                self._keep(content, known, _convert(known, wire, value, at))
        return content

    def _scalar(self, wire: int, at: int, end: int) -> tuple[Any, int]:
        if wire == _VARINT:
            return self.varint(at, end)
        size = {_FIXED64: 8, _FIXED32: 4}.get(wire)
        if size is None:
            raise WireError(f"wire type {wire} is not possible, at byte {at}")
        if size > end - at:
            raise WireError(f"a fixed field is cut off at byte {at}")
        return self.data[at : at + size], at + size

    def _take_bytes(self, content: dict[str, Any], known: Field, at: int, end: int, depth: int) -> None:
        kind = known.kind
        if kind == "message":
            assert known.message is not None
            self._keep(content, known, self.message(known.message, at, end, depth + 1))
        elif kind == "map":
            assert known.message is not None
            entry = self.message(_entry_of(known.message), at, end, depth + 1)
            self.count(1, at)
            content.setdefault(known.name, {})[entry.get("key", "")] = entry.get("value", {})
        elif kind == "string":
            try:
                self._keep(content, known, str(self.data[at:end], "utf-8"))
            except UnicodeDecodeError as error:
                raise WireError(f"{known.name} is not UTF-8 at byte {at}") from error
        elif kind == "bytes":
            self._keep(content, known, self.data[at:end])
        elif known.repeated:
            values = content.setdefault(known.name, [])
            values += self._packed(known, at, end)
        else:
            raise WireError(f"{known.name} is a {kind} and not a string of bytes, at byte {at}")

    def _packed(self, known: Field, at: int, end: int) -> list[Any]:
        wire = _WIRE_TYPES[known.kind]
        if wire == _VARINT:
            values = []
            while at < end:
                value, at = self.varint(at, end)
                self.count(1, at)
                values.append(_convert(known, wire, value, at))
            return values
        size = 8 if wire == _FIXED64 else 4
        if (end - at) % size:
            raise WireError(f"{known.name} holds no whole number of values, at byte {at}")
        self.count((end - at) // size, at)
        return list(struct.unpack(f"<{(end - at) // size}{'d' if size == 8 else 'f'}", self.data[at:end]))

    def _keep(self, content: dict[str, Any], known: Field, value: Any) -> None:
        self.count(1, 0)
        if known.repeated:
            content.setdefault(known.name, []).append(value)
        elif known.kind == "message" and known.name in content:
            _merge(content[known.name], value)  # the wire format merges a message that is given in parts
        else:
            content[known.name] = value


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """Add a message to another as the wire format does: lists grow, messages merge, the last scalar counts."""
    for key, value in more.items():
        old = into.get(key)
        if isinstance(old, list):
            old += value
        elif isinstance(old, dict):
            _merge(old, value)
        else:
            into[key] = value


def _convert(known: Field, wire: int, value: Any, at: int) -> Any:
    if _WIRE_TYPES.get(known.kind) != wire:
        raise WireError(f"{known.name} is not a {known.kind} on the wire, before byte {at}")
    if wire == _FIXED32:
        return struct.unpack("<f", value)[0]
    if wire == _FIXED64:
        return struct.unpack("<d", value)[0]
    if known.kind == "bool":
        return bool(value)
    if known.kind in _SIGNED and value >> 63:
        return value - (1 << 64)
    return value & 0xFFFFFFFF if known.kind == "uint32" else value


_entries: dict[int, Message] = {}


def _entry_of(value: Message) -> Message:
    entry = _entries.get(id(value))
    if entry is None:
        entry = _entries[id(value)] = Message(f"{value.name} entry").add(key=(1, "string"), value=(2, value))
    return entry


def decode(table: Message, data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """A message as a dictionary; absent fields are absent, `bytes` fields are views of the input."""
    view = memoryview(data).cast("B")
    return _Reader(view).message(table, 0, len(view), 0)


# ---- writing ---------------------------------------------------------------------------------------------------------


_ONE_BYTE = [bytes([value]) for value in range(128)]


def _write_varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    value &= _M64
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _write_scalar(kind: str, value: Any) -> bytes:
    if kind == "float":
        return struct.pack("<f", value)
    if kind == "double":
        return struct.pack("<d", value)
    return _write_varint(int(value))


def _append(table: Message, message: Mapping[str, Any], parts: list[Piece]) -> None:
    """Add the pieces of a message to a list."""
    for name, value in message.items():
        known = table.by_name[name]
        kind = known.kind
        if kind == "map":
            assert known.message is not None
            entry = _entry_of(known.message)
            for key, item in value.items():
                _append_sized(known.tag, encode(entry, {"key": key, "value": item}), parts)
        elif not known.repeated:
            _append_one(known, kind, value, parts)
        elif known.packs:
            if value:
                _append_sized(known.tag, b"".join([_write_scalar(kind, item) for item in value]), parts)
        else:
            for item in value:
                _append_one(known, kind, item, parts)


def _append_one(known: Field, kind: str, value: Any, parts: list[Piece]) -> None:
    if kind == "message":
        if not isinstance(value, bytes):  # bytes are a message that was encoded before
            assert known.message is not None
            value = encode(known.message, value)
        _append_sized(known.tag, value, parts)
    elif kind == "string":
        _append_sized(known.tag, value.encode("utf-8"), parts)
    elif kind == "bytes":
        _append_sized(known.tag, value, parts)
    else:
        parts.append(known.tag)
        parts.append(_write_scalar(kind, value))


def _append_sized(tag: bytes, data: Piece, parts: list[Piece]) -> None:
    parts.append(tag)
    parts.append(_write_varint(len(data)))
    parts.append(data)


def sized_field(number: int, data: Piece) -> bytes:
    """A field that is a message or a string, already encoded."""
    return b"".join([_write_varint(number << 3 | _BYTES), _write_varint(len(data)), data])


def encode(table: Message, message: Mapping[str, Any]) -> bytes:
    """The bytes of a message given as a dictionary; keys must be fields of the table. A field that is a message may also be
    given as its bytes."""
    parts: list[Piece] = []
    _append(table, message, parts)
    return b"".join(parts)
