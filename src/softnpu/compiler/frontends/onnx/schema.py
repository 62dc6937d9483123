"""ONNX operators against their schemas, so that later stages find the inputs and attributes they expect."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from softnpu.compiler.messages import error
from softnpu.graph.onnx_def import attribute_kind

_KINDS = ("nothing", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors", "graphs")
_MANY = 1 << 31


@dataclass(frozen=True)
class _Schema:
    """How many inputs and outputs an operator has, and type and need of its attributes."""

    inputs: tuple[int, int] = (0, _MANY)
    outputs: tuple[int, int] = (0, _MANY)
    attributes: dict[str, tuple[int, bool]] = field(default_factory=dict)


@functools.cache
def _schema(op_type: str, opset: int) -> _Schema:
    """The schema of an operator; one that allows everything where ONNX does not know it."""
    import onnx.defs

    if not onnx.defs.has(op_type):
        return _Schema()
    try:
        schema: Any = onnx.defs.get_schema(op_type, opset)
    except onnx.defs.SchemaError:  # it came later, or it is gone
        return _Schema()
    attributes = {
        name: (int(attribute.type.value), bool(attribute.required)) for name, attribute in schema.attributes.items()
    }
    return _Schema((schema.min_input, schema.max_input), (schema.min_output, schema.max_output), attributes)


def check(op: dict[str, Any], name: str, opset: int) -> None:
    """Raise when an operator of ONNX itself lacks something, has too much, or an attribute of another type than its own."""
    op_type = op.get("op_type", "")
    schema = _schema(op_type, opset)
    for key, (least, most) in (("input", schema.inputs), ("output", schema.outputs)):
        count = len(op.get(key, ()))
        if not least <= count <= most:
            wanted = str(least) if least == most else f"{least} to {most}" if most < _MANY - 1 else f"{least} or more"
            raise error("E14001", name=name, type=op_type, reason=f"it has {count} {key}s, {wanted} are expected")
    kinds = {attribute.get("name", ""): attribute_kind(attribute) for attribute in op.get("attribute", ())}
    for key, (kind, required) in schema.attributes.items():
        if key not in kinds:
            if required:
                raise error("E14002", name=name, type=op_type, attribute=key)
        elif kinds[key] != kind:
            reason = f"the attribute {key} is of type {_kind(kinds[key])}, it must be of type {_kind(kind)}"
            raise error("E14001", name=name, type=op_type, reason=reason)


def _kind(number: int) -> str:
    return _KINDS[number] if 0 <= number < len(_KINDS) else str(number)
