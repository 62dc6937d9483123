"""What LSTM and GRU share: steps in either direction, masks of sequences that end early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require, unsupported


def check_one_layer(name: str, num_layers: int, dropout: float, bidirectional: bool) -> None:
    """dropout falls between layers, so with one of them it has nothing to do."""
    require(0 <= dropout <= 1, f"{name}: dropout has to be between 0 and 1, but got {dropout}")
    if num_layers != 1 or bidirectional:
        raise unsupported(
            f"{name}: num_layers {num_layers} and bidirectional {bidirectional}; the kernel is one layer in one direction: "
            "call it once for each, or use torch.nn.LSTM or torch.nn.GRU"
        )


def order(steps: int, backwards: bool) -> Iterable[int]:
    return reversed(range(steps)) if backwards else range(steps)


def stacked(kept: Mapping[int, tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Results of steps, however they were visited, as [T, ...]."""
    return tuple(torch.stack(results) for results in zip(*(kept[step] for step in range(len(kept))), strict=True))


def hold(new: Tensor, old: Tensor, mask: Tensor | None) -> Tensor:
    return new if mask is None else torch.where(mask, new, old)


def step_mask(seq_mask: Tensor, steps: int, batch: int, name: str) -> Tensor:
    """[T, B, 1] of bool from a mask [T, B(, H)], or from the lengths of the B sequences."""
    if seq_mask.dim() == 1:
        require(len(seq_mask) == batch, f"{name}: {len(seq_mask)} lengths for a batch of {batch}")
        return (torch.arange(steps, device=seq_mask.device).reshape(-1, 1) < seq_mask).unsqueeze(-1)
    require(
        seq_mask.shape[:2] == (steps, batch),
        f"{name}: the mask must begin with [{steps}, {batch}] (steps, batch), not {tuple(seq_mask.shape)}",
    )
    return seq_mask.bool().reshape(steps, batch, -1)[..., :1]


def of_sequence(grad: Tensor | None, like: Tensor, last: int) -> Tensor:
    """The gradient of all steps; one of a single step is that of the last."""
    if grad is None or grad.numel() == like.numel():
        return torch.zeros_like(like) if grad is None else grad.reshape(like.shape)
    whole = torch.zeros_like(like)
    whole[last] = grad.reshape(like.shape[1:])
    return whole
