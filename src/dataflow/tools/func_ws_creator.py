"""The maker of function projects."""

from softnpu.flow.drawing.func_ws import FuncWsCreator

__all__ = ["FuncWsCreator"]
