"""A node from an operator's schema: tensors are inputs, everything else is an attribute.

Attributes have the argument's name; a list's name gets an `s` (`offsets` → `offsetss`), as files of Ascend's exporter have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.onnx import JitScalarType, symbolic_helper  # type: ignore[attr-defined]

_KINDS: dict[str, Any] = {"int": "i", "bool": "b", "float": "f", "str": "s"}
_FORMS = {int: "i", bool: "i", float: "f", str: "s"}
_DTYPE_OF = {"npu_dtype_cast": "dtype"}  # integers that are types of torch


def _schema(name: str) -> Any:
    overloads = getattr(torch.ops.npu, name).overloads()
    wanted = "default" if "default" in overloads else overloads[0]
    return getattr(getattr(torch.ops.npu, name), wanted)._schema


def symbolic(name: str, node: str) -> Callable[..., Any]:
    """The symbolic function of `npu::name`, for `torch.onnx.register_custom_op_symbolic`."""
    arguments = _schema(name).arguments

    def build(g: Any, *values: Any) -> Any:
        inputs: list[Any] = []
        attributes: dict[str, Any] = {}
        for argument, value in zip(arguments, values, strict=False):
            kind = str(argument.type)
            if "Tensor" in kind:
                inputs += _tensors(g, kind, value)
            elif not symbolic_helper._is_none(value):
                attributes |= _attribute(name, argument.name, kind, value)
        while inputs and symbolic_helper._is_none(inputs[-1]):
            inputs.pop()
        count = g.original_node.outputsSize()
        node_outputs = g.op(f"npu::{node}", *inputs, **attributes, outputs=count)
        results = [node_outputs] if count == 1 else list(node_outputs)
        _give_types(results, list(g.original_node.outputs()), inputs)
        return node_outputs

    build.__name__ = f"symbolic_{name}"
    return build


def _tensors(g: Any, kind: str, value: Any) -> list[Any]:
    if not kind.startswith("List"):
        return [value]
    if value.node().kind() != "prim::ListConstruct":
        raise symbolic_helper._onnx_unsupported(f"a list of tensors made by {value.node().kind()}", value)
    return list(value.node().inputs())


def _attribute(name: str, argument: str, declared: str, value: Any) -> dict[str, Any]:
    inner = declared.removeprefix("Optional[").removesuffix("]") if declared.startswith("Optional") else declared
    if inner.startswith("List["):
        listed = symbolic_helper._parse_arg(value, "is" if "int" in inner else "fs", arg_name=argument)
        return {f"{argument}s_{'i' if 'int' in inner else 'f'}": listed}
    if inner in _KINDS:
        number = symbolic_helper._parse_arg(value, _KINDS[inner], arg_name=argument)
    else:  # a number of either kind
        number = symbolic_helper._parse_arg(value, "t", arg_name=argument).item()
    if _DTYPE_OF.get(name) == argument:
        kind: Any = JitScalarType(number).onnx_type()
        return {f"{argument}_i": int(kind)}
    return {f"{argument}_{_FORMS[type(number)]}": int(number) if isinstance(number, bool) else number}


def _give_types(results: list[Any], traced: list[Any], inputs: list[Any]) -> None:
    """Results get the types that tracing saw: with their sizes where the sizes of the inputs are fixed, else with their rank."""
    fixed = all(value.isCompleteTensor() for value in inputs if not symbolic_helper._is_none(value))
    for result, seen in zip(results, traced, strict=True):
        kind = seen.type()
        if kind.kind() != "TensorType" or kind.sizes() is None:
            continue
        result.setType(kind if fixed else kind.with_sizes([None] * len(kind.sizes())))
