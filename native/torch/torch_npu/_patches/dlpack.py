"""DLPack for npu tensors: they leave as an extension device (kDLExtDev) over the same memory, and come back so.

torch's C++ does both already; its Python only misses the device once it has been renamed from privateuse1 to npu.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary
from torch.utils.dlpack import DLDeviceType


def _with_npu(original: Any) -> Any:
    @wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> Any:
        if has_torch_function_unary(self):
            return handle_torch_function(torch.Tensor.__dlpack_device__, (self,), self)
        if self.device.type == "npu":
            return DLDeviceType.kDLExtDev, self.device.index
        return original(self)

    return __dlpack_device__


def install() -> None:
    """Let `torch.from_dlpack(x)` and other consumers ask an npu tensor for its device."""
    tensor: Any = torch.Tensor
    tensor.__dlpack_device__ = _with_npu(tensor.__dlpack_device__)
