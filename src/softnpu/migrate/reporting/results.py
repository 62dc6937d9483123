"""What a run found and did, for the reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from softnpu.migrate.reading.findings import Finding
from softnpu.migrate.rewriting.edits import Change


@dataclass
class FileResult:
    """One Python file; the texts are empty where nothing changed."""

    path: str
    changes: Sequence[Change] = ()
    findings: Sequence[Finding] = ()
    warnings: Sequence[str] = ()
    error: str = ""
    before: str = ""
    after: str = ""

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def unsupported(self) -> list[Finding]:
        """Findings that may stop a program; advice about speed and precision is listed elsewhere."""
        return [finding for finding in self.findings if finding.row.kind == "unsupported"]


@dataclass
class Summary:
    """A whole run."""

    name: str
    target: str
    files: list[FileResult] = field(default_factory=list)
    others: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)
    lost: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def changed(self) -> int:
        return sum(file.changed for file in self.files)

    @property
    def changes(self) -> int:
        return sum(len(file.changes) for file in self.files)

    @property
    def unsupported(self) -> int:
        return sum(len(file.unsupported) for file in self.files)

    @property
    def failed(self) -> int:
        return sum(bool(file.error) for file in self.files)

    def sentence(self) -> str:
        """The run in one line."""
        return (
            f"{len(self.files)} Python files: {self.changed} changed in {self.changes} places, {self.failed} could not be read "
            f"and stay as they are; {self.unsupported} uses of unsupported interfaces; {self.others} other files."
        )
