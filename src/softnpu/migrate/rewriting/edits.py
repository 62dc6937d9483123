"""Edits of a source text: collected as byte spans, applied together. What no edit names stays byte for byte."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

Operation = Literal["INSERT", "MODIFY", "DELETE"]


@dataclass(frozen=True)
class Edit:
    """Replace the bytes from start to end; `message` is what the reports say about it."""

    start: int
    end: int
    new: str
    message: str

    @property
    def operation(self) -> Operation:
        if self.start == self.end:
            return "INSERT"
        return "MODIFY" if self.new else "DELETE"


@dataclass(frozen=True)
class Change:
    """A row of the change list; lines are those of the original, counted from 1."""

    start_line: int
    end_line: int
    operation: Operation
    message: str


@dataclass
class EditList:
    """The edits of one file."""

    text: bytes
    edits: list[Edit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._known = set(self.edits)
        self._lines = [0, *(offset + 1 for offset, byte in enumerate(self.text) if byte == 10)]

    def add(self, start: int, end: int, new: str, message: str) -> None:
        """Note an edit unless it would change nothing or was noted before."""
        edit = Edit(start, end, new, message)
        if self.text[start:end] != new.encode() and edit not in self._known:
            self._known.add(edit)
            self.edits.append(edit)

    def line(self, offset: int) -> int:
        return bisect_right(self._lines, offset)

    def line_start(self, offset: int) -> int:
        return self._lines[self.line(offset) - 1]

    def kept(self) -> list[Edit]:
        """The edits in their order; of two that overlap, the larger one stays."""
        chosen: list[Edit] = []
        for edit in sorted(self.edits, key=lambda item: (item.start, item.end != item.start, -item.end)):
            last = chosen[-1] if chosen else None
            if last and edit.start < last.end:
                if edit.end - edit.start > last.end - last.start:
                    chosen[-1] = edit
                continue
            chosen.append(edit)
        return chosen

    def apply(self) -> bytes:
        """The new text."""
        parts, done = [], 0
        for edit in self.kept():
            parts += [self.text[done : edit.start], edit.new.encode()]
            done = edit.end
        return b"".join([*parts, self.text[done:]])

    def changes(self) -> list[Change]:
        """The change list of this file."""
        rows = []
        for edit in self.kept():
            last = max(edit.start, edit.end - 1)
            rows.append(Change(self.line(edit.start), self.line(last), edit.operation, edit.message))
        return rows
