"""The maker of function projects."""

from softnpu.flow.func_ws import FuncWsCreator

__all__ = ["FuncWsCreator"]
