"""The failure of a conversion, with atc's code."""

from __future__ import annotations


class AtcError(Exception):
    """A conversion that cannot go on: atc's code (`E10001` …), what is wrong with which value, why, and what to do."""

    def __init__(self, code: str, message: str, cause: str = "", solution: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.cause = cause
        self.solution = solution

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"
