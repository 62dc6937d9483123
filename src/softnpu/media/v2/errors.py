"""Failures of `acl.himpi`, by the names of its manual: `himpi_error("vpc", "BUF_EMPTY", …)` has the code 0xA007800E."""

from __future__ import annotations

from typing import Any

from softnpu.base.errors import NpuError, himpi_code
from softnpu.spec.tables.himpi_errors import ERRORS

_NUMBERS = {row[0]: number for number, row in ERRORS.items()}


def himpi_error(module: str, name: str, text: str, remedy: str = "", values: tuple[Any, ...] | None = None) -> NpuError:
    """The error of an engine (`sys`, `vdec`, `vpc`, `venc`, `pngd`) with one of the manual's names."""
    return NpuError(himpi_code(module, _NUMBERS[name]), text, remedy, values=values)
