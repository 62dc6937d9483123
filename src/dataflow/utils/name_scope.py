"""Unique names."""

from softnpu.flow.naming import Names, nodes, others, restart

__all__ = ["Names", "nodes", "others", "restart"]
