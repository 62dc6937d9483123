"""Front ends of attention with caches: norms, rotary embedding and cache writes in one call (MLA and packed qkv)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, refuse, require, wide
from torch_npu.operators.inference.paged import write


def _rms(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    full = wide(x)
    return (full * torch.rsqrt(full.pow(2).mean(-1, keepdim=True) + epsilon) * wide(gamma)).to(x.dtype)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x * cos + rotate_half(x) * sin."""
    first, second = wide(x).chunk(2, -1)
    turned = torch.cat((-second, first), -1)
    return (wide(x) * wide(cos) + turned * wide(sin)).to(x.dtype)


def _interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of neighbours become halves before they are rotated, as in DeepSeek's models."""
    return _rotated(torch.cat((x[..., ::2], x[..., 1::2]), -1), cos, sin)


def _store(cache: Tensor, rows: Tensor, index: Tensor, mode: str, name: str) -> None:
    """Norm: cache [batch, 1, most, width], index [batch, rows] are positions. PA modes: index are slots."""
    if mode != "Norm":
        write(cache, rows.reshape(-1, rows.shape[-1]), index, mode, name)
        return
    batch, _, count, width = rows.shape
    require(
        cache.dim() == 4 and cache.shape[0] == batch and cache.shape[3] == width and index.numel() == batch * count,
        f"{name}: a cache of shape {tuple(cache.shape)} and {index.numel()} indices do not fit rows of shape {tuple(rows.shape)}",
    )
    batches = torch.arange(batch, device=cache.device)[:, None]
    cache[batches, 0, index.reshape(batch, count).to(torch.int64)] = rows[:, 0].to(cache.dtype)


def npu_kv_rmsnorm_rope_cache_v2(
    kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, k_cache: Tensor, ckv_cache: Tensor, *,
    k_rope_scale: Tensor | None = None, c_kv_scale: Tensor | None = None, k_rope_offset: Tensor | None = None,
    c_kv_offset: Tensor | None = None, v: Tensor | None = None, epsilon: float = 1e-5, cache_mode: str = "Norm",
    is_output_kv: bool = False, k_cache_dtype: int | None = None, ckv_cache_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """kv is [batch, 1, rows, latent + rope]; gamma tells the latent's size. Returns the rope and the latent part."""
    name = "npu_kv_rmsnorm_rope_cache"
    refuse(
        name, k_rope_scale=k_rope_scale, c_kv_scale=c_kv_scale, k_rope_offset=k_rope_offset, c_kv_offset=c_kv_offset, v=v,
        k_cache_dtype=k_cache_dtype, ckv_cache_dtype=ckv_cache_dtype,
    )  # fmt: skip
    require(
        kv.dim() == 4 and kv.shape[1] == 1 and kv.shape[3] > gamma.numel(),
        f"{name}: kv must be [batch, 1, rows, more than {gamma.numel()}], not {tuple(kv.shape)}",
    )
    latent, rope = kv.split_with_sizes([gamma.numel(), kv.shape[3] - gamma.numel()], -1)
    latent, rope = _rms(latent, gamma, epsilon), _interleaved(rope, cos, sin)
    _store(k_cache, rope, index, cache_mode, name)
    _store(ckv_cache, latent, index, cache_mode, name)
    if not is_output_kv:
        return kv.new_empty(0), kv.new_empty(0)
    return rope, latent


def npu_kv_rmsnorm_rope_cache(
    kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, k_cache: Tensor, ckv_cache: Tensor, **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The caches are written in place, as the product does, and returned."""
    rows = npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, k_cache, ckv_cache, **options)
    return k_cache, ckv_cache, *rows


def npu_kv_rmsnorm_rope_cache_v2_functional(
    kv: Tensor, gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, k_cache: Tensor, ckv_cache: Tensor, **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    keys, latents = k_cache.clone(), ckv_cache.clone()
    rows = npu_kv_rmsnorm_rope_cache_v2(kv, gamma, cos, sin, index, keys, latents, **options)
    return *rows, keys, latents


def npu_qkv_rms_norm_rope_cache(
    qkv: Tensor, q_gamma: Tensor, k_gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, q_out: Tensor, k_cache: Tensor,
    v_cache: Tensor, qkv_size: list[int], head_nums: list[int], *, k_scale: Tensor | None = None, v_scale: Tensor | None = None,
    k_offset: Tensor | None = None, v_offset: Tensor | None = None, epsilon: float = 1e-6, cache_mode: str = "PA_NZ",
    is_output_qkv: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """qkv is [tokens, heads * width] with the heads of query, key and value one after another; qkv_size is [B, S, heads, width]."""
    name = "npu_qkv_rms_norm_rope_cache"
    refuse(name, k_scale=k_scale, v_scale=v_scale, k_offset=k_offset, v_offset=v_offset)
    batch, rows, heads, width = qkv_size
    require(
        sum(head_nums) == heads and qkv.numel() == batch * rows * heads * width,
        f"{name}: qkv of {tuple(qkv.shape)}, qkv_size {list(qkv_size)} and head_nums {list(head_nums)} do not fit",
        ErrCode.VALUE,
    )
    q, k, v = qkv.reshape(batch * rows, heads, width).split_with_sizes(list(head_nums), 1)
    turn = [table.reshape(-1, 1, width) for table in (cos, sin)]
    q = _rotated(_rms(q, q_gamma, epsilon), *turn).flatten(1)
    k = _rotated(_rms(k, k_gamma, epsilon), *turn)
    q_out.copy_(q.view(q_out.shape))
    write(k_cache, k, index, cache_mode, name)
    write(v_cache, v, index, cache_mode, name)
    if not is_output_qkv:
        return qkv.new_empty(0), qkv.new_empty(0), qkv.new_empty(0)
    return q, k.flatten(1), v.flatten(1)


def npu_qkv_rms_norm_rope_cache_functional(
    qkv: Tensor, q_gamma: Tensor, k_gamma: Tensor, cos: Tensor, sin: Tensor, index: Tensor, q_out: Tensor, k_cache: Tensor,
    v_cache: Tensor, qkv_size: list[int], head_nums: list[int], **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    q, k, v = q_out.clone(), k_cache.clone(), v_cache.clone()
    rows = npu_qkv_rms_norm_rope_cache(qkv, q_gamma, k_gamma, cos, sin, index, q, k, v, qkv_size, head_nums, **options)
    return *rows, q, k, v


_PROLOG_QUANT = (
    "dequant_scale_x", "dequant_scale_w_dq", "dequant_scale_w_uq_qr", "dequant_scale_w_dkv_kr", "quant_scale_ckv",
    "quant_scale_ckr", "smooth_scales_cq", "actual_seq_len", "k_nope_clip_alpha", "token_x_dtype", "weight_dq_dtype",
    "weight_uq_qr_dtype", "weight_dkv_kr_dtype", "kv_cache_dtype",
)  # fmt: skip
_PROLOG_MODES = (
    "weight_quant_mode",
    "kv_cache_quant_mode",
    "query_quant_mode",
    "ckvkr_repo_mode",
    "quant_scale_repo_mode",
)


def _check_prolog(name: str, options: dict[str, object]) -> None:
    refuse(name, **{option: options.get(option) for option in _PROLOG_QUANT})
    refuse(name, **{option: options.get(option) or None for option in _PROLOG_MODES})
    refuse(name, qc_qr_scale=None if options.get("qc_qr_scale", 1.0) == 1.0 else options["qc_qr_scale"])
    refuse(name, kc_scale=None if options.get("kc_scale", 1.0) == 1.0 else options["kc_scale"])


def _prolog(
    x: Tensor, weight_dq: Tensor, weight_uq_qr: Tensor, weight_uk: Tensor, weight_dkv_kr: Tensor, gamma_cq: Tensor,
    gamma_ckv: Tensor, sin: Tensor, cos: Tensor, cache_index: Tensor | None, kv_cache: Tensor, kr_cache: Tensor, name: str,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Query in the latent space, its rope part, and the normalised query of the projection in between."""
    _check_prolog(name, options)
    require(cache_index is not None, f"{name}: cache_index, the slots of the tokens, is needed")
    assert cache_index is not None
    mode = str(options.get("cache_mode", "PA_BSND"))
    heads, inner, latent = weight_uk.shape
    rope = sin.shape[-1]
    norm = _rms(x @ weight_dq, gamma_cq, float(options.get("rmsnorm_epsilon_cq", 1e-05)))
    query = torch.unflatten(norm @ weight_uq_qr, -1, (heads, inner + rope))
    flat = query[..., :inner].flatten(0, -3)
    lifted = torch.bmm(flat.transpose(0, 1), weight_uk).transpose(0, 1).reshape(*query.shape[:-1], latent)
    query_rope = _interleaved(query[..., inner:], cos.unsqueeze(-2), sin.unsqueeze(-2))
    down = x @ weight_dkv_kr
    ckv = _rms(down[..., :latent], gamma_ckv, float(options.get("rmsnorm_epsilon_ckv", 1e-05)))
    kr = _interleaved(down[..., latent:], cos, sin)
    write(kv_cache, ckv.reshape(-1, latent), cache_index, mode, name)
    write(kr_cache, kr.reshape(-1, rope), cache_index, mode, name)
    return lifted, query_rope, norm


def npu_mla_prolog(
    token_x: Tensor, weight_dq: Tensor, weight_uq_qr: Tensor, weight_uk: Tensor, weight_dkv_kr: Tensor, rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor, rope_sin: Tensor, rope_cos: Tensor, cache_index: Tensor, kv_cache: Tensor, kr_cache: Tensor,
    **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Without quantisation. The caches are written in place, as the product does, and returned."""
    query, rope, _ = _prolog(
        token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv, rope_sin, rope_cos,
        cache_index, kv_cache, kr_cache, "npu_mla_prolog", **options,
    )  # fmt: skip
    return query, rope, kv_cache, kr_cache


def npu_mla_prolog_v2(*args: Tensor, **options: Any) -> tuple[Tensor, ...]:
    """The fifth output, the scale of a quantised query, is empty without quantisation."""
    results = npu_mla_prolog(*args, **options)
    return *results, results[0].new_empty(0)


def npu_mla_prolog_v3(
    token_x: Tensor, weight_dq: Tensor, weight_uq_qr: Tensor, weight_uk: Tensor, weight_dkv_kr: Tensor, rmsnorm_gamma_cq: Tensor,
    rmsnorm_gamma_ckv: Tensor, rope_sin: Tensor, rope_cos: Tensor, kv_cache: Tensor, kr_cache: Tensor, *,
    cache_index: Tensor | None = None, query_norm_flag: bool = False, **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Query, its rope part, an empty scale, the normalised query where it is asked for, an empty scale."""
    query, rope, norm = _prolog(
        token_x, weight_dq, weight_uq_qr, weight_uk, weight_dkv_kr, rmsnorm_gamma_cq, rmsnorm_gamma_ckv, rope_sin, rope_cos,
        cache_index, kv_cache, kr_cache, "npu_mla_prolog_v3", **options,
    )  # fmt: skip
    return query, rope, query.new_empty(0), norm if query_norm_flag else query.new_empty(0), query.new_empty(0)


def npu_mla_prolog_v3_functional(*args: Tensor, **options: Any) -> tuple[Tensor, ...]:
    caches = [cache.clone() for cache in args[9:11]]
    return *npu_mla_prolog_v3(*args[:9], *caches, **options), *caches
