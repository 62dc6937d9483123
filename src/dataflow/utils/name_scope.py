"""Unique names."""

from softnpu.flow.drawing.naming import Names, nodes, others, restart

__all__ = ["Names", "nodes", "others", "restart"]
