"""LayerNormONNXFusionPass: (x - mean) / √(variance + ε) · γ + β, written out in single operators, becomes LayerNorm.

The engine still gets the chain.
"""

from __future__ import annotations

from softnpu.compiler.passes.edit import (
    Edit,
    array_of,
    attributes,
    constant_input,
    near,
    op_type_of,
    other_input,
    producer,
    scalar_of,
)
from softnpu.graph.ir import Graph, Node, Value

NAME = "LayerNormONNXFusionPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Merge every such chain."""
    edit = Edit(graph)
    position = {id(node): index for index, node in enumerate(graph.nodes)}
    count = 0
    for root in edit.nodes():
        if op_type_of(root) != "Sqrt":
            continue
        head = _head(edit, root)
        tail = _tail(edit, root, head[1]) if head is not None else None
        if head is None or tail is None:
            continue
        nodes, _, x, axis, epsilon = head
        after, gamma, beta = tail
        chain = sorted([*nodes, root, *after], key=lambda member: position[id(member)])
        attrs = {"begin_norm_axis": axis, "begin_params_axis": axis, "epsilon": epsilon}
        merged = edit.merge(chain, "LayerNorm", attrs, [x, gamma, beta])
        merged.input_names = ["x", "gamma", "beta", *(f"x{index}" for index in range(3, len(merged.inputs)))]
        count += 1
    edit.finish()
    return count, count


def _head(edit: Edit, root: Node) -> tuple[list[Node], Node, Value, int, float] | None:
    """From √ backwards: + ε, mean of squares, difference, mean; with x, the first axis and ε."""
    total = producer(root.inputs[0], "Add")
    pair = constant_input(total) if total is not None and edit.inner(total.output, root) else None
    epsilon = scalar_of(pair[1]) if pair is not None else None
    if total is None or pair is None or epsilon is None:
        return None
    variance = producer(pair[0], "ReduceMean")
    if variance is None or not edit.inner(variance.output, total):
        return None
    square = producer(variance.inputs[0], "Pow", "Mul")
    if square is None or not edit.inner(square.output, variance):
        return None
    centred = _squared(square)
    mean = producer(centred.inputs[1], "ReduceMean") if centred is not None else None
    if (
        centred is None
        or mean is None
        or mean.inputs[0] is not centred.inputs[0]
        or not edit.inner(mean.output, centred)
    ):
        return None
    axis, again = _axis(mean), _axis(variance)
    x = centred.inputs[0]
    if axis is None or axis != again or x is None:
        return None
    return [mean, centred, square, variance, total], centred, x, axis, epsilon


def _squared(square: Node) -> Node | None:
    """The difference whose square this is."""
    first, second = square.inputs
    if op_type_of(square) == "Mul" and first is not second:
        return None
    if op_type_of(square) == "Pow" and not near(second, 2.0):
        return None
    return producer(first, "Sub")


def _axis(node: Node) -> int | None:
    """The first of the axes of a mean that keeps its dims and goes over the last ones."""
    attrs = attributes(node)
    axes = attrs.get("axes")
    if axes is None and len(node.inputs) > 1:
        array = array_of(node.inputs[1])
        axes = None if array is None else [int(axis) for axis in array.ravel()]
    if not axes or not attrs.get("keepdims", 1):
        return None
    value = node.inputs[0]
    rank = len(value.shape) if value is not None and value.shape is not None else None
    if any(axis >= 0 for axis in axes):
        if rank is None:
            return None
        axes = [axis if axis < 0 else axis - rank for axis in axes]
    return -len(axes) if sorted(axes) == list(range(-len(axes), 0)) else None


def _tail(edit: Edit, root: Node, centred: Node) -> tuple[list[Node], Value, Value] | None:
    """From √ forwards: the quotient, · γ, + β."""
    quotient = edit.only_user(root.output)
    if (
        quotient is None
        or op_type_of(quotient) != "Div"
        or quotient.inputs[0] is not centred.output
        or quotient.inputs[1] is not root.output
    ):
        return None
    square = [user for user in edit.users.get(centred.output, ()) if user is not quotient]
    if id(centred.output) in edit.results or len({id(factor) for factor in square}) != 1:
        return None
    product = edit.only_user(quotient.output)
    gamma = other_input(product, quotient.output) if product is not None and op_type_of(product) == "Mul" else None
    if product is None or gamma is None or gamma.const is None:
        return None
    total = edit.only_user(product.output)
    beta = other_input(total, product.output) if total is not None and op_type_of(total) == "Add" else None
    if total is None or beta is None or beta.const is None:
        return None
    return [quotient, product, total], gamma, beta
