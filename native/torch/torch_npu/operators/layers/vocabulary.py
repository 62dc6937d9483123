"""Cross entropy of a linear layer whose classes are spread over ranks: each has a part, maxima and sums are reduced between."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, pack_bits, require, unpack_bits, unsupported, wide


def npu_fused_linear_online_max_sum(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    vocab_start_index: int,
    vocab_end_index: int,
    return_logits: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Maximum, sum of exponentials and the target's logit (both less the maximum), a bit 1 for each target that is another rank's,
    targets counted from here. `vocab_end_index` is the last class or the one after it: the weight's rows tell."""
    count = weight.shape[0]
    require(
        vocab_end_index - vocab_start_index in (count, count - 1),
        f"npu_fused_linear_online_max_sum: classes {vocab_start_index} to {vocab_end_index} for a weight of {count} rows",
        ErrCode.VALUE,
    )
    logits = wide(F.linear(input, weight))
    largest = logits.max(-1).values
    local = target.long() - vocab_start_index
    elsewhere = (local < 0) | (local >= count)
    masked = local.masked_fill(elsewhere, 0)
    shifted = logits - largest.unsqueeze(-1)
    predicted = shifted.gather(-1, masked.unsqueeze(-1)).squeeze(-1).masked_fill(elsewhere, 0)
    bits = pack_bits(F.pad(elsewhere.to(torch.uint8), (0, -elsewhere.numel() % 8)))
    kept = logits.to(input.dtype) if return_logits else input.new_empty(0)
    return largest, shifted.exp().sum(-1), predicted, bits, masked.to(target.dtype), kept


def _no_smoothing(label_smoothing: float | None, name: str) -> None:
    if label_smoothing:
        raise unsupported(f"{name}: label_smoothing {label_smoothing}; only 0 is computed")


def npu_fused_cross_entropy_loss_with_max_sum(
    logits_max: Tensor,
    sum_exp_logits: Tensor,
    predicted_logits: Tensor,
    *,
    label_smoothing: float | None = 0.0,
    input: Tensor | None = None,
    weight: Tensor | None = None,
    vocab_parallel_logits: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The softmax is computed where there are logits: given ones, or input and weight to make them; empty otherwise."""
    _no_smoothing(label_smoothing, "npu_fused_cross_entropy_loss_with_max_sum")
    loss = sum_exp_logits.log() - predicted_logits
    logits = vocab_parallel_logits
    if logits is None and input is not None and weight is not None:
        logits = F.linear(input, weight)
    if logits is None:
        return loss, loss.new_empty(0)
    return loss, _softmax(logits, logits_max, sum_exp_logits)


def _softmax(logits: Tensor, largest: Tensor, total: Tensor) -> Tensor:
    return (wide(logits) - largest.unsqueeze(-1)).exp() / total.unsqueeze(-1)


def npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    label_smoothing: float = 0.0,
    logits_max: Tensor | None = None,
    sum_exp_logits: Tensor | None = None,
    softmax: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gradients of input and weight, from the softmax or from what it is made of."""
    name = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
    _no_smoothing(label_smoothing, name)
    if softmax is None:
        require(
            logits_max is not None and sum_exp_logits is not None,
            f"{name}: give softmax, or logits_max and sum_exp_logits to compute it",
        )
        assert logits_max is not None and sum_exp_logits is not None
        softmax = _softmax(F.linear(input, weight), logits_max, sum_exp_logits)
    here = 1 - unpack_bits(target_mask)[: masked_target.numel()].to(softmax.dtype)
    to_logits = softmax.scatter_add(-1, masked_target.long().unsqueeze(-1), -here.unsqueeze(-1))
    to_logits = to_logits * wide(grad).unsqueeze(-1)
    return (to_logits @ wide(weight)).to(input.dtype), (to_logits.t() @ wide(input)).to(weight.dtype)
