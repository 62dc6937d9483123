"""COPYPass: nodes that hand their input on unchanged go away."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, array_of, attributes, op_type_of
from softnpu.graph.ir import Graph, Node

NAME = "COPYPass"
GROUP = "GraphFusion"

_NATIVE = frozenset({"Identity", "Copy", "Dropout"})
_RESHAPES = frozenset({"Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze"})


def run(graph: Graph) -> tuple[int, int]:
    """Remove them; one whose result a program sees stays, as the result needs a node of its own."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        value = node.inputs[0] if node.inputs else None
        if value is None or not _copies(edit, node):
            continue
        match += 1
        if not any(id(output) in edit.results for output in node.outputs):
            for output in node.outputs if node.source is None else node.outputs[:1]:
                edit.bypass(output, value)
            edit.drop(node)
            effect += 1
    edit.finish()
    return match, effect


def _copies(edit: Edit, node: Node) -> bool:
    if node.source is None:
        return node.type in _NATIVE
    kind = op_type_of(node)
    if kind == "Identity" or (kind in ("Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1):
        return True
    if kind == "Dropout":
        return _at_inference(node) and not any(edit.users.get(value) for value in node.outputs[1:])
    if kind == "Transpose":
        perm = attributes(node).get("perm")
        return perm is not None and list(perm) == sorted(perm)
    before, after = node.inputs[0], node.output
    return kind in _RESHAPES and before is not None and before.static and before.shape == after.shape


def _at_inference(node: Node) -> bool:
    """Whether a Dropout drops nothing: its third input, where there is one, must be a constant False."""
    training = node.inputs[2] if len(node.inputs) > 2 else None
    if training is None:
        return True
    array = array_of(training)
    return array is not None and not array.any()
