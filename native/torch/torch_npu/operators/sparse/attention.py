"""Attention over chosen keys: block masks, token selection by an index, compression of keys."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.attention.core import attention
from torch_npu.operators.attention.layouts import check_layout, check_operands, from_heads, to_heads
from torch_npu.operators.attention.masks import Band
from torch_npu.operators.attention.problem import Spec
from torch_npu.operators.common.arguments import ErrCode, gradients, refuse, require, unsupported, wide
from torch_npu.operators.sparse._core import MAX, index_scores, unseen


def _block_call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    block: list[int] | None,
    layout: str,
    scale: float,
    name: str,
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp for BNSD operands."""
    require(
        block is not None and len(block) == 2 and min(block) > 0,
        f"{name}: block_shape must be two positive numbers, not {block}",
        ErrCode.VALUE,
    )
    assert block is not None
    q, k, v = (to_heads(x, layout, 0, name) for x in (query, key, value))
    check_operands(q, k, v, name)
    rows, columns = q.shape[2], k.shape[2]
    wanted = (-(-rows // block[0]), -(-columns // block[1]))
    require(
        mask.dim() == 4 and tuple(mask.shape[2:]) == wanted and mask.shape[1] in (1, q.shape[1]),
        f"{name}: block_sparse_mask must be [batch, heads, {wanted[0]}, {wanted[1]}], not {tuple(mask.shape)}",
    )
    seen = mask.repeat_interleave(block[0], 2)[:, :, :rows].repeat_interleave(block[1], 3)[..., :columns]
    spec = Spec(scale or q.shape[-1] ** -0.5, mask=seen == 0)
    out, top, total = attention(q, k, v, spec)
    return from_heads(out, layout), top + total.log()


def npu_block_sparse_attention(
    query: Tensor, key: Tensor, value: Tensor, block_sparse_mask: Tensor, block_shape: list[int], *,
    q_input_layout: str = "TND", kv_input_layout: str = "TND", num_key_value_heads: int = 1, scale_value: float = 0.0,
    inner_precise: int = 1, actual_seq_lengths: list[int] | None = None, actual_seq_lengths_kv: list[int] | None = None,
    softmax_lse_flag: int | None = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One block of the mask for block_shape scores, 1 = computed. scale_value 0 is 1/sqrt(width). TND: one sequence."""
    name = "npu_block_sparse_attention"
    layout = check_layout(q_input_layout, ("TND", "BNSD"), name)
    require(
        kv_input_layout.upper() == layout,
        f"{name}: layouts of query and key differ: {q_input_layout}, {kv_input_layout}",
    )
    for lengths, tensor in ((actual_seq_lengths, query), (actual_seq_lengths_kv, key)):
        whole = tensor.shape[0] if layout == "TND" else tensor.shape[2]
        if lengths and any(length != whole for length in lengths):
            raise unsupported(
                f"{name}: lengths {list(lengths)}; whole sequences ({whole}) are computed, call it for each"
            )
    heads = key.shape[1]
    require(
        heads == num_key_value_heads, f"{name}: key has {heads} heads, num_key_value_heads is {num_key_value_heads}"
    )
    out, level = _block_call(query, key, value, block_sparse_mask, block_shape, layout, scale_value, name)
    return out, level[..., None] if softmax_lse_flag else level.new_empty(0)


def npu_block_sparse_attention_backward(
    d_out: Tensor, query: Tensor, key: Tensor, value: Tensor, attention_out: Tensor, softmax_lse: Tensor,
    block_sparse_mask: Tensor, block_shape: list[int] | None, actual_seq_lengths: list[int] | None,
    actual_seq_lengths_kv: list[int] | None, q_input_layout: str, kv_input_layout: str, num_key_value_heads: int,
    scale_value: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What the forward call kept is computed again."""
    return gradients(
        lambda q, k, v: npu_block_sparse_attention(
            q, k, v, block_sparse_mask, block_shape or [], q_input_layout=q_input_layout, kv_input_layout=kv_input_layout,
            num_key_value_heads=num_key_value_heads, scale_value=scale_value, actual_seq_lengths=actual_seq_lengths,
            actual_seq_lengths_kv=actual_seq_lengths_kv,
        )[0],
        d_out, query, key, value,
    )  # fmt: skip


def npu_lightning_indexer(
    query: Tensor, key: Tensor, weights: Tensor, *, actual_seq_lengths_query: Tensor | None = None,
    actual_seq_lengths_key: Tensor | None = None, block_table: Tensor | None = None, layout_query: str = "BSND",
    layout_key: str = "BSND", sparse_count: int = 2048, sparse_mode: int = 3, pre_tokens: int = MAX, next_tokens: int = MAX,
    return_value: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Indices [batch, rows, key heads, sparse_count] of int32, the best first, -1 where there are fewer keys; and their scores."""
    name = "npu_lightning_indexer"
    refuse(
        name, actual_seq_lengths_query=actual_seq_lengths_query, actual_seq_lengths_key=actual_seq_lengths_key,
        block_table=block_table, pre_tokens=None if pre_tokens == MAX else pre_tokens,
        next_tokens=None if next_tokens == MAX else next_tokens,
    )  # fmt: skip
    check_layout(layout_query, ("BSND",), name)
    check_layout(layout_key, ("BSND",), name)
    scores = index_scores(query, key, weights, sparse_mode, name)
    count = min(sparse_count, key.shape[1])
    values, index = scores.topk(count, -1)
    index = index.masked_fill(values == -torch.inf, -1).to(torch.int32)
    index = torch.nn.functional.pad(index, (0, sparse_count - count), value=-1)
    if not return_value:
        return index, query.new_empty(0)
    return index, torch.nn.functional.pad(values, (0, sparse_count - count), value=-torch.inf).to(query.dtype)


def npu_sparse_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, sparse_indices: Tensor, scale_value: float, *, block_table: Tensor | None = None,
    actual_seq_lengths_query: Tensor | None = None, actual_seq_lengths_kv: Tensor | None = None,
    query_rope: Tensor | None = None, key_rope: Tensor | None = None, sparse_block_size: int = 1, layout_query: str = "BSND",
    layout_kv: str = "BSND", sparse_mode: int = 3, pre_tokens: int = MAX, next_tokens: int = MAX, attention_mode: int = 0,
    return_softmax_lse: bool = False, sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Each row sees the blocks of keys that sparse_indices [batch, rows, key heads, count] name, -1 for none."""
    name = "npu_sparse_flash_attention"
    refuse(
        name, block_table=block_table, actual_seq_lengths_query=actual_seq_lengths_query,
        actual_seq_lengths_kv=actual_seq_lengths_kv, pre_tokens=None if pre_tokens == MAX else pre_tokens,
        next_tokens=None if next_tokens == MAX else next_tokens, attention_mode=attention_mode or None,
    )  # fmt: skip
    for layout in (layout_query, layout_kv):
        check_layout(layout, ("BSND",), name)
    require(sparse_mode in (0, 3), f"{name}: sparse_mode must be 0 or 3, not {sparse_mode}", ErrCode.VALUE)
    require((query_rope is None) == (key_rope is None), f"{name}: query_rope and key_rope must be given together")
    q = query if query_rope is None else torch.cat((query, query_rope), -1)
    k = key if key_rope is None else torch.cat((key, key_rope), -1)
    q, k, v = (x.transpose(1, 2) for x in (q, k, value))
    check_operands(q, k, v, name)
    mask = unseen(sparse_indices, k.shape[2], sparse_block_size).repeat_interleave(q.shape[1] // k.shape[1], 1)
    band = Band(None, k.shape[2] - q.shape[2]) if sparse_mode == 3 else Band()
    out, top, total = attention(q, k, v, Spec(scale_value, band, mask, sink=sinks is not None), None, sinks)
    if not return_softmax_lse:
        return from_heads(out, "BSND"), top.new_empty(0), total.new_empty(0)
    return from_heads(out, "BSND"), top, total


def npu_sparse_flash_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, sparse_indices: Tensor, d_out: Tensor, out: Tensor, softmax_max: Tensor,
    softmax_sum: Tensor, scale_value: float, sparse_block_size: int, query_rope: Tensor | None = None,
    key_rope: Tensor | None = None, actual_seq_qlen: Tensor | None = None, actual_seq_kvlen: Tensor | None = None,
    layout: str | None = "BSND", sparse_mode: int | None = 3, pre_tokens: int | None = MAX, next_tokens: int | None = MAX,
    attention_mode: int | None = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Of query, key, value and the rope parts (empty without them). What the forward call kept is computed again."""
    ropes = [rope for rope in (query_rope, key_rope) if rope is not None]
    require(len(ropes) != 1, "npu_sparse_flash_attention_grad: query_rope and key_rope must be given together")
    options: dict[str, Any] = {
        "actual_seq_lengths_query": actual_seq_qlen, "actual_seq_lengths_kv": actual_seq_kvlen, "layout_query": layout or "BSND",
        "layout_kv": layout or "BSND", "sparse_mode": 3 if sparse_mode is None else sparse_mode,
        "pre_tokens": MAX if pre_tokens is None else pre_tokens, "next_tokens": MAX if next_tokens is None else next_tokens,
        "attention_mode": attention_mode or 0, "sparse_block_size": sparse_block_size,
    }  # fmt: skip

    def forward(q: Tensor, k: Tensor, v: Tensor, *rope: Tensor) -> Tensor:
        more: dict[str, Any] = dict(zip(("query_rope", "key_rope"), rope, strict=False))
        return npu_sparse_flash_attention(q, k, v, sparse_indices, scale_value, **options, **more)[0]

    grads = gradients(forward, d_out, query, key, value, *ropes)
    dq, dk, dv, *of_ropes = grads
    dq_rope, dk_rope = of_ropes or (query.new_empty(0), query.new_empty(0))
    return dq, dk, dv, dq_rope, dk_rope


def npu_nsa_compress(
    input: Tensor,
    weight: Tensor,
    compress_block_size: int,
    compress_stride: int,
    *,
    actual_seq_len: list[int] | None = None,
) -> Tensor:
    """input [tokens, heads, width], weight [block, heads]: each output is a weighted sum of a block; blocks begin at each stride
    of a sequence (actual_seq_len are cumulative lengths), and one that does not fit is left out."""
    name = "npu_nsa_compress"
    require(
        weight.shape == (compress_block_size, input.shape[1]),
        f"{name}: weight must be ({compress_block_size}, {input.shape[1]}), not {tuple(weight.shape)}",
    )
    require(
        0 < compress_stride <= compress_block_size,
        f"{name}: compress_stride must be in 1 to {compress_block_size}, not {compress_stride}",
        ErrCode.VALUE,
    )
    ends = [input.shape[0]] if actual_seq_len is None else [int(end) for end in actual_seq_len]
    compressed = []
    for start, end in zip([0, *ends], ends, strict=False):
        if end - start >= compress_block_size:
            blocks = wide(input[start:end]).unfold(0, compress_block_size, compress_stride)
            compressed.append(torch.einsum("bndt,tn->bnd", blocks, wide(weight)))
    whole = torch.cat(compressed) if compressed else wide(input)[:0]
    return whole.to(input.dtype)


def npu_nsa_compress_grad(
    grad: Tensor, input: Tensor, weight: Tensor, compress_block_size: int, compress_stride: int, *,
    actual_seq_len: list[int] | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return gradients(
        lambda x, w: npu_nsa_compress(x, w, compress_block_size, compress_stride, actual_seq_len=actual_seq_len),
        grad, input, weight,
    )  # fmt: skip
