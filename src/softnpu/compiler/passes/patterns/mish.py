"""SoftplusTanhMulPass: x · tanh(softplus(x)) becomes Mish."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, op_type_of, other_input, producer
from softnpu.graph.ir import Graph

NAME = "SoftplusTanhMulPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Merge every such chain."""
    edit = Edit(graph)
    count = 0
    for tanh in edit.nodes():
        softplus = producer(tanh.inputs[0], "Softplus") if op_type_of(tanh) == "Tanh" else None
        if softplus is None or softplus.inputs[0] is None or not edit.inner(softplus.output, tanh):
            continue
        mul, x = edit.only_user(tanh.output), softplus.inputs[0]
        if mul is None or op_type_of(mul) != "Mul" or other_input(mul, tanh.output) is not x:
            continue
        edit.merge([softplus, tanh, mul], "Mish", {}, [x])
        count += 1
    edit.finish()
    return count, count
