"""The multi-head attention of fairseq, whose arguments and weights it takes."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_npu._errors import ErrCode, pta_error


class MultiheadAttention(nn.Module):
    """Attention over [T, B, C]. Key and value may have sizes of their own; quantisation noise and incremental decoding are refused."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(
                f"embed_dim {embed_dim} must be divisible by num_heads {num_heads}" + pta_error(ErrCode.VALUE)
            )
        if q_noise:
            raise NotImplementedError(
                f"MultiheadAttention: q_noise {q_noise} (blocks of {qn_block_size}) is not supported; use 0"
                + pta_error(ErrCode.NOT_SUPPORT)
            )
        kdim, vdim = kdim or embed_dim, vdim or embed_dim
        if self_attention and not kdim == vdim == embed_dim:
            raise ValueError(
                "Self-attention requires query, key and value to be of the same size" + pta_error(ErrCode.VALUE)
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.add_zero_attn, self.dropout_p, self.scaling = add_zero_attn, dropout, 1 / math.sqrt(self.head_dim)
        self.k_proj = nn.Linear(kdim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(vdim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As fairseq starts them."""
        gain = 1 / math.sqrt(2) if self.k_proj.in_features == self.v_proj.in_features == self.embed_dim else 1.0
        for layer in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(layer.weight, gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                nn.init.xavier_normal_(bias)

    def _heads(self, x: Tensor) -> Tensor:
        """[S, B, C] as [B, heads, S, C / heads]."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def _extended(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The learned and the zero position after the others."""
        if self.bias_k is not None and self.bias_v is not None:
            key = torch.cat((key, self.bias_k.expand(1, key.shape[1], -1)))
            value = torch.cat((value, self.bias_v.expand(1, value.shape[1], -1)))
        if self.add_zero_attn:
            key, value = F.pad(key, (0, 0, 0, 0, 0, 1)), F.pad(value, (0, 0, 0, 0, 0, 1))
        return key, value

    def _scores(self, query: Tensor, key: Tensor, attn_mask: Tensor | None, padding: Tensor | None) -> Tensor:
        scores = torch.matmul(query, key.transpose(-2, -1))
        added = key.shape[2] - (padding.shape[1] if padding is not None else key.shape[2])
        if attn_mask is not None:
            mask = (
                torch.zeros_like(attn_mask, dtype=scores.dtype).masked_fill(attn_mask, -math.inf)
                if attn_mask.dtype == torch.bool
                else attn_mask
            )
            scores = scores + F.pad(mask, (0, key.shape[2] - mask.shape[-1]))
        if padding is not None:
            hidden = F.pad(padding.to(torch.bool), (0, added))
            scores = scores.masked_fill(hidden[:, None, None, :], -math.inf)
        return scores

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, Any] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if incremental_state is not None or static_kv:
            raise NotImplementedError(
                "MultiheadAttention: incremental_state and static_kv are not supported; decode without a cache"
                + pta_error(ErrCode.NOT_SUPPORT)
            )
        if self.self_attention:
            key = value = query
        elif self.encoder_decoder_attention and key is not None:
            value = key
        if key is None or value is None:
            raise ValueError("MultiheadAttention: key and value are needed" + pta_error(ErrCode.PARAM))
        keys, values = self._extended(self.k_proj(key), self.v_proj(value))
        queries = self._heads(self.q_proj(query) * self.scaling)
        scores = self._scores(queries, self._heads(keys), attn_mask, key_padding_mask)
        if before_softmax:
            return scores.flatten(0, 1), self._heads(values).flatten(0, 1)
        weights = torch.softmax(scores.float(), -1)
        dropped = F.dropout(weights.to(scores.dtype), self.dropout_p, self.training)
        context = torch.matmul(dropped, self._heads(values)).permute(2, 0, 1, 3).reshape(query.shape)
        if not (need_weights or need_head_weights):
            return self.out_proj(context), None
        shown = weights.transpose(0, 1)
        return self.out_proj(context), shown if need_head_weights else shown.mean(0)
