"""Attention of inference: prefill and decode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.attention.layouts import check_layout, from_heads, to_heads
from torch_npu.operators.common.arguments import dtype_of, into, refuse, require, unsupported
from torch_npu.operators.inference.scores import LAYOUTS, Antiquant, Inference, halves_of, infer

_MAX = 2147483647


def npu_prompt_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, *, padding_mask: Tensor | None = None, atten_mask: Tensor | None = None,
    pse_shift: Tensor | None = None, actual_seq_lengths: list[int] | None = None, deq_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None, deq_scale2: Tensor | None = None, quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None, num_heads: int = 1, scale_value: float = 1.0, pre_tokens: int = _MAX,
    next_tokens: int = 0, input_layout: str = "BSH", num_key_value_heads: int = 0,
    actual_seq_lengths_kv: list[int] | None = None, sparse_mode: int = 0,
) -> Tensor:  # fmt: skip
    name = "npu_prompt_flash_attention"
    refuse(name, padding_mask=padding_mask, deq_scale1=deq_scale1, quant_scale1=quant_scale1, deq_scale2=deq_scale2)
    call = Inference(
        name, query, key, value, num_heads, num_key_value_heads, input_layout, scale_value, atten_mask, pse_shift,
        actual_seq_lengths, actual_seq_lengths_kv, pre_tokens, next_tokens, sparse_mode, out_scale=quant_scale2,
        out_offset=quant_offset2,
    )  # fmt: skip
    return infer(call)[0]


def npu_incre_flash_attention(
    query: Tensor, key: Tensor, value: Tensor, *, padding_mask: Tensor | None = None, atten_mask: Tensor | None = None,
    pse_shift: Tensor | None = None, actual_seq_lengths: list[int] | None = None, antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None, block_table: Tensor | None = None, dequant_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None, dequant_scale2: Tensor | None = None, quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None, kv_padding_size: Tensor | None = None, num_heads: int = 1, scale_value: float = 1.0,
    input_layout: str = "BSH", num_key_value_heads: int = 0, block_size: int = 0, inner_precise: int = 1,
) -> Tensor:  # fmt: skip
    """inner_precise chooses between the product's kernels; there is one here. actual_seq_lengths are those of the keys."""
    name = "npu_incre_flash_attention"
    refuse(
        name, padding_mask=padding_mask, dequant_scale1=dequant_scale1, quant_scale1=quant_scale1,
        dequant_scale2=dequant_scale2, kv_padding_size=kv_padding_size,
    )  # fmt: skip
    layout = check_layout(input_layout, ("BSH", "BSND", "BNSD"), name)
    rows = query.shape[2 if layout == "BNSD" else 1]
    require(rows == 1, f"{name}: the query has {rows} rows; decoding takes 1 (npu_prompt_flash_attention takes more)")
    scales, offsets = halves_of(antiquant_scale), halves_of(antiquant_offset)
    call = Inference(
        name, query, key, value, num_heads, num_key_value_heads, layout, scale_value, atten_mask, pse_shift,
        kv_lens=actual_seq_lengths, mode=1, table=block_table, block_size=block_size, out_scale=quant_scale2,
        out_offset=quant_offset2, key_quant=Antiquant(scales[0], offsets[0]), value_quant=Antiquant(scales[1], offsets[1]),
    )  # fmt: skip
    return infer(call)[0]


def npu_fused_infer_attention_score(
    query: Tensor, key: Tensor, value: Tensor, *, pse_shift: Tensor | None = None, atten_mask: Tensor | None = None,
    actual_seq_lengths: list[int] | None = None, actual_seq_lengths_kv: list[int] | None = None,
    dequant_scale1: Tensor | None = None, quant_scale1: Tensor | None = None, dequant_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None, quant_offset2: Tensor | None = None, antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None, key_antiquant_scale: Tensor | None = None,
    key_antiquant_offset: Tensor | None = None, value_antiquant_scale: Tensor | None = None,
    value_antiquant_offset: Tensor | None = None, block_table: Tensor | None = None, query_padding_size: Tensor | None = None,
    kv_padding_size: Tensor | None = None, key_shared_prefix: Tensor | None = None, value_shared_prefix: Tensor | None = None,
    actual_shared_prefix_len: list[int] | None = None, query_rope: Tensor | None = None, key_rope: Tensor | None = None,
    key_rope_antiquant_scale: Tensor | None = None, num_heads: int = 1, scale: float = 1.0, pre_tokens: int = _MAX,
    next_tokens: int = _MAX, input_layout: str = "BSH", num_key_value_heads: int = 0, sparse_mode: int = 0,
    inner_precise: int = 0, block_size: int = 0, antiquant_mode: int = 0, key_antiquant_mode: int = 0,
    value_antiquant_mode: int = 0, softmax_lse_flag: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """inner_precise chooses between the product's kernels; there is one here."""
    name = "npu_fused_infer_attention_score"
    refuse(
        name, dequant_scale1=dequant_scale1, quant_scale1=quant_scale1, dequant_scale2=dequant_scale2,
        query_padding_size=query_padding_size, kv_padding_size=kv_padding_size, key_shared_prefix=key_shared_prefix,
        value_shared_prefix=value_shared_prefix, actual_shared_prefix_len=actual_shared_prefix_len or None,
        key_rope_antiquant_scale=key_rope_antiquant_scale,
    )  # fmt: skip
    keys, values = _antiquants(
        (antiquant_scale, antiquant_offset, antiquant_mode),
        Antiquant(key_antiquant_scale, key_antiquant_offset, key_antiquant_mode),
        Antiquant(value_antiquant_scale, value_antiquant_offset, value_antiquant_mode),
    )  # fmt: skip
    call = Inference(
        name, query, key, value, num_heads, num_key_value_heads, input_layout, scale, atten_mask, pse_shift,
        actual_seq_lengths, actual_seq_lengths_kv, pre_tokens, next_tokens, sparse_mode, block_table, block_size, query_rope,
        key_rope, None, keys, values, quant_scale2, quant_offset2,
    )  # fmt: skip
    return _with_lse(call, softmax_lse_flag)


def _antiquants(
    both: tuple[Tensor | None, Tensor | None, int], key: Antiquant, value: Antiquant
) -> tuple[Antiquant, Antiquant]:  # fmt: skip
    """One tensor for keys and values, or one for each."""
    scale, offset, mode = both
    if scale is None:
        return key, value
    scales, offsets = halves_of(scale), halves_of(offset)
    return Antiquant(scales[0], offsets[0], mode), Antiquant(scales[1], offsets[1], mode)


def _with_lse(call: Inference, wanted: bool) -> tuple[Tensor, Tensor]:
    out, lse = infer(call)
    return out, lse if wanted else lse.new_zeros(1)


def npu_fused_infer_attention_score_v2(
    query: Tensor, key: Tensor, value: Tensor, *, query_rope: Tensor | None = None, key_rope: Tensor | None = None,
    pse_shift: Tensor | None = None, atten_mask: Tensor | None = None, actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None, block_table: Tensor | None = None, dequant_scale_query: Tensor | None = None,
    dequant_scale_key: Tensor | None = None, dequant_offset_key: Tensor | None = None,
    dequant_scale_value: Tensor | None = None, dequant_offset_value: Tensor | None = None,
    dequant_scale_key_rope: Tensor | None = None, quant_scale_out: Tensor | None = None,
    quant_offset_out: Tensor | None = None, quant_scale_p: Tensor | None = None, learnable_sink: Tensor | None = None,
    num_query_heads: int = 1, num_key_value_heads: int = 0, softmax_scale: float = 1.0, pre_tokens: int = _MAX,
    next_tokens: int = _MAX, input_layout: str = "BSH", sparse_mode: int = 0, block_size: int = 0, query_quant_mode: int = 0,
    key_quant_mode: int = 0, value_quant_mode: int = 0, inner_precise: int = 0, return_softmax_lse: bool = False,
    out_dtype: int | None = None, **dtypes: int | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The dtype arguments name types that torch has not; the others are those of the tensors."""
    name = "npu_fused_infer_attention_score_v2"
    refuse(
        name, dequant_scale_query=dequant_scale_query, dequant_scale_key_rope=dequant_scale_key_rope,
        quant_scale_p=quant_scale_p, query_quant_mode=query_quant_mode or None, **dtypes,
    )  # fmt: skip
    if out_dtype is not None and dtype_of(out_dtype, "out_dtype") not in (query.dtype, torch.int8):
        raise unsupported(
            f"{name}: out_dtype {out_dtype}; the output has the query's dtype, or int8 with quant_scale_out"
        )
    call = Inference(
        name, query, key, value, num_query_heads, num_key_value_heads, input_layout, softmax_scale, atten_mask, pse_shift,
        actual_seq_qlen, actual_seq_kvlen, pre_tokens, next_tokens, sparse_mode, block_table, block_size, query_rope, key_rope,
        learnable_sink, Antiquant(dequant_scale_key, dequant_offset_key, key_quant_mode),
        Antiquant(dequant_scale_value, dequant_offset_value, value_quant_mode), quant_scale_out, quant_offset_out,
    )  # fmt: skip
    return _with_lse(call, return_softmax_lse)


def npu_fused_infer_attention_score__out(
    *args: Tensor, attention_out: Tensor, softmax_lse: Tensor, workspace: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """No kernel here needs the workspace."""
    out, lse = npu_fused_infer_attention_score(*args, **options)
    return into(attention_out, out), into(softmax_lse, lse)


def npu_fused_infer_attention_score_v2__out(
    *args: Tensor, attention_out: Tensor, softmax_lse: Tensor, workspace: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """No kernel here needs the workspace."""
    out, lse = npu_fused_infer_attention_score_v2(*args, **options)
    return into(attention_out, out), into(softmax_lse, lse)


def _npu_fused_infer_attention_score_get_max_workspace(query: Tensor, *_args: Any, **_options: Any) -> Tensor:
    """Nothing is needed, whatever the call."""
    return torch.empty(0, dtype=torch.uint8, device=query.device)


_npu_fused_infer_attention_score_v2_get_max_workspace = _npu_fused_infer_attention_score_get_max_workspace


def _empty_outputs(
    query: Tensor,
    value: Tensor,
    layout: str,
    heads: int,
    kv_heads: int,
    paged: bool,
    quantised: bool,
    lse: bool,
    name: str,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Outputs of the right shapes. A paged value of three dimensions, and BSH, hold the width of all heads together."""
    order = check_layout(layout, LAYOUTS, name)
    q = to_heads(query, order, heads, f"{name}: query")
    together = value.dim() == 3 and (paged or order == "BSH")
    width = value.shape[-1] // (kv_heads or heads) if together else value.shape[-1]
    if value.dtype == torch.int32:
        width *= 8
    out = q.new_empty(*q.shape[:3], width, dtype=torch.int8 if quantised else query.dtype)
    batch, _, rows, _ = q.shape
    shape = (1,) if not lse else (rows, heads, 1) if order == "TND" else (batch, heads, rows, 1)
    return from_heads(out, order).contiguous(), q.new_empty(shape, dtype=torch.float32)


def _npu_fused_infer_attention_score_infer_output(
    query: Tensor, value: Tensor, *, input_layout: str = "BSH", quant_scale2: Tensor | None = None,
    block_table: Tensor | None = None, num_heads: int = 1, num_key_value_heads: int = 0, softmax_lse_flag: bool = False,
    query_rope: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The rope part changes no shape."""
    name = "_npu_fused_infer_attention_score_infer_output"
    return _empty_outputs(
        query, value, input_layout, num_heads, num_key_value_heads, block_table is not None, quant_scale2 is not None,
        softmax_lse_flag, name,
    )  # fmt: skip


def _npu_fused_infer_attention_score_v2_infer_output(
    query: Tensor, value: Tensor, *, query_dtype: int | None = None, value_dtype: int | None = None, input_layout: str = "BSH",
    quant_scale_out: Tensor | None = None, block_table: Tensor | None = None, num_query_heads: int = 1,
    num_key_value_heads: int = 0, return_softmax_lse: bool = False, query_rope: Tensor | None = None,
    out_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The rope part changes no shape."""
    name = "_npu_fused_infer_attention_score_v2_infer_output"
    refuse(name, query_dtype=query_dtype, value_dtype=value_dtype)
    quantised = quant_scale_out is not None or (out_dtype is not None and dtype_of(out_dtype) == torch.int8)
    return _empty_outputs(
        query, value, input_layout, num_query_heads, num_key_value_heads, block_table is not None, quantised,
        return_softmax_lse, name,
    )  # fmt: skip
