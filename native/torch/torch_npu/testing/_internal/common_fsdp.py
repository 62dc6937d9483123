"""torch's module for FSDP tests, set to npu: it knows cuda, xpu and hpu and takes the CPU otherwise."""

from __future__ import annotations

from typing import Any

from torch_npu.testing._internal import require_hccl

require_hccl(__name__)

import torch  # noqa: E402
from torch.testing._internal import common_fsdp as _torch_fsdp  # noqa: E402

_torch_fsdp.DEVICE_TYPE = "npu"
_torch_fsdp.DISTRIBUTED_BACKEND = "hccl"
_torch_fsdp.DEVICE_COUNT = torch.npu.device_count()


def __getattr__(name: str) -> Any:
    return getattr(_torch_fsdp, name)
