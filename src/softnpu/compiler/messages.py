"""Messages of atc: an `AtcError` from the row of its code."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.errors import AtcError
from softnpu.spec._generated.atc_errors import ERRORS

_LIMIT = 500  # characters of a value of the user's that a message repeats


def error(code: str, *, cause: str = "", solution: str = "", **fields: Any) -> AtcError:
    """The error of a code; `fields` fill its row, `cause` and `solution` stand instead of the row's."""
    message, usual_cause, usual_solution = ERRORS[code]
    words = {name: _short(str(value)) for name, value in fields.items()}
    return AtcError(
        code,
        message.format(**words),
        cause or usual_cause.format(**words),
        solution or usual_solution.format(**words),
    )


def _short(text: str) -> str:
    return text if len(text) <= _LIMIT else f"{text[: _LIMIT - 20]} … ({len(text)} characters)"
