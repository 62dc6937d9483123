"""Failures of `acl.himpi`, by the names of its manual: `himpi_error("vpc", "BUF_EMPTY", …)` has the code 0xA007800E."""

from __future__ import annotations

import traceback
from typing import Any

from softnpu.base.errors import NpuError, as_himpi, codes, himpi_code
from softnpu.base.log import ERROR, log
from softnpu.spec._generated.himpi_errors import ERRORS

_NUMBERS = {row[0]: number for number, row in ERRORS.items()}


def himpi_error(module: str, name: str, text: str, remedy: str = "", values: tuple[Any, ...] | None = None) -> NpuError:
    """The error of an engine (`sys`, `vdec`, `vpc`, `venc`, `pngd`) with one of the manual's names."""
    return NpuError(himpi_code(module, _NUMBERS[name]), text, remedy, values=values)


def failure(module: str, error: Exception) -> NpuError:
    """The error for whatever work raised. A defect of ours gives the program a code, and the log the traceback."""
    if isinstance(error, NpuError):
        return as_himpi(error, module)
    if isinstance(error, MemoryError):
        return as_himpi(NpuError(codes.BAD_ALLOC, f"no memory: {error}", "free memory"), module)
    log().write(ERROR, "internal error: " + "".join(traceback.format_exception(error)), "DVPP", module)
    return himpi_error(
        module,
        "SYS_ERROR",
        f"{type(error).__name__}: {error}",
        "this is a defect of softnpu; please report it with the log file",
    )
