"""From the graph form to ONNX operators: what the engines run.

A node that came from ONNX emits the operators it stands for, with the names that its inputs and outputs have now. Any other
node asks its operator file for its meaning. Constants stay out of the result; they are named and stored beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softnpu import ops
from softnpu.base.dtypes import numpy_name
from softnpu.compiler.errors import AtcError
from softnpu.graph.ir import NO_WORK, Constant, Graph, Node, Value
from softnpu.graph.onnx_def import make_attribute


@dataclass
class Lowered:
    """ONNX operators in order, and the constants they take beside those of the graph."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    constants: dict[str, Constant] = field(default_factory=dict)
    domains: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # names that nested bodies use → names of today
    existing: set[str] = field(default_factory=set)  # of them, those that exist
    host: list[Node] = field(default_factory=list)  # nodes that only NumPy can compute (`compute`, no `lower`)


def site_of(node: Node) -> ops.Site:
    """What an operator's body may know about a node."""
    values = node.inputs
    return ops.Site(
        type=node.type,
        name=node.name,
        attrs=node.attrs,
        inputs=[value.name if value is not None else None for value in values],
        input_dtypes=[value.dtype if value is not None else -1 for value in values],
        input_shapes=[value.shape if value is not None else None for value in values],
        constants=[_array(value) for value in values],
        outputs=len(node.outputs),
        output_dtypes=[value.dtype for value in node.outputs],
        output_shapes=[value.shape for value in node.outputs],
        input_formats=[value.format if value is not None else -1 for value in values],
    )


def _array(value: Value | None) -> np.ndarray[Any, Any] | None:
    constant = value.const if value is not None else None
    return constant.array() if constant is not None and numpy_name(constant.dtype) else None


def lower_node(node: Node, opset: int, unique: Callable[[str], str], into: Lowered) -> None:
    """Append the ONNX operators of one node."""
    if node.type in NO_WORK:
        return
    if node.source is not None:
        _emit_source(node, unique, into)
        return
    operator = ops.find(node.type)
    if operator is None:
        raise AtcError(
            "E10501",
            f"No IR is registered for the operator type [{node.type}] (node [{node.name}])",
            "the type is misspelt, or this version does not have the operator",
            "docs/support/operators.md lists the types; use another operator or leave this one out",
        )
    if operator.lower is None:
        into.host.append(node)
        return
    builder = ops.Builder(opset, unique)
    builder.prefix = node.name
    lower_ = operator.lower
    results = called(node, lambda: lower_(builder, site_of(node)))
    names = (results,) if isinstance(results, str) else tuple(results)
    if len(names) < len(node.outputs):
        raise AtcError(
            "E19999", f"{node.type} [{node.name}] has {len(node.outputs)} outputs, its body made {len(names)}"
        )
    _emit_calls(node, builder, names, into)


def called(node: Node, body: Callable[[], Any]) -> Any:
    """What an operator's body answers; its complaints, and values of the wrong kind, in atc's words."""
    try:
        return body()
    except ops.OpError as error:
        raise AtcError(
            "E14001", str(error), "the operator cannot be built from its arguments", "change the model as said"
        ) from error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise AtcError(
            "E14001",
            f"{node.type} [{node.name}] cannot be built: {type(error).__name__}: {error}",
            "an attribute or a constant has another kind or size than the operator takes",
            "check the operator's attributes and constant inputs",
        ) from error


def _emit_calls(node: Node, builder: ops.Builder, names: tuple[str, ...], into: Lowered) -> None:
    wanted = {}
    extra: list[dict[str, Any]] = []
    made_here = {name for call in builder.calls for name in call.outputs}
    for name, value in zip(names, node.outputs, strict=False):
        if name in made_here and name not in wanted:
            wanted[name] = value.name
        else:  # an input or a constant handed through, or one result as two outputs
            extra.append(
                {"input": [wanted.get(name, name)], "output": [value.name], "name": value.name, "op_type": "Identity"}
            )
    for call in builder.calls:
        into.nodes.append(
            {
                "input": [wanted.get(name, name) for name in call.inputs],
                "output": [wanted.get(name, name) for name in call.outputs],
                "name": call.outputs[0] if len(builder.calls) > 1 else node.name,
                "op_type": call.type,
                "attribute": [make_attribute(key, value) for key, value in call.attrs.items()],
                **({"domain": call.domain} if call.domain else {}),
                **({"doc_string": node.name} if len(builder.calls) > 1 else {}),
            }
        )
    into.nodes += extra
    for name, array in builder.constants.items():
        into.constants[name] = Constant.of(array)
    into.domains.update(builder.domains)


def _emit_source(node: Node, unique: Callable[[str], str], into: Lowered) -> None:
    source = node.source
    assert source is not None
    names = {old: value.name for old, value in zip(source.outputs, node.outputs, strict=True) if old}
    for old, fed in zip(source.inputs, node.inputs, strict=True):
        if old and fed is not None:
            names.setdefault(old, fed.name)
    changed = {old: new for old, new in names.items() if old != new}
    captured = {name for op in source.ops for name in captures(op)}
    for name in sorted(captured & changed.keys()):  # a body that is nested inside keeps its own words
        now = changed.pop(name)
        if into.aliases.setdefault(name, now) != now:
            raise AtcError(
                "E19999", f"{node.type} [{node.name}]: two different values are called [{name}] inside its bodies"
            )
        if name not in into.existing:
            into.existing.add(name)
            into.nodes.append(
                {"input": [now], "output": [name], "name": unique(f"{name}/alias"), "op_type": "Identity"}
            )
    for op in source.ops:
        op = {key: value for key, value in op.items() if key != "doc_string"}
        if op.get("name") != node.name:
            op["doc_string"] = node.name
        if not changed:
            into.nodes.append(op)
            continue
        into.nodes.append(
            {
                **op,
                "input": [changed.get(tensor, tensor) for tensor in op.get("input", ())],
                "output": [changed.get(tensor, tensor) for tensor in op.get("output", ())],
            }
        )


def captures(op: dict[str, Any]) -> set[str]:
    """Names that the bodies inside an operator (If, Loop, Scan) take from around them."""
    names: set[str] = set()
    for attribute in op.get("attribute", ()):
        bodies = [attribute["g"]] if "g" in attribute else attribute.get("graphs", ())
        for body in bodies:
            names |= _free_names(body)
    return names


def _free_names(body: dict[str, Any]) -> set[str]:
    own = {entry.get("name", "") for entry in body.get("input", ())}
    own |= {tensor.get("name", "") for tensor in body.get("initializer", ())}
    own |= {tensor.get("values", {}).get("name", "") for tensor in body.get("sparse_initializer", ())}
    free: set[str] = set()
    for op in body.get("node", ()):
        free |= {name for name in op.get("input", ()) if name and name not in own}
        free |= captures(op) - own
        own |= set(op.get("output", ()))
    return free | {entry.get("name", "") for entry in body.get("output", ()) if entry.get("name", "") not in own}


def lower(graph: Graph, nodes: Iterable[Node] | None = None) -> Lowered:
    """The ONNX operators of a graph, or of some of its nodes."""
    into = Lowered()
    opset = graph.opsets.get("", ops.NATIVE_OPSET)
    for node in graph.nodes if nodes is None else nodes:
        lower_node(node, opset, graph.unique, into)
    return into
