"""Floyd attention: a pair (i, k) looks at every j through the pairs (i, j) and (j, k)."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradients, require, wide

_LOWEST = torch.finfo(torch.float32).min


def _check(query: Tensor, key_ij: Tensor, value_ij: Tensor, key_jk: Tensor, value_jk: Tensor) -> None:
    name = "npu_fused_floyd_attention"
    every = (query, key_ij, value_ij, key_jk, value_jk)
    require(all(x.dim() == 5 for x in every), f"{name}: all five inputs have 5 dimensions [B, N, x, y, D]")
    batch, heads, i, k, width = query.shape
    j = key_ij.shape[3]
    require(
        key_ij.shape == value_ij.shape == (batch, heads, i, j, width)
        and key_jk.shape == value_jk.shape == (batch, heads, j, k, width),
        f"{name}: query {tuple(query.shape)}, key_ij {tuple(key_ij.shape)}, key_jk {tuple(key_jk.shape)} and their values "
        "do not fit [B, N, I, K, D], [B, N, I, J, D], [B, N, J, K, D]",
    )


def _scores(query: Tensor, key_ij: Tensor, key_jk: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """[B, N, I, K, J]."""
    first = query @ key_ij.mT
    second = (query.transpose(2, 3) @ key_jk.permute(0, 1, 3, 4, 2)).transpose(2, 3)
    scores = (first + second) * scale
    if mask is None:
        return scores
    require(
        mask.dtype in (torch.bool, torch.uint8),
        f"npu_fused_floyd_attention: atten_mask must be bool or uint8, not {mask.dtype}",
        ErrCode.TYPE,
    )
    return scores.masked_fill(mask != 0, -torch.inf)


def _attend(
    query: Tensor, key_ij: Tensor, value_ij: Tensor, key_jk: Tensor, value_jk: Tensor, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k1, v1, k2, v2 = (wide(x) for x in (query, key_ij, value_ij, key_jk, value_jk))
    scores = _scores(q, k1, k2, mask, scale)
    top = scores.detach().amax(-1, keepdim=True).clamp(min=_LOWEST)
    powers = torch.exp(scores - top)
    total = powers.sum(-1, keepdim=True)
    shares = powers / torch.where(total == 0, 1.0, total)
    out = shares @ v1 + (shares.transpose(2, 3) @ v2.transpose(2, 3)).transpose(2, 3)
    return out.to(query.dtype), top, total.detach()


def npu_fused_floyd_attention(
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    *,
    atten_mask: Tensor | None = None,
    scale_value: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """atten_mask broadcasts to [B, N, I, K, J]. Returns the output and each row's maximum and sum, [B, N, I, K, 8]."""
    _check(query_ik, key_ij, value_ij, key_jk, value_jk)
    out, top, total = _attend(query_ik, key_ij, value_ij, key_jk, value_jk, atten_mask, scale_value)
    return out, top.repeat(1, 1, 1, 1, 8), total.repeat(1, 1, 1, 1, 8)


def npu_fused_floyd_attention_backward(
    grad_output: Tensor,
    query_ik: Tensor,
    key_ij: Tensor,
    value_ij: Tensor,
    key_jk: Tensor,
    value_jk: Tensor,
    attention_out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    *,
    atten_mask: Tensor | None = None,
    scale_value: float = 1.0,
) -> tuple[Tensor, ...]:
    """What the forward call kept is computed again; it only has to be of the forward call's shapes."""
    inputs = (query_ik, key_ij, value_ij, key_jk, value_jk)
    _check(*inputs)
    require(
        attention_out.shape == query_ik.shape and softmax_max.shape == softmax_sum.shape,
        f"npu_fused_floyd_attention_backward: attention_out {tuple(attention_out.shape)}, softmax_max "
        f"{tuple(softmax_max.shape)}, softmax_sum {tuple(softmax_sum.shape)} are not of one forward call",
    )

    def forward(q: Tensor, k1: Tensor, v1: Tensor, k2: Tensor, v2: Tensor) -> Tensor:
        return _attend(q, k1, v1, k2, v2, atten_mask, scale_value)[0]

    return gradients(forward, grad_output, *inputs)
