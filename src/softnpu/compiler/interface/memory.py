"""Memory planning: where the values of a graph with known shapes would lie, each place used again when its value is done.

The figure is what `acl.mdl.query_size` answers and the places stand in the `.om`; an engine that plans for itself need not
follow them.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

from softnpu.graph.ir import Graph, Shape, Value

ALIGN = 512


def plan(graph: Graph, shapes: Mapping[str, Shape] | None = None) -> int:
    """Bytes of work memory that the values between inputs and outputs need at most at one time; `shapes` says the shapes of
    values whose own are open (of the largest gear)."""
    last: dict[int, int] = {}
    for step, node in enumerate(graph.nodes):
        for value in node.inputs:
            if value is not None:
                last[id(value)] = step
    for output in graph.outputs:
        last[id(output.value)] = len(graph.nodes)
    free: list[tuple[int, int]] = []  # (size, offset), sorted by size
    ends: dict[int, list[tuple[int, int]]] = {}
    top = 0
    for step, node in enumerate(graph.nodes):
        if node.type != "Const":
            for value in node.outputs:
                size = _rounded(value, (shapes or {}).get(value.name))
                if not size:
                    continue
                offset, size, top = _take(free, size, top)
                ends.setdefault(last.get(id(value), step), []).append((size, offset))
        for block in ends.pop(step, ()):
            bisect.insort(free, block)
    return top


def _rounded(value: Value, shape: Shape | None) -> int:
    sized = value if shape is None else Value(value.name, value.dtype, shape)
    size = sized.bytes() if value.dtype < 1000 else 0
    return (size + ALIGN - 1) // ALIGN * ALIGN


def _take(free: list[tuple[int, int]], size: int, top: int) -> tuple[int, int, int]:
    """The smallest free block that is large enough, or new memory at the top."""
    index = bisect.bisect_left(free, (size, -1))
    if index < len(free):
        block, offset = free.pop(index)
        if block - size >= ALIGN:
            bisect.insort(free, (block - size, offset + size))
        return offset, size, top
    return top, size, top + size
