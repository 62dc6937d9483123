"""The operators through which C++ adapters reach Python: OpCommand runs CANN operators, EXEC_NPU_CMD aclnn functions.

Headers know nothing but their schemas, so an adapter needs no library of ours to link against.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.adapt import _aclnn
from torch_npu.formats import describe

_SCHEMAS = (
    "op_command(str type, Tensor?[] inputs, Tensor(a!)[] outputs, str attributes, int[] constants) -> ()",
    "aclnn_known(str name) -> bool",
    "aclnn_command(str name, Tensor[] tensors, str arguments) -> ()",
    "storage_sizes(Tensor self) -> int[]",
)
_library: Any = None


def _op_command(*args: Any) -> None:
    from torch_npu.adapt import _command  # it loads the executor, which few programs need

    _command.run(*args)


def _aclnn_known(name: str) -> bool:
    return _aclnn.known(name)


def _aclnn_command(*args: Any) -> None:
    _aclnn.run(*args)


def _storage_sizes(self: torch.Tensor) -> list[int]:
    return list(describe(self).storage_sizes)


def register() -> None:
    """Declare them, once."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("softnpu", "FRAGMENT")
    for schema, body in zip(_SCHEMAS, (_op_command, _aclnn_known, _aclnn_command, _storage_sizes), strict=True):
        _library.define(schema)
        _library.impl(schema.partition("(")[0], body, "CompositeExplicitAutograd")
