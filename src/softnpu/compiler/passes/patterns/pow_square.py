"""Pow2SquareFusionPass: x to the power of 2 becomes Square, which is x · x."""

from __future__ import annotations

from softnpu.compiler.passes.edit import FLOATS, Edit, near, op_type_of, rewrite
from softnpu.graph.ir import Graph

NAME = "Pow2SquareFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Rewrite every Pow of a float with the constant exponent 2 that does not change the shape."""
    edit = Edit(graph)
    count = 0
    for node in edit.nodes():
        if op_type_of(node) != "Pow" or not near(node.inputs[1], 2.0, 0.0):
            continue
        x, exponent = node.inputs
        assert x is not None and exponent is not None and exponent.shape is not None
        if x.dtype not in FLOATS or x.shape is None or len(exponent.shape) > len(x.shape):
            continue
        edit.set_inputs(node, [x, x])
        rewrite(node, "Mul")
        node.type, node.attrs, node.input_names = "Square", {}, ["x", "x"]
        count += 1
    edit.finish()
    return count, count
