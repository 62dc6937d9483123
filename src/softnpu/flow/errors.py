"""The exceptions of DataFlow; the face `dataflow` hands them out under its own name."""

from __future__ import annotations

from typing import Any

from softnpu.flow import codes


class DfException(Exception):
    """A failure with its documented number; survives the way between two processes."""

    def __init__(self, obj: object, error_code: int | None = None) -> None:
        super().__init__()
        self.message = str(obj)
        self.error_code = codes.PARAM_INVALID if error_code is None else error_code

    def __str__(self) -> str:
        return f"DfException:{self.error_code}:{self.message}"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.error_code)


class DfAbortException(DfException):
    """The graph is going away or is being set up again: a blocked `get` ends with this."""


class DfTypeError(DfException, TypeError):
    """A wrong type that the manual calls TypeError and the real layer DfException: it is both."""
