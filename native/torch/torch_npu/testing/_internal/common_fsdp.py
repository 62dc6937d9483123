"""torch's module for FSDP tests, set to npu: it knows cuda, xpu and hpu and takes the CPU otherwise."""

from __future__ import annotations

from typing import Any

from torch.testing._internal import common_fsdp as _torch_fsdp

from torch_npu import npu

_torch_fsdp.DEVICE_TYPE = "npu"
_torch_fsdp.DISTRIBUTED_BACKEND = "hccl"
_torch_fsdp.DEVICE_COUNT = npu.device_count()


def __getattr__(name: str) -> Any:
    return getattr(_torch_fsdp, name)
