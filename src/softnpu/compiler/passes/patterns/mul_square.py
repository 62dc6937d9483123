"""MulSquareFusionPass: x · x is named Square."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, op_type_of
from softnpu.graph.ir import Graph

NAME = "MulSquareFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Name every such product; what is computed stays."""
    edit = Edit(graph)
    count = 0
    for node in edit.nodes():
        if (
            op_type_of(node) == "Mul"
            and node.type == "Mul"
            and len(node.inputs) == 2
            and node.inputs[0] is node.inputs[1]
        ):
            node.type, node.attrs, node.input_names = "Square", {}, ["x", "x"]
            count += 1
    return count, count
