"""`torch.npu.amp`: autocast of the npu device. GradScaler comes with the training part."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torch_npu.npu.utils import get_amp_supported_dtype

__all__ = ["autocast", "custom_bwd", "custom_fwd", "get_amp_supported_dtype"]


class autocast(torch.autocast):
    """`torch.autocast("npu", …)` under its older name."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


custom_fwd: Any = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd: Any = functools.partial(torch.amp.custom_bwd, device_type="npu")
