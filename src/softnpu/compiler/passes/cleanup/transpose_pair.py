"""TransdataTransdataPass: two Transposes in a row become one, or none where the second undoes the first."""

from __future__ import annotations

from softnpu.compiler.passes.edit import Edit, attributes, op_type_of, origin, rewrite
from softnpu.graph.ir import Graph, Node

NAME = "TransdataTransdataPass"
GROUP = "GraphFusion"


def run(graph: Graph) -> tuple[int, int]:
    """Let the second Transpose take what the first one took."""
    edit = Edit(graph)
    match = effect = 0
    for node in edit.nodes():
        first = node.inputs[0].producer if op_type_of(node) == "Transpose" and node.inputs[0] is not None else None
        if first is None or op_type_of(first) != "Transpose" or first.inputs[0] is None:
            continue
        inner, outer = _perm(first), _perm(node)
        if inner is None or outer is None or len(inner) != len(outer):
            continue
        match += 1
        total = [inner[axis] for axis in outer]
        if total == sorted(total) and id(node.output) not in edit.results:
            edit.bypass(node.output, first.inputs[0])
            edit.drop(node)
        elif edit.only_user(first.output) is node:
            edit.set_inputs(node, [first.inputs[0]])
            rewrite(node, "Transpose", {"perm": total})
            node.attrs["perm"] = total
            node.origin = list(dict.fromkeys([*origin(first), *origin(node)]))
        else:
            continue
        effect += 1
    edit.finish()
    return match, effect


def _perm(node: Node) -> list[int] | None:
    perm = attributes(node).get("perm")
    if perm is not None:
        return list(perm)
    value = node.inputs[0]
    return None if value is None or value.shape is None else list(range(len(value.shape)))[::-1]
