"""Attention of training: npu_fusion_attention in its forms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.attention._arguments import Call
from torch_npu.operators.attention._calls import gradients, run
from torch_npu.operators.common.arguments import into

_MAX = 2147483647
_BEFORE_WORKSPACE = 21  # positional arguments of npu_fusion_attention_v3


def npu_fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = _MAX, next_tockens: int = _MAX, inner_precise: int = 0, prefix: list[int] | None = None,
    actual_seq_qlen: list[int] | None = None, actual_seq_kvlen: list[int] | None = None, sparse_mode: int = 0,
    gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "", sink: Tensor | None = None,
    dropout_mask: Tensor | None = None, seed: int = 0, offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:  # fmt: skip
    """gen_mask_parallel and sync say when the mask of dropout is made; here everything is made when it is needed."""
    call = Call(
        "npu_fusion_attention", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask, mask=atten_mask,
        scale=scale, keep=keep_prob, before=pre_tockens, after=next_tockens, inner_precise=inner_precise, prefix=prefix,
        ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen, mode=sparse_mode, softmax_layout=softmax_layout, sink=sink,
        dropout_mask=dropout_mask, seed=seed, offset=offset,
    )  # fmt: skip
    return run(call)


def npu_fusion_attention_v2(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, *, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, query_rope: Tensor | None = None,
    key_rope: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0, pre_tokens: int = _MAX, next_tokens: int = _MAX,
    inner_precise: int = 0, prefix: list[int] | None = None, actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None, sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False,
    pse_type: int = 1, q_start_idx: list[int] | None = None, kv_start_idx: list[int] | None = None, softmax_layout: str = "",
    sink: Tensor | None = None, dropout_mask: Tensor | None = None, seed: int = 0, offset: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:  # fmt: skip
    call = Call(
        "npu_fusion_attention_v2", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask, mask=atten_mask,
        query_rope=query_rope, key_rope=key_rope, scale=scale, keep=keep_prob, before=pre_tokens, after=next_tokens,
        inner_precise=inner_precise, prefix=prefix, ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen, mode=sparse_mode,
        pse_type=pse_type, q_start=q_start_idx, kv_start=kv_start_idx, softmax_layout=softmax_layout, sink=sink,
        dropout_mask=dropout_mask, seed=seed, offset=offset,
    )  # fmt: skip
    return run(call)


def npu_fusion_attention_v3(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, scale: float = 1.0, keep_prob: float = 1.0,
    pre_tockens: int = _MAX, next_tockens: int = _MAX, inner_precise: int = 0, prefix: list[int] | None = None,
    actual_seq_qlen: Tensor | None = None, actual_seq_kvlen: Tensor | None = None, sparse_mode: int = 0,
    gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "", sink: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    call = Call(
        "npu_fusion_attention_v3", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask, mask=atten_mask,
        scale=scale, keep=keep_prob, before=pre_tockens, after=next_tockens, inner_precise=inner_precise, prefix=prefix,
        ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen, mode=sparse_mode, softmax_layout=softmax_layout, sink=sink,
    )  # fmt: skip
    out, top, total, reserved, *numbers, _size = run(call)
    seed, offset = (torch.tensor([number], dtype=torch.int64, device=query.device) for number in numbers)
    return out, top, total, reserved, seed, offset


def npu_fusion_attention_v3__out(
    *args: Any, attention_score: Tensor, softmax_max: Tensor, softmax_sum: Tensor, softmax_out: Tensor, seed: Tensor,
    offset: Tensor, **kwargs: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The workspace, the last of the positional arguments, is not needed by any kernel here."""
    kwargs.pop("workspace", None)
    results = npu_fusion_attention_v3(*args[:_BEFORE_WORKSPACE], **kwargs)
    targets = (attention_score, softmax_max, softmax_sum, softmax_out, seed, offset)
    return tuple(into(target, result) for target, result in zip(targets, results, strict=True))


def _npu_fusion_attention_v3_get_max_workspace(query: Tensor, *_args: object, **_kwargs: object) -> Tensor:
    """Nothing is needed, whatever the call."""
    return torch.empty(0, dtype=torch.uint8, device=query.device)


_npu_fusion_attention_grad_v3_get_max_workspace = _npu_fusion_attention_v3_get_max_workspace


def _npu_fusion_attention_v3_infer_output(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str
) -> tuple[Tensor, Tensor, Tensor]:
    call = Call("_npu_fusion_attention_v3_infer_output", query, key, value, head_num, input_layout)
    parts = call.operands
    batch, heads, rows, _ = parts.q.shape
    out = parts.q.new_empty(batch, heads, rows, parts.v.shape[-1])
    stats = parts.q.new_empty((rows, heads, 8) if call.packed else (batch, heads, rows, 8), dtype=torch.float32)
    return call.back(out), stats, torch.empty_like(stats)


def _npu_fusion_attention_grad_v3_infer_output(
    query: Tensor, key: Tensor, value: Tensor, pse: Tensor | None = None, sink: Tensor | None = None
) -> tuple[Tensor, ...]:
    grads = [torch.empty_like(x) for x in (query, key, value)]
    return *grads, *(query.new_empty(0) if x is None else torch.empty_like(x) for x in (pse, sink))


def npu_fusion_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, softmax_max: Tensor | None = None,
    softmax_sum: Tensor | None = None, softmax_in: Tensor | None = None, attention_in: Tensor | None = None,
    scale_value: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = _MAX, next_tockens: int = _MAX, inner_precise: int = 0,
    seed: int = 0, offset: int = 0, numels: int = 0, prefix: list[int] | None = None, actual_seq_qlen: list[int] | None = None,
    actual_seq_kvlen: list[int] | None = None, sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False,
    softmax_layout: str = "", sink: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """softmax_in is the reserved fourth output of the forward call; numels is its mask size, which seed and shapes tell as well."""
    call = Call(
        "npu_fusion_attention_grad", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask,
        mask=atten_mask, scale=scale_value, keep=keep_prob, before=pre_tockens, after=next_tockens, inner_precise=inner_precise,
        prefix=prefix, ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen, mode=sparse_mode, softmax_layout=softmax_layout,
        sink=sink, seed=seed, offset=offset,
    )  # fmt: skip
    grads = gradients(call, dy, softmax_max, softmax_sum, attention_in)
    return grads.q, grads.k, grads.v, grads.pse, grads.sink


def npu_fusion_attention_grad_v2(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, softmax_max: Tensor | None = None,
    softmax_sum: Tensor | None = None, softmax_in: Tensor | None = None, attention_in: Tensor | None = None,
    query_rope: Tensor | None = None, key_rope: Tensor | None = None, scale_value: float = 1.0, keep_prob: float = 1.0,
    pre_tokens: int = _MAX, next_tokens: int = _MAX, inner_precise: int = 0, seed: int = 0, offset: int = 0, numels: int = 0,
    prefix: list[int] | None = None, actual_seq_qlen: list[int] | None = None, actual_seq_kvlen: list[int] | None = None,
    sparse_mode: int = 0, gen_mask_parallel: bool = True, sync: bool = False, pse_type: int = 1,
    q_start_idx: list[int] | None = None, kv_start_idx: list[int] | None = None, softmax_layout: str = "",
    sink: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """dq, dk, dv, dpse, those of the rope parts (empty where they were not given), dsink."""
    call = Call(
        "npu_fusion_attention_grad_v2", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask,
        mask=atten_mask, query_rope=query_rope, key_rope=key_rope, scale=scale_value, keep=keep_prob, before=pre_tokens,
        after=next_tokens, inner_precise=inner_precise, prefix=prefix, ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen,
        mode=sparse_mode, pse_type=pse_type, q_start=q_start_idx, kv_start=kv_start_idx, softmax_layout=softmax_layout,
        sink=sink, seed=seed, offset=offset,
    )  # fmt: skip
    grads = gradients(call, dy, softmax_max, softmax_sum, attention_in)
    return grads.q, grads.k, grads.v, grads.pse, grads.query_rope, grads.key_rope, grads.sink


def npu_fusion_attention_grad_v3(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, *, pse: Tensor | None = None,
    padding_mask: Tensor | None = None, atten_mask: Tensor | None = None, softmax_max: Tensor | None = None,
    softmax_sum: Tensor | None = None, softmax_in: Tensor | None = None, attention_in: Tensor | None = None,
    scale_value: float = 1.0, keep_prob: float = 1.0, pre_tockens: int = _MAX, next_tockens: int = _MAX, inner_precise: int = 0,
    seed: Tensor | None = None, offset: Tensor | None = None, prefix: list[int] | None = None,
    actual_seq_qlen: Tensor | None = None, actual_seq_kvlen: Tensor | None = None, sparse_mode: int = 0,
    gen_mask_parallel: bool = True, sync: bool = False, softmax_layout: str = "", sink: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    numbers = [0 if number is None else int(number) for number in (seed, offset)]
    call = Call(
        "npu_fusion_attention_grad_v3", query, key, value, head_num, input_layout, pse=pse, padding_mask=padding_mask,
        mask=atten_mask, scale=scale_value, keep=keep_prob, before=pre_tockens, after=next_tockens, inner_precise=inner_precise,
        prefix=prefix, ends_q=actual_seq_qlen, ends_kv=actual_seq_kvlen, mode=sparse_mode, softmax_layout=softmax_layout,
        sink=sink, seed=numbers[0], offset=numbers[1],
    )  # fmt: skip
    grads = gradients(call, dy, softmax_max, softmax_sum, attention_in)
    return grads.q, grads.k, grads.v, grads.pse, grads.sink


def npu_fusion_attention_grad_v3__out(
    *args: Any, dq: Tensor, dk: Tensor, dv: Tensor, dpse: Tensor, dsink: Tensor, workspace: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """No kernel here needs the workspace."""
    grads = npu_fusion_attention_grad_v3(*args, **kwargs)
    return tuple(into(target, grad) for target, grad in zip((dq, dk, dv, dpse, dsink), grads, strict=True))
