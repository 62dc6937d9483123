"""The text form of messages (prototxt, AIPP configurations), read by the same tables as the wire form.

A mistake raises `TextError` with line and column. Nesting is bounded; unknown fields are refused, or skipped where the
writer of a file may know more fields than we do.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

from softnpu.graph.wire import MAX_DEPTH, Field, Message

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+|\#[^\n]*)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?))
      | (?P<word>-?[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<mark>[{}<>\[\]:;,])""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_TRUE, _FALSE = frozenset({"true", "True", "t", "1"}), frozenset({"false", "False", "f", "0"})
_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "uint64": (0, (1 << 64) - 1),
    "enum": (-(1 << 31), (1 << 31) - 1),
}
_CLOSING = {"{": "}", "<": ">"}


@functools.cache
def _entry(known: Field) -> Message:
    """The message that an entry of a map is."""
    return Message("Entry").add(key=(1, "string"), value=(2, known.message))


class TextError(ValueError):
    """Text that is no message of the expected kind; says where."""


class _Parser:
    def __init__(self, text: str, skip_unknown: bool) -> None:
        self.text = text
        self.skip_unknown = skip_unknown
        self.at = 0
        self.kind = self.value = ""
        self.begin = 0
        self.advance()

    def error(self, what: str) -> TextError:
        """An error at the current token."""
        line = self.text.count("\n", 0, self.begin) + 1
        column = self.begin - (self.text.rfind("\n", 0, self.begin) + 1) + 1
        return TextError(f"line {line}, column {column}: {what}")

    def advance(self) -> None:
        """Go to the next token; at the end its kind is "end"."""
        while True:
            self.begin = self.at
            if self.at >= len(self.text):
                self.kind, self.value = "end", ""
                return
            match = _TOKEN.match(self.text, self.at)
            if match is None:
                raise self.error(f"{self.text[self.at]!r} is not expected")
            self.at = match.end()
            if match.lastgroup != "space":
                self.kind, self.value = str(match.lastgroup), match.group()
                return

    def accept(self, mark: str) -> bool:
        """Take a mark if it is there."""
        if self.kind == "mark" and self.value == mark:
            self.advance()
            return True
        return False

    def message(self, table: Message | None, closing: str, depth: int) -> dict[str, Any]:
        """Fields up to a closing mark ("" for the end of the text); without a table they are read and thrown away."""
        if depth > MAX_DEPTH:
            raise self.error(f"messages nest deeper than {MAX_DEPTH}")
        content: dict[str, Any] = {}
        while not (self.kind == "end" if not closing else self.kind == "mark" and self.value == closing):
            if self.kind != "word":
                wanted = f"a field name or {closing!r}" if closing else "a field name"
                raise self.error(f"{self.value or 'the end of the text'!r} stands where {wanted} belongs")
            name = self.value
            known = table.by_name.get(name) if table is not None else None
            if known is None and table is not None and not self.skip_unknown:
                raise self.error(f"{table.name} has no field {name!r}")
            self.advance()
            self.field(content, known, depth)
            if not self.accept(","):
                self.accept(";")
        self.advance()
        return content

    def field(self, content: dict[str, Any], known: Field | None, depth: int) -> None:
        """The value or values after a field's name."""
        colon = self.accept(":")
        if self.accept("["):
            if known is not None and not known.repeated:
                raise self.error(f"{known.name} takes one value, not a list")
            while not self.accept("]"):
                self.single(content, known, depth)
                if not self.accept(",") and not (self.kind == "mark" and self.value == "]"):
                    raise self.error("a list needs , or ]")
            return
        if not colon and not (self.kind == "mark" and self.value in _CLOSING):
            raise self.error("a field needs : or {")
        self.single(content, known, depth)

    def single(self, content: dict[str, Any], known: Field | None, depth: int) -> None:
        """One value: a message or a scalar."""
        if self.kind == "mark" and self.value in _CLOSING:
            closing = _CLOSING[self.value]
            if known is not None and known.kind not in ("message", "map"):
                raise self.error(f"{known.name} is a {known.kind} and not a message")
            self.advance()
            if known is not None and known.kind == "map":
                entry = self.message(_entry(known), closing, depth + 1)
                content.setdefault(known.name, {})[entry.get("key", "")] = entry.get("value", {})
                return
            value: Any = self.message(known.message if known is not None else None, closing, depth + 1)
        else:
            if known is not None and known.kind in ("message", "map"):
                raise self.error(f"{known.name} is a message and needs {{")
            value = self.scalar(known)
        if known is None:
            return
        if known.repeated:
            content.setdefault(known.name, []).append(value)
        elif known.name in content:
            raise self.error(f"{known.name} is given twice")
        else:
            content[known.name] = value

    def scalar(self, known: Field | None) -> Any:
        """A number, word or string, as the field wants it."""
        kind, value = self.kind, self.value
        if kind == "string":
            text = ""
            while self.kind == "string":  # neighbouring strings are one
                text += self.value[1:-1]
                self.advance()
            if known is None:
                return text
            if known.kind not in ("string", "bytes"):
                raise self.error(f"{known.name} is a {known.kind} and not a string")
            data = _unescape(text)
            return data if known.kind == "bytes" else data.decode("utf-8", "replace")
        if kind not in ("number", "word"):
            raise self.error("a value is missing")
        converted = self.convert(known, value) if known is not None else value
        self.advance()
        return converted

    def convert(self, known: Field, value: str) -> Any:
        """A number or word for a field."""
        if known.kind == "bool":
            if value in _TRUE or value in _FALSE:
                return value in _TRUE
            raise self.error(f"{known.name} must be true or false, not {value!r}")
        if known.kind in ("float", "double"):
            return self.real(known, value)
        if known.kind not in _RANGES:
            raise self.error(f"{known.name} is a {known.kind} and needs quotes")
        if known.words is not None and value in known.words:
            return known.words[value]
        try:
            number = int(value, 8 if re.fullmatch(r"-?0[0-7]+", value) else 0)
        except ValueError:
            expected = f"one of {', '.join(known.words)}" if known.words else "a whole number"
            raise self.error(f"{known.name} must be {expected}, not {value!r}") from None
        low, high = _RANGES[known.kind]
        if not low <= number <= high or (known.words is not None and number not in known.words.values()):
            raise self.error(f"{known.name} cannot be {value}")
        return number

    def real(self, known: Field, value: str) -> float:
        """A floating-point number."""
        text = value.lower()
        named = {
            "inf": math.inf,
            "infinity": math.inf,
            "-inf": -math.inf,
            "-infinity": -math.inf,
            "nan": math.nan,
            "-nan": math.nan,
        }
        if text in named:
            return named[text]
        try:
            return float(int(text, 0)) if "x" in text else float(text.rstrip("f"))
        except (ValueError, OverflowError):
            raise self.error(f"{known.name} must be a number, not {value!r}") from None


def _unescape(text: str) -> bytes:
    """The bytes of a string literal: octal and hex escapes are bytes, the rest is UTF-8."""
    data = bytearray()
    end = 0
    for match in _ESCAPE.finditer(text):
        data += text[end : match.start()].encode("utf-8")
        octal, hexadecimal, plain = match.groups()
        if octal is not None:
            data.append(int(octal, 8) & 0xFF)
        elif hexadecimal is not None:
            data.append(int(hexadecimal, 16))
        else:
            data += _PLAIN.get(plain, plain).encode("utf-8")
        end = match.end()
    return bytes(data + text[end:].encode("utf-8"))


def parse(table: Message, text: str, skip_unknown: bool = False) -> dict[str, Any]:
    """A message from its text form, in the shape that `wire.decode` gives."""
    return _Parser(text, skip_unknown).message(table, "", 0)


# ---- writing ---------------------------------------------------------------------------------------------------------


def render(table: Message, message: Mapping[str, Any]) -> str:
    """The text form of a message given as a dictionary."""
    lines: list[str] = []
    _render(table, message, "", lines)
    return "\n".join(lines) + "\n" if lines else ""


def _render(table: Message, message: Mapping[str, Any], indent: str, lines: list[str]) -> None:
    for name, value in message.items():
        known = table.by_name[name]
        if known.kind == "map":
            assert known.message is not None
            for key, item in value.items():
                lines.append(f"{indent}{name} {{")
                lines.append(f'{indent}  key: "{_escape(key.encode())}"')
                lines.append(f"{indent}  value {{")
                _render(known.message, item, indent + "    ", lines)
                lines += [f"{indent}  }}", f"{indent}}}"]
            continue
        for item in value if known.repeated else (value,):
            if known.kind == "message":
                assert known.message is not None
                lines.append(f"{indent}{name} {{")
                _render(known.message, item, indent + "  ", lines)
                lines.append(f"{indent}}}")
            else:
                lines.append(f"{indent}{name}: {_scalar_text(known, item)}")


def _scalar_text(known: Field, value: Any) -> str:
    if known.kind == "bool":
        return "true" if value else "false"
    if known.kind == "string":
        return f'"{_escape(value.encode("utf-8"))}"'
    if known.kind == "bytes":
        return f'"{_escape(bytes(value))}"'
    if known.kind in ("float", "double"):
        return repr(float(value))
    return str(int(value))


def _escape(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:03o}" for byte in data)
