"""SqueezeUnsqueezeFusionPass: a Squeeze and an Unsqueeze of the same axes, in either order, cancel."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, array_of, attributes, word
from softnpu.graph.ir import Graph, Node, Value

NAME = "SqueezeUnsqueezeFusionPass"
GROUP = "GraphFusion"

_PAIRS = {"Squeeze": "Unsqueeze", "Unsqueeze": "Squeeze"}


def run(graph: Graph) -> tuple[int, int]:
    """Let the users of the second take what the first took."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        first = node.inputs[0].producer if word(node) in _PAIRS and node.inputs[0] is not None else None
        if first is None or word(first) != _PAIRS[word(node)] or first.inputs[0] is None:
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
    given = attributes(node).get("axes")
    if given is None and len(node.inputs) > 1:
        array = array_of(node.inputs[1])
        given = None if array is None else [int(one) for one in array.ravel()]
    if given is None:
        return None
    squeezing = word(node) == "Squeeze"
    rank = _rank(node.inputs[0] if squeezing else node.output)
    if any(axis < 0 for axis in given):
        if rank is None:
            return None
        given = [axis % rank for axis in given]
    return sorted(given)


def _rank(value: Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)
