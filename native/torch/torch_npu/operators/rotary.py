"""Rotary position embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators._common import ErrCode, gradient, require, unsupported

_MODES = ("half", "interleave")


def _rotate(x: Tensor, mode: str) -> Tensor:
    """Each pair turned by 90 degrees: (a, b) becomes (-b, a)."""
    if mode == "half":
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, mode: str, name: str) -> Tensor:
    require(mode in _MODES, f"{name}: rotary_mode must be one of {', '.join(_MODES)}, not {mode!r}")
    require(
        x.shape[-1] % 2 == 0, f"{name}: the last dimension has {x.shape[-1]} elements; it must be even", ErrCode.VALUE
    )
    return x * cos + _rotate(x, mode) * sin


def npu_rotary_mul(
    self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    if rotate is not None:
        return self * r1 + (self @ rotate) * r2
    return _turn(self, r1, r2, rotary_mode, "npu_rotary_mul")


def npu_rotary_mul_backward(
    grad: Tensor, self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half"
) -> tuple[Tensor, Tensor, Tensor]:
    return gradient(lambda x, cos, sin: _turn(x, cos, sin, rotary_mode, "npu_rotary_mul_backward"), grad, self, r1, r2)


def npu_apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND", rotary_mode: str = "half"
) -> tuple[Tensor, Tensor]:
    """cos and sin broadcast over the heads, so the layout only has to be one that has them apart. Only the first dimensions are
    turned when cos covers fewer than the heads have. As on the device, query and key themselves are written, unless autograd
    needs them."""
    layouts = ("BSND", "SBND", "BNSD", "TND")
    require(layout in layouts, f"npu_apply_rotary_pos_emb: layout must be one of {', '.join(layouts)}, not {layout!r}")
    width = cos.shape[-1]
    found = []
    for one in (query, key):
        turned = _turn(one[..., :width], cos, sin, rotary_mode, "npu_apply_rotary_pos_emb")
        whole = torch.cat((turned, one[..., width:]), -1) if width < one.shape[-1] else turned
        found.append(whole if whole.requires_grad else one.copy_(whole))
    return found[0], found[1]


def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The pairs are taken apart first, so that the result has its halves one after the other."""
    require(
        x.shape[-1] % 2 == 0, f"npu_interleave_rope: the last dimension has {x.shape[-1]} elements; it must be even"
    )
    apart = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    return _turn(apart, cos, sin, "half", "npu_interleave_rope")


def _sections(cache: Tensor, sections: list[int]) -> Tensor:
    """Multimodal rope: the k-th section of each half comes from the k-th row of positions. `cache` is [rows, tokens, width]."""
    parts = cache.split(sections, -1)
    return torch.cat([part[row % cache.shape[0]] for row, part in enumerate(parts)], -1)


def npu_mrope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    *,
    mrope_section: list[int] | None = None,
    rotary_mode: str | None = "half",
    cache_mode: str | None = "default",
) -> tuple[Tensor, Tensor]:
    """`cos_sin_cache` holds cos in its first half and sin in its second, a row for each position."""
    if cache_mode not in (None, "default"):
        raise unsupported(f"npu_mrope: cache_mode {cache_mode!r}; only 'default' is computed")
    mode = rotary_mode or "half"
    found = cos_sin_cache[positions.long()]  # [(rows,) tokens, width]
    cos, sin = found.chunk(2, -1)
    if mrope_section and any(mrope_section):
        require(
            positions.dim() == 2, f"npu_mrope: sections need positions [rows, tokens], not {tuple(positions.shape)}"
        )
        require(
            sum(mrope_section) == cos.shape[-1],
            f"npu_mrope: mrope_section {list(mrope_section)} must add up to {cos.shape[-1]}, half of the cache's width",
            ErrCode.VALUE,
        )
        cos, sin = _sections(cos, mrope_section), _sections(sin, mrope_section)
    elif positions.dim() == 2:
        cos, sin = cos[0], sin[0]
    if mode == "half":
        cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
    else:
        cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
    cos, sin = cos.unsqueeze(-2).to(query.dtype), sin.unsqueeze(-2).to(query.dtype)
    return _heads(query, cos, sin, head_size, mode), _heads(key, cos, sin, head_size, mode)


def _heads(x: Tensor, cos: Tensor, sin: Tensor, head_size: int, mode: str) -> Tensor:
    """The first dimensions of every head turned, the rest as it is."""
    require(
        x.shape[-1] % head_size == 0,
        f"npu_mrope: {x.shape[-1]} is not a multiple of head_size {head_size}",
        ErrCode.VALUE,
    )
    heads = x.reshape(*x.shape[:-1], -1, head_size)
    width = cos.shape[-1]
    turned = _turn(heads[..., :width], cos, sin, mode, "npu_mrope")
    return torch.cat((turned, heads[..., width:]), -1).reshape(x.shape)
