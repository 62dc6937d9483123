"""Attributes of ONNX operators against their schemas, so that later stages find the types they expect."""

from __future__ import annotations

import functools
from typing import Any

from softnpu.compiler.messages import error
from softnpu.graph.onnx_def import attribute_kind

_KINDS = ("nothing", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors", "graphs")


@functools.cache
def _schema(word: str, opset: int) -> dict[str, tuple[int, bool]]:
    """Type and need of every attribute of an operator; nothing where ONNX does not know it."""
    import onnx.defs

    if not onnx.defs.has(word):
        return {}
    try:
        found = onnx.defs.get_schema(word, opset)
    except onnx.defs.SchemaError:  # it came later, or it is gone
        return {}
    return {name: (_number(one.type), bool(one.required)) for name, one in found.attributes.items()}


def _number(kind: Any) -> int:
    """The number of a type, which is that of AttributeProto."""
    return int(kind.value)


def check(op: dict[str, Any], name: str, opset: int) -> None:
    """Raise when an attribute of an operator of ONNX itself is of another type than its own, or missing."""
    word = op.get("op_type", "")
    wanted = _schema(word, opset)
    given = {one.get("name", ""): attribute_kind(one) for one in op.get("attribute", ())}
    for key, (kind, required) in wanted.items():
        if key not in given:
            if required:
                raise error("E14002", name=name, type=word, attribute=key)
        elif given[key] != kind:
            reason = f"the attribute {key} is of type {_kind(given[key])}, it must be of type {_kind(kind)}"
            raise error("E14001", name=name, type=word, reason=reason)


def _kind(number: int) -> str:
    return _KINDS[number] if 0 <= number < len(_KINDS) else str(number)
