"""TbeCommonRules0FusionPass: a convolution and the Relu that alone takes its result become one node with `relu_flag`.

The engine still gets both operators; the node is what one kernel on the device would be.
"""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, op_type_of
from softnpu.graph.ir import Graph

NAME = "TbeCommonRules0FusionPass"
GROUP = "UBFusion"

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})


def run(graph: Graph) -> tuple[int, int]:
    """Merge every such pair."""
    edit = Edit(graph)
    count = 0
    for node in edit.nodes():
        if op_type_of(node) not in _CONVOLUTIONS:
            continue
        user = edit.only_user(node.output)
        if user is None or op_type_of(user) != "Relu":
            continue
        names, first = node.input_names, [value for value in node.inputs if value is not None]
        merged = edit.merge([node, user], node.type, node.attrs | {"relu_flag": True}, first)
        merged.name = graph.unique(node.name + user.name)  # CANN strings the names of fused nodes together
        merged.input_names = names[: len(merged.inputs)]
        count += 1
    edit.finish()
    return count, count
