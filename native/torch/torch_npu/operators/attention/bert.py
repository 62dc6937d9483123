"""The older fused blocks of attention: the BERT family and the whole multi-head block."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.attention._dropout import check_keep, draw, expand_bits, make_bits, mask_bytes
from torch_npu.operators.common.arguments import require, unsupported, wide
from torch_npu.operators.common.fused import plain


def _plain_operands(name: str, **flags: bool) -> None:
    for flag, value in flags.items():
        if value:
            raise unsupported(f"{name}: {flag}=True; transpose the tensor before the call")


def _new_bits(like: Tensor, keep: float) -> Tensor:
    """Keep bits for a tensor of probabilities; all ones where nothing is dropped."""
    size = mask_bytes(like.numel())
    if keep == 1:
        return torch.full((size,), 255, dtype=torch.uint8, device=like.device)
    if not plain(like):
        kept = torch.rand(size, 8, device=like.device) < keep
        return (kept * (1 << torch.arange(8, device=like.device))).sum(-1).to(torch.uint8)
    return make_bits(size, keep, *draw(like.device), like.device)


def _drop(x: Tensor, bits: Tensor, keep: float) -> Tensor:
    if keep == 1:
        return x
    require(
        bits.numel() * 8 >= x.numel(), f"a dropout mask of {bits.numel()} bytes is too short for {x.numel()} values"
    )
    return x * expand_bits(bits)[: x.numel()].view(x.shape).to(x.dtype) / keep


def _merged(context: Tensor) -> Tensor:
    """[batch, heads, rows, width] as [batch * rows, heads * width]."""
    return context.transpose(1, 2).flatten(2).flatten(0, 1)


def _split(x: Tensor, batch: int, heads: int) -> Tensor:
    """The way back."""
    return torch.unflatten(torch.unflatten(x, 0, (batch, -1)), 2, (heads, -1)).transpose(1, 2)


def npu_fused_attention_score_fwd(
    query_layer: Tensor, key_layer: Tensor, value_layer: Tensor, attention_mask: Tensor, scale: float, keep_prob: float,
    query_transpose: bool = False, key_transpose: bool = False, bmm_score_transpose_a: bool = False,
    bmm_score_transpose_b: bool = False, value_transpose: bool = False, dx_transpose: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """attention_mask is added. Returns the heads merged, [batch * rows, heads * width], the softmax and the mask of dropout."""
    name = "npu_fused_attention_score"
    _plain_operands(
        name, query_transpose=query_transpose, key_transpose=key_transpose, bmm_score_transpose_a=bmm_score_transpose_a,
        bmm_score_transpose_b=bmm_score_transpose_b, value_transpose=value_transpose, dx_transpose=dx_transpose,
    )  # fmt: skip
    check_keep(keep_prob, name)
    require(
        query_layer.dim() == 4,
        f"{name}: query_layer must be [batch, heads, rows, width], not {tuple(query_layer.shape)}",
    )
    scores = wide(query_layer) @ wide(key_layer).mT * scale + wide(attention_mask)
    probabilities = torch.softmax(scores, -1)
    bits = _new_bits(probabilities, keep_prob)
    context = _drop(probabilities, bits, keep_prob) @ wide(value_layer)
    return _merged(context).to(query_layer.dtype), probabilities.to(query_layer.dtype), bits


def npu_fused_attention_score(
    query_layer: Tensor, key_layer: Tensor, value_layer: Tensor, attention_mask: Tensor, scale: float, keep_prob: float,
    query_transpose: bool = False, key_transpose: bool = False, bmm_score_transpose_a: bool = False,
    bmm_score_transpose_b: bool = False, value_transpose: bool = False, dx_transpose: bool = False,
) -> Tensor:  # fmt: skip
    return npu_fused_attention_score_fwd(
        query_layer, key_layer, value_layer, attention_mask, scale, keep_prob, query_transpose, key_transpose,
        bmm_score_transpose_a, bmm_score_transpose_b, value_transpose, dx_transpose,
    )[0]  # fmt: skip


def npu_fused_attention_score_backward(
    grad_output: Tensor, softmax_output: Tensor, query_layer: Tensor, key_layer: Tensor, value_layer: Tensor, mask: Tensor,
    scale: float, keep_prob: float, query_transpose: bool = False, key_transpose: bool = False, value_transpose: bool = False,
    dx_transpose: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _plain_operands(
        "npu_fused_attention_score_backward", query_transpose=query_transpose, key_transpose=key_transpose,
        value_transpose=value_transpose, dx_transpose=dx_transpose,
    )  # fmt: skip
    q, k, v, probabilities = (wide(x) for x in (query_layer, key_layer, value_layer, softmax_output))
    dy = _split(wide(grad_output), q.shape[0], q.shape[1])
    dv = _drop(probabilities, mask, keep_prob).mT @ dy
    ds = _softmax_backward(_drop(dy @ v.mT, mask, keep_prob), probabilities) * scale
    return (ds @ k).to(query_layer.dtype), (ds.mT @ q).to(key_layer.dtype), dv.to(value_layer.dtype)


npu_fused_attention_score_grad = npu_fused_attention_score_backward


def _softmax_backward(grad: Tensor, probabilities: Tensor) -> Tensor:
    return torch._softmax_backward_data(grad, probabilities, -1, grad.dtype)


def npu_fused_attention_layernorm_qkv_fwd(
    x: Tensor, kernel_query: Tensor, kernel_key: Tensor, kernel_value: Tensor, gamma: Tensor, beta: Tensor,
    bias_query: Tensor | None = None, bias_key: Tensor | None = None, bias_value: Tensor | None = None, seq_len: int = 128,
    num_heads: int = 12, eps: float = 1e-05,
) -> list[Tensor]:  # fmt: skip
    """x is [batch * seq_len, hidden]. Returns the norm, query, key and value [batch, heads, seq_len, width], mean, variance."""
    rows, hidden = x.shape
    name = "npu_fused_attention_layernorm_qkv_fwd"
    require(rows % seq_len == 0, f"{name}: {rows} rows are no multiple of seq_len {seq_len}")
    require(hidden % num_heads == 0, f"{name}: a hidden size of {hidden} cannot be split into {num_heads} heads")
    full = wide(x)
    variance, mean = torch.var_mean(full, -1, correction=0)
    norm = F.layer_norm(full, (hidden,), wide(gamma), wide(beta), eps).to(x.dtype)

    def project(kernel: Tensor, bias: Tensor | None) -> Tensor:
        projected = norm @ kernel
        return _split(projected if bias is None else projected + bias, rows // seq_len, num_heads).contiguous()

    pairs = ((kernel_query, bias_query), (kernel_key, bias_key), (kernel_value, bias_value))
    return [norm, *(project(kernel, bias) for kernel, bias in pairs), mean, variance]


def npu_fused_attention_qkv_grad(
    grad_output_query: Tensor, grad_output_key: Tensor, grad_output_value: Tensor, query_kernel: Tensor, key_kernel: Tensor,
    value_kernel: Tensor, hidden_states: Tensor, grad_output_ln: Tensor,
) -> list[Tensor]:  # fmt: skip
    """Gradients of the normalised input (with that of its other use added), of the three kernels, and of the three biases."""
    merged = [_merged(grad) for grad in (grad_output_query, grad_output_key, grad_output_value)]
    kernels = (query_kernel, key_kernel, value_kernel)
    hidden = grad_output_ln + sum(grad @ kernel.mT for grad, kernel in zip(merged, kernels, strict=True))
    return [hidden, *(hidden_states.mT @ grad for grad in merged), *(grad.sum(0) for grad in merged)]


def npu_multi_head_attention(
    query: Tensor, key: Tensor, value: Tensor, query_weight: Tensor, key_weight: Tensor, value_weight: Tensor, attn_mask: Tensor,
    out_proj_weight: Tensor, query_bias: Tensor | None, key_bias: Tensor | None, value_bias: Tensor | None,
    out_proj_bias: Tensor | None, dropout_mask: Tensor | None, attn_head_num: int, attn_dim_per_head: int, src_len: int,
    tgt_len: int, dropout_prob: float, softmax_use_float: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """query is [batch * tgt_len, columns], key and value [batch * src_len, columns]; softmax is computed in float32 in any case.

    Returns y, the mask of dropout, query, key and value by heads, the softmax before and after dropout, and the merged heads.
    """
    name = "npu_multi_head_attention"
    check_keep(1 - dropout_prob, name)
    require(
        tgt_len > 0
        and src_len > 0
        and query.shape[0] % tgt_len == 0
        and key.shape[0] == query.shape[0] // tgt_len * src_len,
        f"{name}: {query.shape[0]} rows of query and {key.shape[0]} of key do not fit tgt_len {tgt_len} and src_len {src_len}",
    )
    batch = query.shape[0] // tgt_len

    def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _split(F.linear(x, weight, bias), batch, attn_head_num).contiguous()

    q, k, v = (
        project(query, query_weight, query_bias),
        project(key, key_weight, key_bias),
        project(value, value_weight, value_bias),
    )
    scores = wide(q) @ wide(k).mT * attn_dim_per_head**-0.5 + wide(attn_mask)
    probabilities = torch.softmax(scores, -1).to(query.dtype)
    bits = dropout_mask if dropout_mask is not None else _new_bits(probabilities, 1 - dropout_prob)
    dropped = _drop(probabilities, bits, 1 - dropout_prob)
    context = _merged(dropped @ v)
    return F.linear(context, out_proj_weight, out_proj_bias), bits, q, k, v, probabilities, dropped, context


def npu_multi_head_attention_backward(
    query: Tensor, key: Tensor, value: Tensor, query_weight: Tensor, key_weight: Tensor, value_weight: Tensor,
    out_proj_weight: Tensor, query_bias: Tensor | None, key_bias: Tensor | None, value_bias: Tensor | None,
    out_proj_bias: Tensor | None, query_res: Tensor, key_res: Tensor, value_res: Tensor, attn_scores: Tensor, attn_res: Tensor,
    context: Tensor, y_grad: Tensor, dropout_mask: Tensor, attn_head_num: int, attn_dim_per_head: int, src_len: int, tgt_len: int,
    dropout_prob: float, softmax_use_float: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Gradients of the four weights, of query, key and value, of the four biases (empty where there was none)."""
    keep = 1 - dropout_prob
    batch = query.shape[0] // tgt_len
    inner = _split(y_grad @ out_proj_weight, batch, attn_head_num)
    ds = _softmax_backward(_drop(inner @ value_res.mT, dropout_mask, keep), attn_scores) * attn_dim_per_head**-0.5
    merged = [_merged(grad) for grad in (ds @ key_res, ds.mT @ query_res, attn_res.mT @ inner)]
    inputs, weights = (query, key, value), (query_weight, key_weight, value_weight)
    biases = ((query_bias, merged[0]), (key_bias, merged[1]), (value_bias, merged[2]), (out_proj_bias, y_grad))
    return (
        *(grad.mT @ x for grad, x in zip(merged, inputs, strict=True)),
        y_grad.mT @ context,
        *(grad @ weight for grad, weight in zip(merged, weights, strict=True)),
        *(query.new_empty(0) if bias is None else grad.sum(0) for bias, grad in biases),
    )
