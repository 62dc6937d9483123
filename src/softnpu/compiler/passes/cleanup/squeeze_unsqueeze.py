"""SqueezeUnsqueezeFusionPass: a Squeeze and an Unsqueeze of the same axes, in either order, cancel."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, array_of, attributes, op_type_of
from softnpu.graph.ir import Graph, Node, Value

NAME = "SqueezeUnsqueezeFusionPass"
GROUP = "GraphFusion"

_PAIRS = {"Squeeze": "Unsqueeze", "Unsqueeze": "Squeeze"}


def run(graph: Graph) -> tuple[int, int]:
    """Let the users of the second take what the first took."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        first = node.inputs[0].producer if op_type_of(node) in _PAIRS and node.inputs[0] is not None else None
        if first is None or op_type_of(first) != _PAIRS[op_type_of(node)] or first.inputs[0] is None:
            continue
        axes, undone = _axes(first), _axes(node)
        if axes is None or axes != undone:
            continue
        match += 1
        if id(node.output) not in edit.results:
            edit.bypass(node.output, first.inputs[0])
            edit.drop(node)
            effect += 1
    edit.finish()
    return match, effect


def _axes(node: Node) -> list[int] | None:
    """The axes counted from the front in the longer of input and output."""
    axes = attributes(node).get("axes")
    if axes is None and len(node.inputs) > 1:
        array = array_of(node.inputs[1])
        axes = None if array is None else [int(axis) for axis in array.ravel()]
    if axes is None:
        return None
    squeezing = op_type_of(node) == "Squeeze"
    rank = _rank(node.inputs[0] if squeezing else node.output)
    if any(axis < 0 for axis in axes):
        if rank is None:
            return None
        axes = [axis % rank for axis in axes]
    return sorted(axes)


def _rank(value: Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)
