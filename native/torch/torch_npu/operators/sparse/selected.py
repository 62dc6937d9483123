"""Attention over selected blocks of keys (NSA): sequences one after another, or a paged cache."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.attention.core import attention
from torch_npu.operators.attention.layouts import check_layout, check_operands, cut, lengths, to_heads
from torch_npu.operators.attention.problem import Spec
from torch_npu.operators.common.arguments import ErrCode, gradients, refuse, require, unsupported
from torch_npu.operators.inference.paged import sequence
from torch_npu.operators.sparse._core import unseen

_LANES = 8  # copies of a statistic


def _check_blocks(name: str, topk: Tensor, wanted: tuple[int, ...], size: int) -> None:
    require(size > 0, f"{name}: select_block_size must be positive, not {size}", ErrCode.VALUE)
    require(tuple(topk.shape) == wanted, f"{name}: topk_indices must be {wanted}, not {tuple(topk.shape)}")


def _attend(
    q: Tensor, k: Tensor, v: Tensor, topk: Tensor, size: int, scale: float, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """One sequence, [1, heads, rows, width]; topk is [rows, key heads, count]."""
    hidden = unseen(topk.unsqueeze(0), k.shape[2], size).repeat_interleave(q.shape[1] // k.shape[1], 1)
    if mask is not None:
        hidden = hidden | mask[: q.shape[2], : k.shape[2]].bool()
    return attention(q, k, v, Spec(scale, mask=hidden))


def npu_nsa_select_attention(
    query: Tensor, key: Tensor, value: Tensor, topk_indices: Tensor, scale_value: float, head_num: int, select_block_size: int,
    select_block_count: int, *, atten_mask: Tensor | None = None, actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Tensors are [tokens, heads, width], lengths cumulative (none: one sequence). topk_indices [tokens, key heads, count] name
    blocks of keys of the token's sequence, negative: none. atten_mask [rows, columns], 1 = masked, is cut to each sequence; without
    it all keys of the named blocks are seen. Statistics are [tokens, heads, 8]."""
    name = "npu_nsa_select_attention"
    q, k, v = (to_heads(x, "TND", 0, name) for x in (query, key, value))
    check_operands(q, k, v, name)
    require(q.shape[1] == head_num, f"{name}: the query has {q.shape[1]} heads, head_num is {head_num}")
    _check_blocks(name, topk_indices, (query.shape[0], key.shape[1], select_block_count), select_block_size)
    rows = lengths(actual_seq_qlen or [query.shape[0]], query.shape[0], f"{name}: actual_seq_qlen")
    columns = lengths(actual_seq_kvlen or [key.shape[0]], key.shape[0], f"{name}: actual_seq_kvlen")
    require(
        len(rows) == len(columns) and sum(rows) == query.shape[0],
        f"{name}: {len(rows)} lengths of queries ({sum(rows)} tokens) and {len(columns)} of keys for {query.shape[0]} tokens",
    )
    require(
        atten_mask is None
        or (atten_mask.dim() == 2 and atten_mask.shape[0] >= max(rows) and atten_mask.shape[1] >= max(columns)),
        f"{name}: atten_mask must cover {max(rows)} rows and {max(columns)} columns",
    )
    pieces = zip(cut(q, rows, 2), cut(k, columns, 2), cut(v, columns, 2), cut(topk_indices, rows, 0), strict=True)
    results = [_attend(*piece, select_block_size, scale_value, atten_mask) for piece in pieces]
    out, top, total = (torch.cat(parts, 2).squeeze(0).transpose(0, 1) for parts in zip(*results, strict=True))
    return out, top.unsqueeze(-1).expand(-1, -1, _LANES), total.unsqueeze(-1).expand(-1, -1, _LANES)


def npu_nsa_select_attention_grad(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, attention_out: Tensor, softmax_max: Tensor, softmax_sum: Tensor,
    topk_indices: Tensor, scale_value: float, head_num: int, select_block_size: int, select_block_count: int, *,
    atten_mask: Tensor | None = None, actual_seq_qlen: list[int] | None = None, actual_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What the forward call kept is computed again."""
    return gradients(
        lambda q, k, v: npu_nsa_select_attention(
            q, k, v, topk_indices, scale_value, head_num, select_block_size, select_block_count, atten_mask=atten_mask,
            actual_seq_qlen=actual_seq_qlen, actual_seq_kvlen=actual_seq_kvlen,
        )[0],
        grad, query, key, value,
    )  # fmt: skip


def npu_nsa_select_attention_infer(
    query: Tensor, key: Tensor, value: Tensor, topk_indices: Tensor, scale_value: float, head_num: int, key_value_head_num: int,
    select_block_size: int, select_block_count: int, page_block_size: int, *, layout: str = "BSND",
    atten_mask: Tensor | None = None, block_table: Tensor | None = None, actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """One token a sequence, [batch, 1, heads, width]; caches are [pages, page_block_size, key heads * width]; actual_seq_kvlen are the
    lengths of the sequences (not their ends); topk_indices are [batch, 1, key heads, count]."""
    name = "npu_nsa_select_attention_infer"
    check_layout(layout, ("BSND",), name)
    refuse(name, atten_mask=atten_mask)
    require(
        query.dim() == 4 and query.shape[2] == head_num,
        f"{name}: query must be [batch, 1, {head_num}, width], not {tuple(query.shape)}",
    )
    if query.shape[1] != 1 or (actual_seq_qlen and any(length != 1 for length in actual_seq_qlen)):
        raise unsupported(f"{name}: {query.shape[1]} tokens a sequence; one can be computed")
    batch = query.shape[0]
    require(
        block_table is not None and actual_seq_kvlen is not None and len(actual_seq_kvlen) == batch == len(block_table),
        f"{name}: block_table and actual_seq_kvlen are needed, with an entry for each of {batch} sequences",
    )
    assert block_table is not None and actual_seq_kvlen is not None
    _check_blocks(name, topk_indices, (batch, 1, key_value_head_num, select_block_count), select_block_size)
    outs = []
    for number, length in enumerate(actual_seq_kvlen):
        pages = block_table[number]
        k, v = (
            sequence(cache, pages, int(length), key_value_head_num, page_block_size, name) for cache in (key, value)
        )
        q = query[number].transpose(0, 1).unsqueeze(0)
        check_operands(q, k, v, name)
        outs.append(_attend(q, k, v, topk_indices[number], select_block_size, scale_value, None)[0].transpose(1, 2))
    return torch.cat(outs)
