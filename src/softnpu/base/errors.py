"""The one exception of the core. Core code raises it, each face translates it in its own manner."""

from __future__ import annotations

from typing import Any

from softnpu.spec.tables import codes

__all__ = ["NpuError", "codes", "describe", "message_family"]


class NpuError(RuntimeError):
    """A failure with its documented code: what was wrong with which value, and what to do next."""

    def __init__(
        self, code: int, text: str, remedy: str = "", family: str = "", values: tuple[Any, ...] | None = None
    ) -> None:
        super().__init__(text)
        self.values = values  # what a face hands out beside the code, where that is not its usual value of a failure
        self.code = code
        self.text = text
        self.remedy = remedy
        self.family = family or message_family(code)

    def __str__(self) -> str:
        return f"{describe(self.code)}: {self.text}"


def describe(code: int) -> str:
    """Name and number of a code: `ACL_ERROR_RT_PARAM_INVALID (107000)`."""
    row = codes.TABLE.get(code)
    return f"{row[0]} ({code})" if row else f"error {code}"


def message_family(code: int) -> str:
    """The message code (EH0001, EE1001, …) under which `get_recent_err_msg` reports an error code."""
    row = codes.TABLE.get(code)
    return row[2] if row and row[2] else "E19999"
