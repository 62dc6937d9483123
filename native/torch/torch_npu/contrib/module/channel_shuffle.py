"""The channel shuffle of ShuffleNet over the two branches of a block, concatenation included."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error


class _Shuffle(torch.autograd.Function):
    """The derivative of a permutation is the permutation back: selecting is faster than adding into zeros."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, back1: Tensor, back2: Tensor, *ahead: Tensor) -> Any:
        ctx.save_for_backward(back1, back2)
        x = torch.cat((x1, x2), 1)
        parts = tuple(x.index_select(1, index) for index in ahead)
        return parts if len(parts) > 1 else parts[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        back1, back2 = ctx.saved_tensors
        grad = torch.cat(grads, 1) if len(grads) > 1 else grads[0]
        return grad.index_select(1, back1), grad.index_select(1, back2), *([None] * (2 + len(grads)))


class ChannelShuffle(torch.nn.Module):
    """`forward(x1, x2)` is the shuffle of both after one another; with `split_shuffle` it comes in two halves, for the next block."""

    fp_index: Tensor
    fp_index1: Tensor
    fp_index2: Tensor
    bp_index1: Tensor
    bp_index2: Tensor

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        if in_channels % groups or in_channels % 2:
            raise ValueError(
                f"ChannelShuffle: {in_channels} channels cannot be split in {groups} groups and two halves; choose a multiple of both"
                + pta_error(ErrCode.VALUE)
            )
        self.split_shuffle = split_shuffle
        self.group_len = in_channels // groups
        ahead = torch.arange(in_channels).reshape(groups, self.group_len).t().reshape(-1)
        half = in_channels // 2
        if split_shuffle:
            self.register_buffer("fp_index1", ahead[:half].int())
            self.register_buffer("fp_index2", ahead[half:].int())
        else:
            self.register_buffer("fp_index", ahead.int())
        back = ahead.argsort().int()
        self.register_buffer("bp_index1", back[:half].clone())
        self.register_buffer("bp_index2", back[half:].clone())

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        ahead = (self.fp_index1, self.fp_index2) if self.split_shuffle else (self.fp_index,)
        return _Shuffle.apply(x1, x2, self.bp_index1, self.bp_index2, *ahead)
