"""Reading the command line of atc: the rows of `spec/atc_options.toml` say which options there are and of which type."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softnpu.compiler.messages import error
from softnpu.spec._generated.atc_options import OPTIONS
from softnpu.spec._generated.chips import CHIPS

ALIASES = {"Ascend910": "Ascend910A"}
_TENSORFLOW = 3
_TRUE, _FALSE = frozenset({"1", "t", "true", "y", "yes"}), frozenset({"0", "f", "false", "n", "no"})


class UsageError(Exception):
    """A command line that cannot be read; the text is what the parser prints."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True)
class Row:
    """An option as its row describes it."""

    name: str
    group: str
    kind: str
    help: str
    status: str
    metavar: str = ""
    values: Sequence[str] = ()
    default: str = ""
    required: bool = False
    code: str = "E10001"
    file: str = ""
    min: int = 0
    singleop: bool = False
    not_on: Sequence[str] = ()
    deprecated: str = ""
    removed: str = ""
    note: str = ""

    def convert(self, text: str) -> str | int | bool:
        """The value of a text, in the option's type."""
        if self.kind == "b":
            answer = text.strip().lower()
            if answer not in _TRUE and answer not in _FALSE:
                raise error("E10005", parameter=self.name, value=text)
            return answer in _TRUE
        if self.kind not in ("i", "01"):
            return text
        digits = text[1:] if self.min < 0 and text.startswith("-") else text
        if not re.fullmatch("[0-9]{1,10}", digits, re.ASCII) or int(digits) >= 1 << 31:
            raise error("E10003", parameter=self.name, value=text, reason="it is no whole number in plain digits")
        return int(text)


ROWS = {name: Row(**row) for name, row in OPTIONS.items()}


class Options:
    """The options of a run as attributes, with defaults for what was not given."""

    def __init__(self, given: Mapping[str, str | int | bool] | None = None, argv: Sequence[str] = ()) -> None:
        said = dict(given or {})
        unknown = said.keys() - ROWS.keys()
        if unknown:
            raise TypeError(f"atc has no option {sorted(unknown)[0]!r}")
        self.argv = list(argv)
        self._given = frozenset(name for name, value in said.items() if value != "")
        values: dict[str, Any] = {}
        for name, row in ROWS.items():
            blank = not row.default or row.default == "-1"
            values[name] = (-1 if row.kind == "i" else "") if blank else row.convert(row.default)
        self._values = {**values, **said}
        if "input_format" not in self._given:
            usual = "NHWC" if self.framework == _TENSORFLOW else "NCHW"
            self._values["input_format"] = "ND" if self.dynamic_dims else usual

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(f"atc has no option {name!r}") from None

    def given(self, name: str) -> bool:
        """Whether the user gave the option a value."""
        return name in self._given

    @property
    def command_line(self) -> str:
        """The command as it could be typed again."""
        return shlex.join(["atc", *self.argv])

    @property
    def soc(self) -> str:
        """The chip, with aliases resolved."""
        return ALIASES.get(self.soc_version, str(self.soc_version))

    @property
    def chip(self) -> dict[str, Any]:
        """The row of the chip; empty while none was chosen."""
        return CHIPS.get(self.soc, {})


# ---- the command line ------------------------------------------------------------------------------------------------


def parse(argv: Sequence[str]) -> Options:
    """Options from the words behind `atc`; raises UsageError for the words and AtcError for a value of the wrong type."""
    values: dict[str, str | int | bool] = {}
    queue = list(argv)
    while queue:
        argument = queue.pop(0)
        name, has_value, value = _split(argument)
        row = ROWS.get(name)
        if row is None:
            raise UsageError(_unknown(name))
        if not has_value:
            if not queue or _is_option(queue[0]):
                raise UsageError(f"ERROR: flag '{name}' is missing its argument; flag description: {row.help}")
            value = queue.pop(0)
        values[name] = row.convert(value) if value else ""
    for name in [name for name, value in values.items() if value == ""]:
        del values[name]
    return Options(values, argv)


def _split(argument: str) -> tuple[str, str, str]:
    name, has_value, value = argument.partition("=")
    bare = name.removeprefix("-").removeprefix("-")
    if not name.startswith("-") or not bare:
        raise UsageError(f"ERROR: Non-option parameter: {argument}")
    return bare.replace("-", "_"), has_value, value


def _is_option(argument: str) -> bool:
    return argument.startswith("--") and argument[2:].partition("=")[0].replace("-", "_") in ROWS


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name, ROWS, 2, 0.6)
    hint = f"\nDid you mean {' or '.join(f'--{option}' for option in close)}?" if close else ""
    return f"ERROR: unknown command line flag '{name}'{hint}"
