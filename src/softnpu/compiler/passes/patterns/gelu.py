"""GeluONNXFusionPass: the chains that exporters write for GELU, with erf or with tanh, become Gelu.

Both end alike: 1 is added and the sum multiplied by x and by 0.5, in any order. The engine still gets the chain.
"""

from __future__ import annotations

import math

from softnpu.compiler.passes.edit import Edit, constant_input, near, op_type_of, other_input, producer
from softnpu.graph.ir import Graph, Node, Value

NAME = "GeluONNXFusionPass"
GROUP = "GraphFusion"

_ROOT = math.sqrt(2.0)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBE = 0.044715
Head = tuple[list[Node], Value]


def run(graph: Graph) -> tuple[int, int]:
    """Merge every such chain."""
    edit = Edit(graph)
    position = {id(node): index for index, node in enumerate(graph.nodes)}
    count = 0
    for node in edit.nodes():
        if op_type_of(node) not in ("Erf", "Tanh"):
            continue
        head = _erf_head(edit, node) if op_type_of(node) == "Erf" else _tanh_head(edit, node)
        tail = _tail(edit, node, head[1]) if head is not None else None
        if head is None or tail is None:
            continue
        chain = sorted([*head[0], node, *tail], key=lambda member: position[id(member)])
        edit.merge(chain, "Gelu", {"approximate": "none" if op_type_of(node) == "Erf" else "tanh"}, [head[1]])
        count += 1
    edit.finish()
    return count, count


def _erf_head(edit: Edit, node: Node) -> Head | None:
    """x / √2, or x · (1 / √2)."""
    scale = producer(node.inputs[0], "Div", "Mul")
    if scale is None or not edit.inner(scale.output, node):
        return None
    pair = constant_input(scale)
    if pair is None or not near(pair[1], _ROOT if op_type_of(scale) == "Div" else 1.0 / _ROOT):
        return None
    if op_type_of(scale) == "Div" and scale.inputs[1] is not pair[1]:
        return None
    return [scale], pair[0]


def _tanh_head(edit: Edit, node: Node) -> Head | None:
    """√(2/π) · (x + 0.044715 · x³)."""
    scale = producer(node.inputs[0], "Mul")
    pair = constant_input(scale) if scale is not None and edit.inner(scale.output, node) else None
    if scale is None or pair is None or not near(pair[1], _TANH_SCALE):
        return None
    total = producer(pair[0], "Add")
    if total is None or not edit.inner(total.output, scale):
        return None
    for value in total.inputs:
        cube = producer(value, "Mul")
        factor = constant_input(cube) if cube is not None and edit.inner(cube.output, total) else None
        if cube is None or factor is None or not near(factor[1], _TANH_CUBE):
            continue
        x = other_input(total, cube.output)
        power = _cube(edit, factor[0], x, cube) if x is not None else None
        if x is not None and power is not None:
            return [*power, cube, total, scale], x
    return None


def _cube(edit: Edit, value: Value, x: Value | None, user: Node) -> list[Node] | None:
    """x³ as Pow(x, 3) or as x · x · x."""
    power = producer(value, "Pow", "Mul")
    if power is None or x is None or not edit.inner(power.output, user):
        return None
    if op_type_of(power) == "Pow":
        return [power] if power.inputs[0] is x and near(power.inputs[1], 3.0) else None
    square = producer(other_input(power, x), "Mul")
    if square is None or not edit.inner(square.output, power):
        return None
    return [square, power] if square.inputs[0] is x and square.inputs[1] is x else None


def _tail(edit: Edit, node: Node, x: Value) -> list[Node] | None:
    """0.5 · x · (1 + node): the sum, then two products, or one with 0.5 · x."""
    total = edit.only_user(node.output)
    pair = constant_input(total) if total is not None and op_type_of(total) == "Add" else None
    if total is None or pair is None or not near(pair[1], 1.0):
        return None
    product = edit.only_user(total.output)
    if product is None or op_type_of(product) != "Mul":
        return None
    beside = other_input(product, total.output)
    half = producer(beside, "Mul")
    inner = constant_input(half) if half is not None and edit.inner(half.output, product) else None
    if half is not None and inner is not None and inner[0] is x and near(inner[1], 0.5):
        return [total, half, product]
    last = edit.only_user(product.output)
    if last is None or op_type_of(last) != "Mul":
        return None
    other = other_input(last, product.output)
    if (beside is x and near(other, 0.5)) or (near(beside, 0.5) and other is x):
        return [total, product, last]
    return None
