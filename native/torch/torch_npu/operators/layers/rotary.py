"""Rotary position embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradients, require, unsupported
from torch_npu.operators.common.fused import Kind, apply

_MODES = ("half", "interleave")


def _pairs(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """The first and the second of each pair."""
    if mode == "half":
        first, second = x.chunk(2, -1)
        return first, second
    return x[..., ::2], x[..., 1::2]


def _join(first: Tensor, second: Tensor, mode: str) -> Tensor:
    if mode == "half":
        return torch.cat((first, second), -1)
    return torch.stack((first, second), -1).flatten(-2)


def _rotate(x: Tensor, mode: str) -> Tensor:
    """Each pair turned by 90 degrees: (a, b) becomes (-b, a)."""
    first, second = _pairs(x, mode)
    return _join(-second, first, mode)


def _rotary_composed(inputs: tuple[Tensor, ...], options: tuple[str]) -> tuple[Tensor]:
    x, cos, sin = inputs
    return (x * cos + _rotate(x, options[0]) * sin,)


def _turned(x: Tensor, cos: Tensor, signed: Tensor, mode: str) -> Tensor:
    """x * cos + (x with its pairs swapped) * signed: the sign is the sine's, which is small, instead of x's."""
    first, second = _pairs(x, mode)
    return (x * cos).addcmul_(_join(second, first, mode), signed)


def _rotary_direct(
    inputs: tuple[Tensor, ...], options: tuple[str], _keep: bool
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    x, cos, sin = inputs
    first, second = _pairs(sin, options[0])
    return (_turned(x, cos, _join(-first, second, options[0]), options[0]),), ()


def _rotary_gradients(
    inputs: tuple[Tensor, ...], _kept: tuple[Tensor, ...], grad: Tensor, wanted: tuple[bool, ...], options: tuple[str]
) -> tuple[Tensor | None, ...]:
    """Turned back: the sine of the other of a pair, with the other sign."""
    x, cos, sin = inputs
    first, second = _pairs(sin, options[0])
    dx = _turned(grad, cos, _join(second, -first, options[0]), options[0]) if wanted[0] else None
    dcos = (grad * x).sum_to_size(cos.shape) if wanted[1] else None
    dsin = (grad * _rotate(x, options[0])).sum_to_size(sin.shape) if wanted[2] else None
    return dx, dcos, dsin


_ROTARY = Kind(_rotary_composed, _rotary_direct, _rotary_gradients)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, mode: str, name: str) -> Tensor:
    require(mode in _MODES, f"{name}: rotary_mode must be one of {', '.join(_MODES)}, not {mode!r}")
    require(
        x.shape[-1] % 2 == 0, f"{name}: the last dimension has {x.shape[-1]} elements; it must be even", ErrCode.VALUE
    )
    if _fits(cos, x) and _fits(sin, x):
        return apply(_ROTARY, (x, cos, sin), mode)[0]
    return _rotary_composed((x, cos, sin), (mode,))[0]


def _fits(table: Tensor, x: Tensor) -> bool:
    """Whether x keeps its shape and dtype when it is multiplied by the table."""
    if table.dtype != x.dtype or table.dim() > x.dim() or table.shape[-1] != x.shape[-1]:
        return False
    sizes = x.shape[x.dim() - table.dim() :]
    return all(here in (1, there) for here, there in zip(table.shape, sizes, strict=True))


def npu_rotary_mul(
    self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """`rotate` is a matrix that does what the mode would do."""
    if rotate is not None:
        return self * r1 + (self @ rotate) * r2
    return _turn(self, r1, r2, rotary_mode, "npu_rotary_mul")


def npu_rotary_mul_backward(
    grad: Tensor, self: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half"
) -> tuple[Tensor, Tensor, Tensor]:
    return gradients(lambda x, cos, sin: _turn(x, cos, sin, rotary_mode, "npu_rotary_mul_backward"), grad, self, r1, r2)


def npu_apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str = "BSND", rotary_mode: str = "half"
) -> tuple[Tensor, Tensor]:
    """cos and sin broadcast over the heads, so the layout only has to be one that has them apart. Only the first dimensions are
    turned when cos covers fewer than the heads have. As on the device, query and key themselves are written, unless autograd
    needs them."""
    layouts = ("BSND", "SBND", "BNSD", "TND")
    require(layout in layouts, f"npu_apply_rotary_pos_emb: layout must be one of {', '.join(layouts)}, not {layout!r}")
    width = cos.shape[-1]
    results = []
    for x in (query, key):
        turned = _turn(x[..., :width], cos, sin, rotary_mode, "npu_apply_rotary_pos_emb")
        whole = torch.cat((turned, x[..., width:]), -1) if width < x.shape[-1] else turned
        results.append(whole if whole.requires_grad else x.copy_(whole))
    return results[0], results[1]


def npu_interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The pairs are taken apart first, so that the result has its halves one after the other."""
    require(
        x.shape[-1] % 2 == 0, f"npu_interleave_rope: the last dimension has {x.shape[-1]} elements; it must be even"
    )
    apart = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    return _turn(apart, cos, sin, "half", "npu_interleave_rope")


def _sections(cache: Tensor, sections: list[int]) -> Tensor:
    """Multimodal rope: the k-th section of each half comes from the k-th row of positions. `cache` is [rows, tokens, width]."""
    parts = cache.split_with_sizes(sections, -1)
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
    rows = cos_sin_cache[positions.long()]  # [(rows,) tokens, width]
    cos, sin = rows.chunk(2, -1)
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
