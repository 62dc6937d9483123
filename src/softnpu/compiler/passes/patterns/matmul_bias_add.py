"""MatMulBiasAddFusionPass: a constant vector that is added after a product of matrices becomes its bias."""

from __future__ import annotations

import numpy as np

from softnpu.compiler.passes.edit import FLOATS, Edit, array_of, attributes, op_type_of, other_input, rewrite
from softnpu.graph.ir import Graph, Node, Value

NAME = "MatMulBiasAddFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Fold every such addition after MatMul, or after Gemm without a bias, of two matrices with constant weights."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        columns = _columns(node)
        user = edit.only_user(node.output) if columns else None
        if columns is None or user is None or op_type_of(user) != "Add":
            continue
        bias = _vector(other_input(user, node.output), columns, node.inputs[1])
        if bias is None:
            continue
        match += 1
        effect += 1
        value = edit.constant(bias, f"{node.name}/bias")
        edit.set_inputs(node, [node.inputs[0], node.inputs[1], value])
        edit.take_over(node, user)
        rewrite(node, "Gemm", {"alpha": float(attributes(node).get("alpha", 1.0)), "beta": 1.0})
        node.type, node.input_names = "MatMulV2", ["x1", "x2", "bias"]
        node.attrs = {"transpose_x1": False, "transpose_x2": False, "offset_x": 0} | node.attrs
    edit.finish()
    return match, effect


def _columns(node: Node) -> int | None:
    """The number of columns of a product of two matrices that has no bias and constant weights."""
    kind = op_type_of(node)
    if (
        kind not in ("MatMul", "Gemm")
        or len(node.inputs) < 2
        or any(further is not None for further in node.inputs[2:])
    ):
        return None
    left, right = node.inputs[:2]
    weight = array_of(right)
    if (
        left is None
        or left.shape is None
        or len(left.shape) != 2
        or left.dtype not in FLOATS
        or weight is None
        or weight.ndim != 2
    ):
        return None
    return int(weight.shape[0 if attributes(node).get("transB", 0) else 1])


def _vector(
    value: Value | None, columns: int, weight: Value | None
) -> np.ndarray[tuple[int], np.dtype[np.floating]] | None:
    """A constant that adds one number per column."""
    array = array_of(value)
    if array is None or value is None or weight is None or value.dtype != weight.dtype or array.ndim > 2:
        return None
    if (array.ndim == 2 and array.shape[0] != 1) or array.size not in (1, columns):
        return None
    return np.array(np.broadcast_to(array.ravel(), (columns,)))
