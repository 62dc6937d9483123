"""Attention over compressed blocks of keys (NSA), and which blocks it would have selected.

A compressed key stands for compress_block_size keys, one begins at each compress_stride; a selected block is select_block_size keys.
The importance of a selected block is the sum of the probabilities of compressed keys, once for each stride that both cover, over the
query heads of a key head. Silent spots: topk_mask [rows, blocks] is 1 where a block must not be chosen; the best come first, and -1
stands where there are fewer blocks than asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.attention.core import attention
from torch_npu.operators.attention.layouts import check_layout, check_operands, cut, lengths, to_heads
from torch_npu.operators.attention.problem import Spec
from torch_npu.operators.common.arguments import ErrCode, refuse, require, unsupported, wide
from torch_npu.operators.inference.paged import sequence

_LANES = 8  # copies of a statistic


@dataclass(frozen=True)
class _Blocks:
    """The sizes of compressed and selected blocks, and how many of the latter are wanted."""

    name: str
    size: int
    stride: int
    selected: int
    count: int

    def __post_init__(self) -> None:
        require(
            min(self.size, self.stride, self.selected, self.count) > 0
            and self.size % self.stride == 0
            and self.selected % self.stride == 0,
            f"{self.name}: compress_block_size {self.size} and select_block_size {self.selected} must be multiples of "
            f"compress_stride {self.stride}, and select_block_count {self.count} positive",
            ErrCode.VALUE,
        )

    def shared(self, columns: int, blocks: int, device: torch.device) -> Tensor:
        """[columns, blocks]: the strides that a compressed key and a selected block both cover."""
        begin = torch.arange(columns, device=device).unsqueeze(1)
        first = torch.arange(blocks, device=device) * (self.selected // self.stride)
        start = torch.maximum(begin, first)
        end = torch.minimum(begin + self.size // self.stride, first + self.selected // self.stride)
        return (end - start).clamp(min=0)

    def best(self, shares: Tensor, kv_heads: int, blocks: int, hidden: Tensor | None) -> Tensor:
        """[rows, key heads, count] of int32; shares are [heads, rows, columns]."""
        grouped = torch.unflatten(shares, 0, (kv_heads, -1)).sum(1)
        worth = grouped @ self.shared(shares.shape[-1], blocks, shares.device).to(shares.dtype)
        if hidden is not None:
            worth = worth.masked_fill(hidden[: worth.shape[1], :blocks].bool(), -torch.inf)
        values, index = worth.topk(min(self.count, blocks), -1)
        index = index.masked_fill(values == -torch.inf, -1).to(torch.int32)
        return F.pad(index, (0, self.count - index.shape[-1]), value=-1).transpose(0, 1)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, scale: float, sizes: _Blocks, blocks: int, mask: Tensor | None, topk_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Output, maxima and sums of one sequence [1, heads, rows, ...], and its blocks. A row that sees nothing is zero."""
    hidden = None if mask is None else mask[: q.shape[2], : k.shape[2]].bool()[None, None]
    out, top, total = attention(q, k, v, Spec(scale, mask=hidden))
    with torch.no_grad():
        keys = wide(k).repeat_interleave(q.shape[1] // k.shape[1], 1)
        scores = wide(q) @ keys.transpose(-1, -2) * scale
        scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        shares = scores.softmax(-1).nan_to_num(0.0)
        chosen = sizes.best(shares[0], k.shape[1], blocks, topk_mask)
    return out, top, total, chosen


def npu_nsa_compress_attention(
    query: Tensor, key: Tensor, value: Tensor, scale_value: float, head_num: int, compress_block_size: int, compress_stride: int,
    select_block_size: int, select_block_count: int, *, topk_mask: Tensor | None = None, atten_mask: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None, actual_cmp_seq_kvlen: list[int] | None = None,
    actual_sel_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Tensors are [tokens, heads, width], lengths cumulative: of queries, compressed keys and selected blocks (none: one sequence,
    whose blocks are those that its compressed keys touch). Output, blocks [tokens, key heads, count], statistics [tokens, heads, 8]."""
    name = "npu_nsa_compress_attention"
    sizes = _Blocks(name, compress_block_size, compress_stride, select_block_size, select_block_count)
    q, k, v = (to_heads(x, "TND", 0, name) for x in (query, key, value))
    check_operands(q, k, v, name)
    require(q.shape[1] == head_num, f"{name}: the query has {q.shape[1]} heads, head_num is {head_num}")
    rows = lengths(actual_seq_qlen or [query.shape[0]], query.shape[0], f"{name}: actual_seq_qlen")
    columns = lengths(actual_cmp_seq_kvlen or [key.shape[0]], key.shape[0], f"{name}: actual_cmp_seq_kvlen")
    if actual_sel_seq_kvlen is None:
        ends = [(count - 1) * compress_stride + compress_block_size if count else 0 for count in columns]
        blocks = [-(-end // select_block_size) for end in ends]
    else:
        blocks = lengths(actual_sel_seq_kvlen, actual_sel_seq_kvlen[-1], f"{name}: actual_sel_seq_kvlen")
    require(
        len(rows) == len(columns) == len(blocks) and sum(rows) == query.shape[0],
        f"{name}: {len(rows)} lengths of queries ({sum(rows)} of {query.shape[0]} tokens), {len(columns)} of keys, {len(blocks)} of blocks",
    )
    for what, mask, most in (("atten_mask", atten_mask, max(columns)), ("topk_mask", topk_mask, max(blocks))):
        require(
            mask is None or (mask.dim() == 2 and mask.shape[0] >= max(rows) and mask.shape[1] >= most),
            f"{name}: {what} must cover {max(rows)} rows and {most} columns",
        )
    parts = zip(cut(q, rows, 2), cut(k, columns, 2), cut(v, columns, 2), blocks, strict=True)
    results = [_attend(a, b, c, scale_value, sizes, count, atten_mask, topk_mask) for a, b, c, count in parts]
    out, top, total = (torch.cat([result[at] for result in results], 2).squeeze(0).transpose(0, 1) for at in range(3))
    chosen = torch.cat([result[3] for result in results])
    return out, chosen, top.unsqueeze(-1).expand(-1, -1, _LANES), total.unsqueeze(-1).expand(-1, -1, _LANES)


def npu_nsa_compress_attention_infer(
    query: Tensor, key: Tensor, value: Tensor, scale_value: float, head_num: int, key_value_head_num: int, select_block_size: int,
    select_block_count: int, page_block_size: int, compress_block_size: int, compress_stride: int, *, layout: str = "TND",
    atten_mask: Tensor | None = None, block_table: Tensor | None = None, topk_mask: Tensor | None = None,
    actual_seq_qlen: list[int] | None = None, actual_cmp_seq_kvlen: list[int] | None = None,
    actual_sel_seq_kvlen: list[int] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One token a sequence, [batch, heads, width]; caches of compressed keys are [pages, page_block_size, key heads * width];
    actual_cmp_seq_kvlen and actual_sel_seq_kvlen are the numbers of compressed keys and of blocks of each sequence (not ends)."""
    name = "npu_nsa_compress_attention_infer"
    check_layout(layout, ("TND",), name)
    refuse(name, atten_mask=atten_mask, topk_mask=topk_mask)
    sizes = _Blocks(name, compress_block_size, compress_stride, select_block_size, select_block_count)
    require(
        query.dim() == 3 and query.shape[1] == head_num,
        f"{name}: query must be [batch, {head_num}, width], not {tuple(query.shape)}",
    )
    batch = query.shape[0]
    if actual_seq_qlen is not None and list(actual_seq_qlen) not in ([1] * batch, list(range(1, batch + 1))):
        raise unsupported(f"{name}: actual_seq_qlen {list(actual_seq_qlen)}; one token a sequence can be computed")
    require(
        block_table is not None and len(block_table) == batch,
        f"{name}: block_table is needed, with a row for each of {batch} sequences",
    )
    numbers = {"actual_cmp_seq_kvlen": actual_cmp_seq_kvlen, "actual_sel_seq_kvlen": actual_sel_seq_kvlen}
    for what, counts in numbers.items():
        require(counts is not None and len(counts) == batch, f"{name}: {what} must have {batch} entries, not {counts}")
    assert block_table is not None and actual_cmp_seq_kvlen is not None and actual_sel_seq_kvlen is not None
    outs, chosen = [], []
    for number, (length, blocks) in enumerate(zip(actual_cmp_seq_kvlen, actual_sel_seq_kvlen, strict=True)):
        pages = block_table[number]
        k, v = (
            sequence(cache, pages, int(length), key_value_head_num, page_block_size, name) for cache in (key, value)
        )
        q = query[number].reshape(1, head_num, 1, -1)
        check_operands(q, k, v, name)
        out, _, _, best = _attend(q, k, v, scale_value, sizes, int(blocks), None, None)
        outs.append(out.reshape(1, head_num, -1))
        chosen.append(best)
    return torch.cat(outs), torch.cat(chosen)


def npu_nsa_compress_infer__cache(
    input: Tensor, weight: Tensor, slot_mapping: Tensor, compress_block_size: int, compress_stride: int, page_block_size: int, *,
    block_table: Tensor | None = None, actual_seq_len: list[int] | None = None, cache: Tensor,
) -> Tensor:  # fmt: skip
    """input is the paged cache [pages, page_block_size, heads, width], weight [block, heads]. A sequence whose last key ends a compressed
    block gets that block's weighted sum into the row slot_mapping[sequence] of cache [..., heads, width]; the others nothing."""
    name = "npu_nsa_compress_infer"
    heads, width = input.shape[-2:]
    require(
        input.dim() == 4 and input.shape[1] == page_block_size,
        f"{name}: input must be [pages, {page_block_size}, heads, width], not {tuple(input.shape)}",
    )
    require(
        weight.shape == (compress_block_size, heads) and 0 < compress_stride <= compress_block_size,
        f"{name}: weight must be ({compress_block_size}, {heads}), not {tuple(weight.shape)}, and compress_stride {compress_stride} "
        f"in 1 to {compress_block_size}",
    )
    require(
        block_table is not None
        and actual_seq_len is not None
        and len(block_table) == len(actual_seq_len) == slot_mapping.numel(),
        f"{name}: block_table, actual_seq_len and slot_mapping are needed, with an entry for each sequence",
    )
    assert block_table is not None and actual_seq_len is not None
    rows = cache.view(-1, heads, width)
    for number, length in enumerate(actual_seq_len):
        start = int(length) - compress_block_size
        if start < 0 or start % compress_stride:
            continue
        positions = torch.arange(start, int(length), device=input.device)
        pages = block_table[number].long()[positions // page_block_size]
        block = wide(input[pages, positions % page_block_size])
        row = (block * wide(weight).unsqueeze(-1)).sum(0, keepdim=True)
        rows.index_copy_(0, slot_mapping.reshape(-1)[number : number + 1].long(), row.to(cache.dtype))
    return cache
