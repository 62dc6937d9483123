"""Mixture of experts: the gate that chooses them. Products are in `grouped`, tokens on their way in `routing` and `permute`."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradient, require, unsupported, wide

_SOFTMAX, _SIGMOID = 0, 1


def _normal(x: Tensor, norm_type: int) -> Tensor:
    return x.softmax(-1) if norm_type == _SOFTMAX else x.sigmoid()


def _weights(scores: Tensor, chosen: Tensor, renorm: int, norm_type: int, factor: float, eps: float) -> Tensor:
    """The scores of the chosen experts; those of a sigmoid, or with renorm, are made to sum to one."""
    weights = scores.gather(-1, chosen)
    if renorm == 1 or norm_type == _SIGMOID:
        weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return weights * factor


def _within_groups(scores: Tensor, k_group: int, group_count: int, mode: int) -> Tensor:
    """Scores of the groups whose largest (mode 0), or two largest together (mode 1), stand out; the others can not be chosen."""
    grouped = torch.unflatten(scores, -1, (group_count, -1))
    value = grouped.amax(-1) if mode == 0 else grouped.topk(2, -1).values.sum(-1)
    best = value.topk(k_group, -1).indices
    open_ = torch.zeros_like(value, dtype=torch.bool).scatter(-1, best, True)
    return grouped.masked_fill(~open_.unsqueeze(-1), -torch.inf).flatten(-2)


def _check_gate(x: Tensor, k: int, name: str) -> None:
    require(x.dim() >= 1 and 0 < k <= x.shape[-1], f"{name}: {k} of {tuple(x.shape)[-1:]} experts", ErrCode.VALUE)


def npu_moe_gating_top_k(
    x: Tensor,
    k: int,
    *,
    bias: Tensor | None = None,
    input_ids: Tensor | None = None,
    tid2eid: Tensor | None = None,
    k_group: int = 1,
    group_count: int = 1,
    group_select_mode: int = 0,
    renorm: int = 0,
    norm_type: int = 0,
    out_flag: bool = False,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> tuple[Tensor, Tensor, Tensor]:
    """The bias has a say in who is chosen, not in the weights. The third result is all scores, empty unless out_flag."""
    name = "npu_moe_gating_top_k"
    if input_ids is not None or tid2eid is not None:
        raise unsupported(f"{name}: input_ids and tid2eid, experts chosen by a table of tokens")
    _check_gate(x, k, name)
    require(norm_type in (_SOFTMAX, _SIGMOID), f"{name}: norm_type must be 0 (softmax) or 1 (sigmoid), not {norm_type}")
    require(group_select_mode in (0, 1), f"{name}: group_select_mode must be 0 or 1, not {group_select_mode}")
    require(renorm in (0, 1), f"{name}: renorm must be 0 or 1, not {renorm}")
    require(
        0 < k_group <= group_count and x.shape[-1] % group_count == 0 and k <= x.shape[-1] // group_count * k_group,
        f"{name}: {k} experts from {k_group} of {group_count} groups of {x.shape[-1]} experts",
        ErrCode.VALUE,
    )
    scores = _normal(wide(x), norm_type)
    ranked = scores.detach() if bias is None else scores.detach() + wide(bias.detach())
    if k_group < group_count:
        ranked = _within_groups(ranked, k_group, group_count, group_select_mode)
    chosen = ranked.topk(k, -1).indices
    y = _weights(scores, chosen, renorm, norm_type, routed_scaling_factor, eps)
    return y.to(x.dtype), chosen.to(torch.int32), scores if out_flag else scores.new_empty(0)


def npu_moe_gating_top_k_backward(
    x_norm: Tensor,
    grad_y: Tensor,
    expertIdx: Tensor,
    *,
    renorm: int = 0,
    norm_type: int = 0,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> Tensor:
    """The gradient of the logits from the scores (the third result of the forward call); of the dtype of grad_y."""
    chosen = expertIdx.long()
    grad = gradient(
        lambda scores: _weights(scores, chosen, renorm, norm_type, routed_scaling_factor, eps),
        wide(grad_y),
        wide(x_norm),
    )
    scores = wide(x_norm)
    if norm_type == _SIGMOID:
        return (grad * scores * (1 - scores)).to(grad_y.dtype)
    return (scores * (grad - (grad * scores).sum(-1, keepdim=True))).to(grad_y.dtype)


def _finished(chosen: Tensor, finished: Tensor | None, experts: int) -> Tensor:
    """Rows that are finished go to no expert: its number is one past the last."""
    if finished is None:
        return chosen
    return torch.where(finished.bool().reshape(*chosen.shape[:-1], 1), torch.full_like(chosen, experts), chosen)


def npu_moe_gating_top_k_softmax(
    x: Tensor, finished: Tensor | None = None, k: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    """The third result numbers the pairs of row and choice, all rows of the first choice first."""
    _check_gate(x, k, "npu_moe_gating_top_k_softmax")
    values, chosen = wide(x).softmax(-1).topk(k, -1)
    rows = chosen.numel() // k
    numbers = torch.arange(rows * k, device=x.device, dtype=torch.int32).reshape(k, rows).t().reshape(chosen.shape)
    return values.to(x.dtype), _finished(chosen, finished, x.shape[-1]).to(torch.int32), numbers.contiguous()


def npu_moe_gating_top_k_softmax_v2(
    x: Tensor,
    *,
    k: int = 1,
    finished: Tensor | None = None,
    renorm: int | None = 0,
    output_softmax: bool | None = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """renorm 1 takes the softmax of the chosen logits only. The third result is the softmax of all, empty unless asked for."""
    name = "npu_moe_gating_top_k_softmax_v2"
    _check_gate(x, k, name)
    require(renorm in (None, 0, 1), f"{name}: renorm must be 0 or 1, not {renorm}")
    require(
        not (renorm and output_softmax),
        f"{name}: output_softmax is for renorm 0; with renorm 1 there is no softmax of all",
    )
    logits = wide(x)
    scores = logits if renorm else logits.softmax(-1)
    values, chosen = scores.topk(k, -1)
    y = values.softmax(-1) if renorm else values
    chosen = _finished(chosen, finished, x.shape[-1])
    return y.to(x.dtype), chosen.to(torch.int32), scores.float() if output_softmax else scores.new_empty(0)
