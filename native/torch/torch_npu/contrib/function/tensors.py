"""Forms of plain tensor functions without the copies that are slow on the chip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error


def npu_fast_condition_index_put(x: Tensor, condition: Tensor, value: float) -> Tensor:
    """What `x[condition] = value` leaves in x, as a new tensor; shapes stay known."""
    if condition.dtype != torch.bool:
        raise TypeError(
            f"npu_fast_condition_index_put: condition must be a bool tensor, not {condition.dtype}"
            + pta_error(ErrCode.TYPE)
        )
    if condition.shape != x.shape:
        raise ValueError(
            f"npu_fast_condition_index_put: condition {list(condition.shape)} must have the shape of x {list(x.shape)}"
            + pta_error(ErrCode.VALUE)
        )
    return torch.where(condition, torch.full((), value, dtype=x.dtype, device=x.device), x)


def roll(x: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int]) -> Tensor:
    """`torch.roll`: the windows of Swin."""
    places: Any = dims
    return torch.roll(x, shifts, places)


def dropout_with_byte_mask(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """`torch.nn.functional.dropout`: how large its mask is does not show in the result."""
    return torch.nn.functional.dropout(x, p, training, inplace)
