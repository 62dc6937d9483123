"""Quantisation by blocks: one scale for a rectangle, MX (a power of two for 32 values), rotations before quantising."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import DTypeCode, ErrCode, dtype_of, require, unsupported
from torch_npu.operators.quantisation.core import FLOAT8, Target, check_limit, check_rint, dynamic, store, target_of

_TOP_EXPONENT = {torch.float8_e4m3fn: 8, torch.float8_e5m2: 15}
_BIAS = 127  # of the exponents in float8_e8m0
_SCALES_TOGETHER = 2  # the scales of an MX tensor lie in pairs


def npu_dynamic_block_quant(
    x: Tensor,
    *,
    min_scale: float = 0.0,
    round_mode: str = "rint",
    dst_type: int = 1,
    row_block_size: int = 1,
    col_block_size: int = 128,
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """A scale is never below min_scale."""
    name = "npu_dynamic_block_quant"
    check_rint(round_mode, name)
    check_limit(dst_type_max, name)
    require(x.dim() >= 2, f"{name}: a tensor of two dimensions or more, not {x.dim()}")
    require(
        row_block_size > 0 and col_block_size > 0,
        f"{name}: blocks of {row_block_size} by {col_block_size}; both sizes must be positive",
        ErrCode.VALUE,
    )
    target = target_of(dst_type, name)
    rows, columns = x.shape[-2:]
    padded = F.pad(x.detach().float(), (0, -columns % col_block_size, 0, -rows % row_block_size))
    blocks = torch.unflatten(torch.unflatten(padded, -1, (-1, col_block_size)), -3, (-1, row_block_size))
    scale = (blocks.abs().amax((-3, -1), keepdim=True) / target.high).clamp(min=min_scale)
    values = (blocks / torch.where(scale > 0, scale, 1)).flatten(-4, -3).flatten(-2)
    return store(values[..., :rows, :columns], target), scale.squeeze((-3, -1))


def _mx_blocks(x: Tensor, block_size: int) -> Tensor:
    """The last dimension as blocks, filled up with zeros."""
    return torch.unflatten(F.pad(x, (0, -x.shape[-1] % block_size)), -1, (-1, block_size))


def mx_target(dst_type: int, round_mode: str, scale_alg: int | None, dst_type_max: float | None, name: str) -> Target:
    """What the MX operators have in common: float8, half to even, the two ways to find a scale."""
    check_rint(round_mode, name)
    check_limit(dst_type_max, name)
    if scale_alg not in (None, 0, 1):
        raise unsupported(f"{name}: scale_alg {scale_alg}; 0 and 1 are there")
    target = target_of(dst_type, name)
    if target.dtype not in FLOAT8:
        raise unsupported(f"{name}: dst_type {dst_type}; float8_e4m3fn and float8_e5m2 are there")
    return target


def mx_exponent(top: Tensor, target: Target, scale_alg: int | None) -> Tensor:
    """Of the power of two for a block with this largest magnitude. 0: what brings its leading bit to the type's highest, so that the
    top of the range may saturate; 1: the least with which nothing saturates."""
    if scale_alg:
        mantissa, exponent = torch.frexp(top / target.high)
        exponent = torch.where(mantissa == 0.5, exponent - 1, exponent)
    else:
        exponent = torch.frexp(top).exponent - 1 - _TOP_EXPONENT[target.dtype]
    return torch.where(top > 0, exponent.clamp(-_BIAS, _BIAS), -_BIAS)


def mx_scales(exponent: Tensor) -> Tensor:
    """float8_e8m0 in pairs along the last dimension: its count is halved and a dimension of 2 added."""
    codes = F.pad(exponent + _BIAS, (0, exponent.shape[-1] % _SCALES_TOGETHER)).to(torch.uint8)
    return torch.unflatten(codes, -1, (-1, _SCALES_TOGETHER))


def npu_dynamic_mx_quant(
    input: Tensor,
    *,
    axis: int = -1,
    round_mode: str = "rint",
    dst_type: int = 296,
    block_size: int = 32,
    scale_alg: int | None = 0,
    dst_type_max: float = 0.0,
    max_low_bound: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """To float8. The scales are float8_e8m0 and lie in pairs: their count along the axis is halved and a last dimension of 2 added."""
    name = "npu_dynamic_mx_quant"
    if max_low_bound:
        raise unsupported(f"{name}: max_low_bound {max_low_bound}; 0 is there")
    require(block_size > 0 and block_size % 32 == 0, f"{name}: block_size {block_size} must be a multiple of 32")
    target = mx_target(dst_type, round_mode, scale_alg, dst_type_max, name)
    moved = input.detach().float().movedim(axis, -1)
    blocks = _mx_blocks(moved, block_size)
    exponent = mx_exponent(blocks.abs().amax(-1), target, scale_alg)
    values = torch.ldexp(blocks, -exponent.unsqueeze(-1)).flatten(-2)[..., : moved.shape[-1]]
    pairs = mx_scales(exponent).movedim(-2, axis - 1 if axis < 0 else axis)
    return store(values.movedim(-1, axis), target), pairs.contiguous().view(torch.float8_e8m0fnu)


def npu_dynamic_mx_quant_with_dual_axis(
    input: Tensor,
    *,
    round_mode: str = "rint",
    dst_type: int = 296,
    scale_alg: int = 0,
    dst_type_max: float | None = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values and scales of blocks along the last dimension, then of blocks along the one before it."""
    require(input.dim() >= 2, f"npu_dynamic_mx_quant_with_dual_axis: two dimensions or more, not {input.dim()}")

    def along(axis: int) -> tuple[Tensor, Tensor]:
        return npu_dynamic_mx_quant(
            input,
            axis=axis,
            round_mode=round_mode,
            dst_type=dst_type,
            scale_alg=scale_alg,
            dst_type_max=dst_type_max or 0.0,
        )

    return *along(-1), *along(-2)


def npu_anti_mx_quant(
    x: Tensor,
    mxscale: Tensor,
    *,
    axis: int | None = -1,
    dst_type: DTypeCode | None = 15,
    src_type: DTypeCode | None = 292,
) -> Tensor:
    """The inverse of npu_dynamic_mx_quant with blocks of 32."""
    source = dtype_of(292 if src_type is None else src_type, "src_type")
    require(source == x.dtype, f"npu_anti_mx_quant: src_type {source}, x is {x.dtype}", ErrCode.TYPE)
    where = -1 if axis is None else axis
    moved = x.float().movedim(where, -1)
    exponents = mxscale.view(torch.uint8).int().movedim(where - 1 if where < 0 else where, -2).flatten(-2) - _BIAS
    blocks = _mx_blocks(moved, 32)
    require(
        exponents.shape[-1] - blocks.shape[-2] in range(_SCALES_TOGETHER),
        f"npu_anti_mx_quant: scales of {tuple(mxscale.shape)} for values of {tuple(x.shape)}",
    )
    values = torch.ldexp(blocks, exponents[..., : blocks.shape[-2], None]).flatten(-2)[..., : moved.shape[-1]]
    return values.movedim(-1, where).to(dtype_of(15 if dst_type is None else dst_type, "dst_type"))


def npu_kronecker_quant(
    x: Tensor,
    kronecker_p1: Tensor,
    kronecker_p2: Tensor,
    clip_ratio: float | None = None,
    dst_dtype: int | None = None,
    dst_type_max: float | None = None,
) -> tuple[Tensor, Tensor]:
    """p1 @ x @ p2 for each matrix of x, then int4 with one scale per matrix; clip_ratio makes the range narrower."""
    check_limit(dst_type_max, "npu_kronecker_quant")
    require(x.dim() == 3, f"npu_kronecker_quant: x must have 3 dimensions, not {x.dim()}")
    target = target_of(16 if dst_dtype is None else dst_dtype, "npu_kronecker_quant")
    ratio = 1.0 if clip_ratio is None else clip_ratio
    require(0 < ratio <= 1, f"npu_kronecker_quant: clip_ratio must be over 0 and at most 1, not {ratio}", ErrCode.VALUE)
    turned = kronecker_p1.float() @ x.detach().float() @ kronecker_p2.float()
    scale = turned.abs().amax((-2, -1), keepdim=True) * (ratio / target.high)
    return store(turned / torch.where(scale > 0, scale, 1), target), scale.reshape(-1)


def npu_rotate_quant(
    x: Tensor,
    rotation: Tensor,
    *,
    alpha: Tensor | None = None,
    dst_dtype: int | None = None,
    axis: int | None = -1,
    round_mode: str | None = "rint",
    scale_alg: int | None = 0,
    dst_type_max: float | None = 0.0,
    transpose_y: bool | None = False,
) -> tuple[Tensor, Tensor]:
    """A rotation smaller than a row turns each stretch of it; then one scale per token."""
    name = "npu_rotate_quant"
    check_rint(round_mode, name)
    check_limit(dst_type_max, name)
    if alpha is not None or scale_alg or transpose_y or axis not in (None, -1, x.dim() - 1):
        raise unsupported(f"{name}: alpha, scale_alg, transpose_y and an axis other than the last")
    size = rotation.shape[-1]
    require(
        rotation.dim() == 2 and rotation.shape[0] == size and x.shape[-1] % size == 0,
        f"{name}: a rotation of {tuple(rotation.shape)} must be square and divide rows of {x.shape[-1]}",
    )
    parts = torch.unflatten(x.detach().float(), -1, (-1, size)) @ rotation.float()
    return dynamic(parts.flatten(-2), target_of(dst_dtype, name))
