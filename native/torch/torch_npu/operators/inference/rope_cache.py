"""Query, key and value of one projection: rotated, and key and value quantised into caches of int8.

Silent spots: a cache value is round(x / scale + offset), as npu_quantize has it, so that the scale is what attention multiplies by;
rotation is of halves; caches are written in place, as the product does, and returned.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported, wide
from torch_npu.operators.inference.paged import write
from torch_npu.operators.quantisation.core import static, target_of
from torch_npu.operators.quantisation.matmul import scaled


def _check(name: str, x: Tensor, cos: Tensor, splits: list[int], options: dict[str, Any]) -> tuple[int, int, int]:
    """Batch, rows and the width of a head."""
    if options.get("quant_mode", 0):
        raise unsupported(f"{name}: quant_mode {options['quant_mode']}; 0, with the scales that are given, is there")
    layout = options.get("input_layout", "BSND")
    require(layout == "BSND", f"{name}: input_layout must be BSND, not {layout!r}", ErrCode.VALUE)
    require(x.dim() in (2, 3), f"{name}: x must be [batch, rows, hidden] or [batch, hidden], not {tuple(x.shape)}")
    width = cos.shape[-1]
    require(
        len(splits) == 3 and sum(splits) == x.shape[-1] and all(size % width == 0 for size in splits),
        f"{name}: size_splits {list(splits)} must be three multiples of the head's width {width} with the sum {x.shape[-1]}",
        ErrCode.VALUE,
    )
    return x.shape[0], x.shape[1] if x.dim() == 3 else 1, width


def _slots(name: str, cache: Tensor, indices: Tensor, batch: int, rows: int, mode: str) -> Tensor:
    """Rows of the cache as one after another: a start for each batch, or a slot for each token."""
    require(
        mode in ("contiguous", "page"), f"{name}: cache_mode must be contiguous or page, not {mode!r}", ErrCode.VALUE
    )
    wanted = batch if mode == "contiguous" else batch * rows
    require(indices.numel() == wanted, f"{name}: {mode} caches need {wanted} indices, not {indices.numel()}")
    flat = indices.reshape(-1).long()
    if mode == "page":
        return flat
    steps = torch.arange(rows, device=cache.device)
    starts = flat + torch.arange(batch, device=cache.device) * cache.shape[1]
    return (starts.unsqueeze(1) + steps).reshape(-1)


def _store(name: str, cache: Tensor, rows: Tensor, scale: Tensor, offset: Tensor | None, at: Tensor) -> None:
    heads, width = rows.shape[-2:]
    require(
        cache.dim() == 4 and tuple(cache.shape[2:]) == (heads, width),
        f"{name}: a cache of shape {tuple(cache.shape)} must be [blocks or batch, rows, {heads}, {width}]",
    )

    def fitted(table: Tensor) -> Tensor:
        return table if table.numel() == 1 else table.reshape(heads, width)

    shift = None if offset is None else fitted(offset)
    values = static(rows, fitted(scale), shift, target_of(cache.dtype, name), divide=True)
    write(cache, values.flatten(0, 1), at, "PA_BSND", name)


def _call(
    name: str, x: Tensor, cos: Tensor, sin: Tensor, caches: tuple[Tensor, Tensor], indices: Tensor, scales: tuple[Tensor, Tensor],
    size_splits: list[int], options: dict[str, Any],
) -> tuple[Tensor, ...]:  # fmt: skip
    batch, rows, width = _check(name, x, cos, size_splits, options)
    parts = x.reshape(batch, rows, -1).split_with_sizes(list(size_splits), -1)
    q, k, v = (torch.unflatten(part, -1, (-1, width)) for part in parts)
    turn = [wide(table).reshape(-1, rows, 1, width) for table in (cos, sin)]
    q, k = (torch.ops.npu.npu_rotary_mul(wide(projection), *turn).to(cos.dtype) for projection in (q, k))
    v = v.to(cos.dtype)
    mode = options.get("cache_mode", "contiguous")
    for cache, values, scale, which in zip(caches, (k, v), scales, ("offset_k", "offset_v"), strict=True):
        at = _slots(name, cache, indices, batch, rows, mode)
        _store(name, cache, values, scale, options.get(which), at)
    kept = (k, v) if options.get("kv_output", False) else (k.new_empty(0), v.new_empty(0))
    return q, *kept, *caches


def npu_rope_quant_kvcache(
    x: Tensor, cos: Tensor, sin: Tensor, k_cache: Tensor, v_cache: Tensor, indices: Tensor, scale_k: Tensor, scale_v: Tensor,
    size_splits: list[int], **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Query, key and value as [batch, rows, heads, width] (the last two empty without kv_output), and the caches. cos and sin are
    [batch, rows, 1, width]; indices are where each batch's rows begin (contiguous) or the slot of each token (page)."""
    name = "npu_rope_quant_kvcache"
    require(x.is_floating_point(), f"{name}: x must be a floating point tensor, not {x.dtype}", ErrCode.TYPE)
    return _call(name, x, cos, sin, (k_cache, v_cache), indices, (scale_k, scale_v), size_splits, options)


def npu_dequant_rope_quant_kvcache(
    x: Tensor, cos: Tensor, sin: Tensor, k_cache: Tensor, v_cache: Tensor, indices: Tensor, scale_k: Tensor, scale_v: Tensor,
    size_splits: list[int], *, weight_scale: Tensor | None = None, activation_scale: Tensor | None = None,
    bias: Tensor | None = None, **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As npu_rope_quant_kvcache for the numbers that int32 sums stand for; floats are taken as they are, with the bias."""
    name = "npu_dequant_rope_quant_kvcache"
    require(
        x.is_floating_point() or weight_scale is not None,
        f"{name}: {x.dtype} sums need a weight_scale to become numbers",
    )
    flat = x.reshape(-1, x.shape[-1])
    per_token = None if activation_scale is None else activation_scale.reshape(-1)
    values = scaled(flat, weight_scale, per_token, bias).reshape(x.shape)
    return _call(name, values, cos, sin, (k_cache, v_cache), indices, (scale_k, scale_v), size_splits, options)
