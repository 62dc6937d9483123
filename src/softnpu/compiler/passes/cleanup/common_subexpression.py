"""CommonSubexpressionEliminationPass: of nodes that compute the same from the same, one stays."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.passes.edit import Edit, onnx_op
from softnpu.graph.ir import NO_WORK, Constant, Graph, Node, Value
from softnpu.graph.onnx_def import NODE
from softnpu.graph.wire import encode

NAME = "CommonSubexpressionEliminationPass"
GROUP = "GraphFusion"

_SMALL_BYTES = 4096  # constants up to this size are compared by content
_CHANCE = ("Random", "Bernoulli", "Multinomial", "Dropout", "Sequence", "Optional")
_PLAIN = (bool, int, float, str, bytes)


def run(graph: Graph) -> tuple[int, int]:
    """Let users of later ones take the results of the first; one whose result a program sees stays."""
    edit = Edit(graph)
    seen: dict[Any, Node] = {}
    match = effect = 0
    for node in edit.nodes():
        key = _key(node)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is node:
            continue
        match += 1
        if any(id(value) in edit.results for value in node.outputs):
            continue
        for mine, theirs in zip(node.outputs, first.outputs, strict=True):
            edit.bypass(mine, theirs)
        edit.drop(node)
        effect += 1
    edit.finish()
    return match, effect


def _key(node: Node) -> Any:
    """What makes two nodes equal; None for nodes that must stay: chance, bodies, and what is not known well."""
    if node.type in NO_WORK:
        return None
    inputs = tuple(_input_key(value) for value in node.inputs)
    if node.source is None:
        attrs = _attrs_key(node.attrs)
        return None if attrs is None or _random(node.type) else (node.type, attrs, inputs, len(node.outputs))
    op = onnx_op(node)
    if op is None or _random(op.get("op_type", "")):
        return None
    attributes = op.get("attribute", ())
    if any(
        name in attribute
        for attribute in attributes
        for name in ("g", "graphs", "ref_attr_name", "sparse_tensor", "sparse_tensors")
    ):
        return None
    shown = tuple(bool(name) for name in node.source.outputs)
    ordered = sorted(attributes, key=lambda attribute: str(attribute.get("name", "")))
    return (op.get("op_type", ""), encode(NODE, {"attribute": ordered}), inputs, shown)


def _random(kind: str) -> bool:
    return any(part in kind for part in _CHANCE)


def _input_key(value: Value | None) -> Any:
    if value is None:
        return None
    constant = value.const
    if constant is None or len(constant.data) > _SMALL_BYTES:
        return id(value)
    return (constant.dtype, constant.shape, bytes(constant.data))


def _attrs_key(attrs: dict[str, Any]) -> Any:
    parts = []
    for name in sorted(attrs):
        key = _attr_key(attrs[name])
        if key is None:
            return None
        parts.append((name, key))
    return tuple(parts)


def _attr_key(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return (type(value), value)
    if isinstance(value, list | tuple):
        parts = tuple(_attr_key(item) for item in value)
        return None if any(part is None for part in parts) else parts
    if isinstance(value, Constant) and len(value.data) <= _SMALL_BYTES:
        return (value.dtype, value.shape, bytes(value.data))
    return None
