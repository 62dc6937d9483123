"""Pieces of attention that models for the chip call as one."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu._errors import ErrCode, pta_error

_HEAD = 64  # the size of a head that the chip's fused attention knows


def matmul_transpose(tensor1: Tensor, tensor2: Tensor) -> Tensor:
    """`tensor1 @ tensor2.transpose(-2, -1)`."""
    return torch.matmul(tensor1, tensor2.transpose(-2, -1))


def fuse_add_softmax_dropout(
    training: bool,
    dropout: torch.nn.Module,
    attn_mask: Tensor,
    attn_scores: Tensor,
    attn_head_size: int,
    p: float = 0.5,
    dim: int = -1,
) -> Tensor:
    """Dropout of softmax(scores / sqrt(head size) + mask): with probability `p` in training, else through the module."""
    alpha = 1 / math.sqrt(attn_head_size)
    if training:
        return torch.ops.npu.npu_dropout_with_add_softmax(attn_scores, attn_mask, alpha, p, dim)[2]
    return dropout(torch.softmax(torch.add(attn_mask, attn_scores, alpha=alpha), dim))


def _attend(
    hidden: Tensor,
    mask: Tensor,
    kernels: tuple[Tensor, Tensor, Tensor],
    biases: tuple[Tensor, Tensor, Tensor],
    scale: float,
    keep_prob: float,
) -> Tensor:
    """Attention with heads of 64 over rows [B * S, hidden]; mask [B, 1, S, S] is added. keep_prob 0 stands for no dropout."""
    if (
        hidden.dim() != 2
        or mask.dim() != 4
        or hidden.shape[0] != mask.shape[0] * mask.shape[-1]
        or hidden.shape[1] % _HEAD
    ):
        raise ValueError(
            f"npu_fused_attention: hidden_states {list(hidden.shape)} and attention_mask {list(mask.shape)} do not fit; they must "
            f"be [B * S, heads * {_HEAD}] and [B, 1, S, S]" + pta_error(ErrCode.VALUE)
        )
    batch, length = mask.shape[0], mask.shape[-1]

    def heads(kernel: Tensor, bias: Tensor) -> Tensor:
        return F.linear(hidden, kernel, bias).reshape(batch, length, -1, _HEAD).transpose(1, 2)

    query, key, value = (heads(kernel, bias) for kernel, bias in zip(kernels, biases, strict=True))
    weights = torch.softmax((matmul_transpose(query, key) * scale + mask).float(), -1).to(hidden.dtype)
    if 0 < keep_prob < 1:
        weights = F.dropout(weights, 1 - keep_prob)
    return torch.matmul(weights, value).transpose(1, 2).reshape(hidden.shape)


def npu_fused_attention(
    hidden_states: Tensor,
    attention_mask: Tensor,
    query_kernel: Tensor,
    key_kernel: Tensor,
    value_kernel: Tensor,
    query_bias: Tensor,
    key_bias: Tensor,
    value_bias: Tensor,
    scale: float = 1,
    keep_prob: float = 0,
) -> Tensor:
    """The self-attention of BERT from the hidden states to the context, with the weights of its three linear layers."""
    kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
    return _attend(hidden_states, attention_mask, kernels, biases, scale, keep_prob)


def npu_fused_attention_with_layernorm(
    hidden_states: Tensor,
    attention_mask: Tensor,
    query_kernel: Tensor,
    key_kernel: Tensor,
    value_kernel: Tensor,
    query_bias: Tensor,
    key_bias: Tensor,
    value_bias: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: float = 1,
    keep_prob: float = 0,
) -> tuple[Tensor, Tensor]:
    """The same after a layer norm (eps 1e-5): the context, and the normalised states for the residual."""
    normed = F.layer_norm(hidden_states, hidden_states.shape[-1:], gamma, beta, 1e-5)
    kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
    return _attend(normed, attention_mask, kernels, biases, scale, keep_prob), normed
