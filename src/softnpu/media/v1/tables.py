"""Histograms and lookup tables: three rows of 256 values in device memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.runtime.memory.atlas import Allocation
from softnpu.runtime.process import process

DIMS, LENGTH = 3, 256
_HEAD = 128  # keeps the address of the first row from being one that dvpp_free would take


class Table:
    """Three rows of 256 values."""

    kind = "table"
    dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __init__(self) -> None:
        owner = process()
        size = _HEAD + DIMS * LENGTH * self.dtype.itemsize
        start = owner.memory.allocate(owner.current().device, size, 0, kind="media", align=128)
        allocation = owner.memory.reach(start, size, True)
        assert allocation is not None
        self.allocation: Allocation = allocation
        self.address = start + _HEAD
        self.ret_code = 0
        self.clear()

    def view(self) -> np.ndarray[Any, Any]:
        """The rows as an array over the memory itself; raises when that is gone with its device."""
        rows: np.ndarray[Any, Any] = process().memory.view(self.address, (DIMS, LENGTH), self.dtype)
        return rows

    def store(self, rows: np.ndarray[Any, Any]) -> None:
        """Write all rows."""
        self.view()[...] = rows

    def clear(self) -> None:
        """All zero."""
        self.view().fill(0)

    def row(self, dim: int) -> tuple[int, int]:
        """Address and length of one row."""
        if dim >= DIMS:
            raise NpuError(
                codes.INVALID_PARAM,
                f"dimension {dim} of a {self.kind} was asked for",
                f"use one from 0 to {DIMS - 1}",
            )
        return self.address + dim * LENGTH * self.dtype.itemsize, LENGTH

    def free(self) -> None:
        """Give the memory back, unless it went with its device."""
        process().memory.release(self.allocation)


class Hist(Table):
    """How often each value occurs, per channel."""

    kind = "histogram"
    dtype = np.dtype(np.uint32)


class LutMap(Table):
    """What each value becomes, per channel; the program writes it."""

    kind = "lookup table"
