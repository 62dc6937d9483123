"""Which operators of a profile are work of a device, and how CANN would call it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from torch_npu._watch.acl_files import operator_type

CUBE, VECTOR, CPU, COPY, COMMUNICATION = ("AI_CORE", "AI_VECTOR_CORE", "AI_CPU", "PCIE_DMA_SQE", "COMMUNICATION")

_NO_WORK = frozenset({
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_", "detach_",
    "record_stream", "requires_grad_", "t_", "transpose_", "squeeze_", "unsqueeze_", "as_strided_", "swapaxes_", "swapdims_",
})  # fmt: skip
_READS_A_VALUE = frozenset({"_local_scalar_dense", "equal", "is_nonzero"})
_CUBE_WORDS = ("mm", "matmul", "conv", "linear", "attention", "einsum")
_CPU_WORDS = ("nonzero", "unique", "randperm", "multinomial", "_linalg", "_fft", "sort", "masked_select")
_OF_THE_DISPATCHER = ("_overrideable", "_nd")


@cache
def computes(name: str) -> bool:
    """Whether an operator with a tensor on npu is a task: neither a view, nor room without values, nor a question about a tensor."""
    library, separator, operator = name.rpartition("::")
    if not separator or "::" in library or " " in library or operator in _NO_WORK:  # a node of autograd, a range
        return False
    if operator in _READS_A_VALUE:
        return True
    return any(_makes_values(schema) for schema in torch._C._jit_get_schemas_for_operator(name))


def _makes_values(schema: Any) -> bool:
    """One of the overloads gives a tensor that is new or that was written to."""
    if any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments):
        return True
    tensors = [result for result in schema.returns if "Tensor" in str(result.type)]
    return any(tensor.alias_info is None for tensor in tensors)


def type_of(name: str) -> str:
    """The operator's type as CANN writes it: Conv2D of aten::convolution_overrideable."""
    operator = name.rpartition("::")[2].partition(".")[0]
    for tail in _OF_THE_DISPATCHER:
        operator = operator.removesuffix(tail)
    return operator_type(operator)


def core_of(name: str, crosses: bool) -> str:
    """The part of a chip that runs such an operator."""
    operator = name.rpartition("::")[2]
    if name.startswith("c10d::"):
        return COMMUNICATION
    if crosses or operator in _READS_A_VALUE:
        return COPY
    if any(part in operator for part in _CPU_WORDS):
        return CPU
    return CUBE if any(part in operator for part in _CUBE_WORDS) else VECTOR


def is_kernel(core: str) -> bool:
    """Whether tables of kernels have a row for it: copies to and from the host are tasks of another engine."""
    return core in (CUBE, VECTOR, CPU)
