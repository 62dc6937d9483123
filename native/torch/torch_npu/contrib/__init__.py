"""`torch_npu.contrib`: functions and modules made for the chip, with the arithmetic of those they stand for."""

# ruff: noqa: F403 (the names are the interface)
from __future__ import annotations

from torch_npu.contrib import function, module
from torch_npu.contrib.function import *
from torch_npu.contrib.module import *

__all__ = ["function", "module"]
__all__ += function.__all__
__all__ += module.__all__
