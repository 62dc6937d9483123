"""The decorators of plain functions and classes."""

from softnpu.flow.drawing.decorate import method, pyflow

__all__ = ["method", "pyflow"]
