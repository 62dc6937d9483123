"""The index that chooses keys, in training and with quantised keys. Layout BSND: [batch, rows, heads, width]."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.attention.layouts import check_layout
from torch_npu.operators.common.arguments import ErrCode, gradients, refuse, require
from torch_npu.operators.sparse._core import MAX, index_scores


def _check(name: str, layout: str | None, pre_tokens: int | None, next_tokens: int | None, **lengths: object) -> None:
    check_layout(layout or "BSND", ("BSND",), name)
    refuse(
        name, pre_tokens=None if pre_tokens in (None, MAX) else pre_tokens,
        next_tokens=None if next_tokens in (None, MAX) else next_tokens, **lengths,
    )  # fmt: skip


def npu_lightning_indexer_grad(
    query: Tensor, key: Tensor, dy: Tensor, sparse_indices: Tensor, weights: Tensor,
    actual_seq_lengths_query: Tensor | None = None, actual_seq_lengths_key: Tensor | None = None, layout: str | None = "BSND",
    sparse_mode: int | None = 3, pre_tokens: int | None = MAX, next_tokens: int | None = MAX,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Of query, key and weights, from dy, the gradient of the scores at sparse_indices [batch, rows, key heads, count] (-1: none)."""
    name = "npu_lightning_indexer_grad"
    _check(
        name, layout, pre_tokens, next_tokens, actual_seq_lengths_query=actual_seq_lengths_query,
        actual_seq_lengths_key=actual_seq_lengths_key,
    )  # fmt: skip
    require(
        dy.shape == sparse_indices.shape,
        f"{name}: dy {tuple(dy.shape)} and sparse_indices {tuple(sparse_indices.shape)} must have one shape",
    )
    require(sparse_mode in (None, 0, 3), f"{name}: sparse_mode must be 0 or 3, not {sparse_mode}", ErrCode.VALUE)
    chosen, places = sparse_indices >= 0, sparse_indices.clamp(min=0).to(torch.int64)

    def scores(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
        return (index_scores(q, k, w, 0, name).gather(-1, places) * chosen).to(dy.dtype)

    return gradients(scores, dy, query, key, weights)


def npu_dense_lightning_indexer_softmax_lse(
    query_index: Tensor, key_index: Tensor, weights: Tensor, *, actual_seq_qlen: list[int] | None = None,
    actual_seq_klen: list[int] | None = None, layout: str | None = "BSND", sparse_mode: int | None = 3,
    pre_tokens: int | None = MAX, next_tokens: int | None = MAX,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The maximum of each row of scores and the sum of exp(score - maximum), both [batch, key heads, rows]."""
    name = "npu_dense_lightning_indexer_softmax_lse"
    _check(name, layout, pre_tokens, next_tokens, actual_seq_qlen=actual_seq_qlen, actual_seq_klen=actual_seq_klen)
    scores = index_scores(query_index, key_index, weights, 3 if sparse_mode is None else sparse_mode, name)
    top = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    total = (scores - top).exp().sum(-1)
    return top.squeeze(-1).transpose(1, 2).contiguous(), total.transpose(1, 2).contiguous()


def npu_quant_lightning_indexer(
    query: Tensor, key: Tensor, weights: Tensor, query_dequant_scale: Tensor, key_dequant_scale: Tensor, query_quant_mode: int,
    key_quant_mode: int, *, actual_seq_lengths_query: Tensor | None = None, actual_seq_lengths_key: Tensor | None = None,
    block_table: Tensor | None = None, layout_query: str = "BSND", layout_key: str = "BSND", sparse_count: int = 2048,
    sparse_mode: int = 3, pre_tokens: int = MAX, next_tokens: int = MAX, query_dtype: int | None = None,
    key_dtype: int | None = None,
) -> Tensor:  # fmt: skip
    """npu_lightning_indexer of the numbers that query and key stand for; quantisation mode 0, the only one, is a scale for each token
    and head: [batch, rows, heads]."""
    name = "npu_quant_lightning_indexer"
    refuse(name, query_dtype=query_dtype, key_dtype=key_dtype)
    for what, mode in (("query_quant_mode", query_quant_mode), ("key_quant_mode", key_quant_mode)):
        require(mode == 0, f"{name}: {what} must be 0, not {mode}", ErrCode.VALUE)
    for what, x, scale in (("query", query, query_dequant_scale), ("key", key, key_dequant_scale)):
        require(
            scale.shape == x.shape[:-1],
            f"{name}: {what}_dequant_scale must be {tuple(x.shape[:-1])}, not {tuple(scale.shape)}",
        )
    q, k = (
        query.float() * query_dequant_scale.float().unsqueeze(-1),
        key.float() * key_dequant_scale.float().unsqueeze(-1),
    )
    chosen: Tensor = torch.ops.npu.npu_lightning_indexer(
        q, k, weights, actual_seq_lengths_query=actual_seq_lengths_query, actual_seq_lengths_key=actual_seq_lengths_key,
        block_table=block_table, layout_query=layout_query, layout_key=layout_key, sparse_count=sparse_count,
        sparse_mode=sparse_mode, pre_tokens=pre_tokens, next_tokens=next_tokens,
    )[0]  # fmt: skip
    return chosen
