"""CastRemoveFusionPass: a Cast to the type that its input has already goes away."""

from __future__ import annotations

from softnpu.compiler.passes.cleanup.cast_cast import target
from softnpu.compiler.passes.edit import Edit
from softnpu.graph.ir import Graph

NAME = "CastRemoveFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Remove every such Cast; one whose result a program sees stays, as the result needs a node of its own."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        wanted = target(node)
        value = node.inputs[0] if wanted is not None else None
        if wanted is None or value is None or value.dtype != wanted:
            continue
        match += 1
        if id(node.output) not in edit.results:
            edit.bypass(node.output, value)
            edit.drop(node)
            effect += 1
    edit.finish()
    return match, effect
