"""What torch_npu adds to `torch.nn`: the dropout with one byte per value, a name that programs for older chips use."""

from __future__ import annotations

import warnings
from typing import Any

import torch


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"{name} is deprecated and will be removed in a future version: use {instead}", FutureWarning, stacklevel=3
    )


def dropout_with_byte_mask(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> torch.Tensor:
    """`dropout`: how large its mask is does not show in the result."""
    _deprecated("torch.nn.functional.dropout_with_byte_mask", "torch.nn.functional.dropout")
    return torch.nn.functional.dropout(input, p, training, inplace)


class DropoutWithByteMask(torch.nn.Dropout):
    """`Dropout` under the name that keeps the mask as bytes on the chip."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        _deprecated("torch.nn.DropoutWithByteMask", "torch.nn.Dropout")
        super().__init__(p, inplace)


def install() -> None:
    """Put both where programs look for them."""
    nn: Any = torch.nn
    nn.DropoutWithByteMask = nn.modules.DropoutWithByteMask = DropoutWithByteMask
    nn.functional.dropout_with_byte_mask = dropout_with_byte_mask
