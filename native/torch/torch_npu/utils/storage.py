"""Names that old checkpoints carry: files written by torch_npu 1.x rebuild their tensors through `_rebuild_npu_tensor`."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch


def _rebuild_npu_tensor(
    storage: torch.TypedStorage,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: OrderedDict[Any, Any],
    _npu_storage_info: Any,
) -> torch.Tensor:
    """The tensor of such a file. Its last word is the private format it had; the bytes in the file are in logical order, so
    the tensor comes back without one."""
    tensor: torch.Tensor = torch._utils._rebuild_tensor_v2(
        storage, storage_offset, size, stride, requires_grad, backward_hooks
    )
    return tensor
