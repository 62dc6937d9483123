"""EXEC_NPU_CMD: aclnn functions by name, computed by the operator of aten that has the same name, over the same memory."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, ops_error
from torch_npu.adapt._bodies import host_view

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def _candidates(name: str) -> tuple[Any, ...]:
    """The out= and in-place overloads that an aclnn function may be: aclnnAdd is add.out, aclnnInplaceAdd is add_."""
    function = name.removeprefix("aclnn")
    inplace = function.startswith("Inplace")
    snake = _WORD.sub("_", function.removeprefix("Inplace")).lower() + ("_" if inplace else "")
    packet = getattr(torch.ops.aten, snake, None)
    if packet is None:
        return ()
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return tuple(
        overload for overload in overloads if inplace or any(argument.is_out for argument in overload._schema.arguments)
    )


def known(name: str) -> bool:
    """Whether a function can be computed."""
    return bool(_candidates(name))


def _fits(overload: Any, values: list[Any]) -> bool:
    arguments = overload._schema.arguments
    if len(arguments) != len(values):
        return False
    for argument, value in zip(arguments, values, strict=True):
        kind = str(argument.type)
        if isinstance(value, Tensor) != (kind in ("Tensor", "Optional[Tensor]")) and value is not None:
            return False
        if isinstance(value, list) != kind.startswith(("List", "Optional[List")) and value is not None:
            return False
    return True


def run(name: str, tensors: list[Tensor], arguments: str) -> None:
    """`arguments` is a list in JSON where {"tensor": i} stands for one of the tensors; results are the last arguments."""
    views = [host_view(tensor) for tensor in tensors]
    values = [views[value["tensor"]] if isinstance(value, dict) else value for value in json.loads(arguments)]
    for overload in _candidates(name):
        if _fits(overload, values):
            parameters = overload._schema.arguments
            named = {
                parameter.name: value
                for parameter, value in zip(parameters, values, strict=True)
                if parameter.kwarg_only
            }
            overload(
                *(value for parameter, value in zip(parameters, values, strict=True) if not parameter.kwarg_only),
                **named,
            )
            return
    there = "; ".join(str(candidate._schema) for candidate in _candidates(name))
    reason = f"its arguments fit none of {there}" if there else "aten has no operator of this name"
    raise RuntimeError(f"EXEC_NPU_CMD {name}: {reason}" + ops_error(ErrCode.NOT_SUPPORT))
