"""`from torch_npu.contrib import transfer_to_npu`: a program written for cuda runs on npu. TORCH_TRANSFER_TO_NPU=1 does it too.

It changes torch for the whole process. What it cannot change: comparisons with a name (`x.device.type == "cuda"` is False, it is npu),
names that a program took from torch before, and libraries with CUDA code of their own.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from torch_npu._environment import text
from torch_npu.contrib import _transfer_cuda, _transfer_distributed, _transfer_torch

_MARK = "_transferred_to_npu"


def _tell(names: list[str]) -> None:
    """One process of a job says what has been replaced."""
    if text("RANK", "0") != "0":
        return
    listed = ", ".join(sorted(names))
    warnings.warn(
        "The following torch names now mean npu where they say cuda. Programs that need the originals must not import "
        f"torch_npu.contrib.transfer_to_npu: {listed}",
        ImportWarning,
        stacklevel=3,
    )


def _transfer() -> None:
    cuda: Any = torch.cuda
    if getattr(cuda, _MARK, False):  # reloaded
        return
    names = [*_transfer_cuda.install(), *_transfer_torch.install(), *_transfer_distributed.install()]
    setattr(cuda, _MARK, True)
    _tell(names)


_transfer()
