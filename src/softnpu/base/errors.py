"""The one exception of the core. Core code raises it, each face translates it in its own manner."""

from __future__ import annotations

from typing import Any

from softnpu.spec._generated import codes
from softnpu.spec._generated.himpi_errors import ERRORS as HIMPI_ERRORS
from softnpu.spec._generated.himpi_errors import MODULES as HIMPI_MODULES

__all__ = ["HIMPI_MODULES", "NpuError", "Raise", "as_himpi", "codes", "describe", "himpi_code", "message_family"]


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


class Raise(Exception):
    """Carries an exception that the binding itself raises (a TypeError, ValueError …) out to the program."""

    def __init__(self, exception: Exception) -> None:
        super().__init__(exception)
        self.exception = exception


_HIMPI_FIRST = 0xA0000000
# What an aclError of the core is called by the second media interface.
_HIMPI_OF_ACL = {
    codes.INVALID_PARAM: 0x03, codes.RT_PARAM_INVALID: 0x03, codes.API_NOT_SUPPORT: 0x08, codes.FEATURE_UNSUPPORTED: 0x08,
    codes.BAD_ALLOC: 0x0C, codes.RT_MEMORY_ALLOCATION: 0x0C, codes.MEMORY_ADDRESS_UNALIGNED: 0x03, codes.UNINITIALIZE: 0x10,
    codes.RT_CONTEXT_NULL: 0x10, codes.RT_INVALID_DEVICEID: 0x01,
}  # fmt: skip


def himpi_code(module: str, error: int) -> int:
    """A return code of `acl.himpi`: `himpi_code("vpc", 0x03)` is 0xA0078003."""
    return _HIMPI_FIRST | HIMPI_MODULES[module] << 16 | 0x8000 | error


def as_himpi(error: NpuError, module: str) -> NpuError:
    """The same failure with its code in the numbering of `acl.himpi`."""
    if error.code >= _HIMPI_FIRST:
        return error
    code = himpi_code(module, _HIMPI_OF_ACL.get(error.code, 0x15))
    return NpuError(code, error.text, error.remedy, values=error.values)


def _describe_himpi(code: int) -> str:
    names = {number: name for name, number in HIMPI_MODULES.items()}
    module, row = names.get(code >> 16 & 0xFFF, ""), HIMPI_ERRORS.get(code & 0x7FFF)
    return f"HI_ERR_{module.upper()}_{row[0]} ({code:#x})" if module and row else f"error {code:#x}"


def describe(code: int) -> str:
    """Name and number of a code: `ACL_ERROR_RT_PARAM_INVALID (107000)`."""
    if code >= _HIMPI_FIRST:
        return _describe_himpi(code)
    row = codes.TABLE.get(code)
    return f"{row[0]} ({code})" if row else f"error {code}"


def message_family(code: int) -> str:
    """The message code (EH0001, EE1001, …) under which `get_recent_err_msg` reports an error code."""
    row = codes.TABLE.get(code)
    return row[2] if row and row[2] else "E19999"
