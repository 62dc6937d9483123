"""MX quantisation of norms, gated units, groups of rows and square blocks: float8 with a power of two for each 32 values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import gradient, require, unsupported, wide
from torch_npu.operators.quantisation.blocks import (
    mx_exponent,
    mx_scales,
    mx_target,
    npu_dynamic_mx_quant,
    npu_dynamic_mx_quant_with_dual_axis,
)
from torch_npu.operators.quantisation.core import row_groups, store, visited
from torch_npu.operators.quantisation.gated import swiglu

_BLOCK = 32
_PAIR = 2 * _BLOCK  # values of two scales that lie together


def npu_rms_norm_dynamic_mx_quant(
    x: Tensor, gamma: Tensor, *, beta: Tensor | None = None, epsilon: float = 1e-6, scale_alg: int = 0,
    round_mode: str = "rint", dst_type: int = 296,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Values, scales, 1 / rms. The norm is not rounded before it is quantised."""
    norm, rstd = torch.ops.npu.npu_rms_norm(wide(x.detach()), wide(gamma.detach()), epsilon)
    norm = norm if beta is None else norm + wide(beta.detach())
    return *npu_dynamic_mx_quant(norm, dst_type=dst_type, round_mode=round_mode, scale_alg=scale_alg), rstd


def npu_add_rms_norm_dynamic_mx_quant(
    x1: Tensor, x2: Tensor, gamma: Tensor, *, beta: Tensor | None = None, epsilon: float = 1e-6, scale_alg: int = 0,
    round_mode: str = "rint", dst_type: int = 296,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Values, the sum, scales, 1 / rms: an order that no document here says; it follows npu_add_rms_norm_dynamic_quant."""
    x = x1 + x2
    y, scale, rstd = npu_rms_norm_dynamic_mx_quant(
        x, gamma, beta=beta, epsilon=epsilon, scale_alg=scale_alg, round_mode=round_mode, dst_type=dst_type
    )
    return y, x, scale, rstd


def npu_grouped_dynamic_mx_quant(
    x: Tensor, group_index: Tensor, *, round_mode: str = "rint", dst_type: int = 23, blocksize: int = 32,
    scale_alg: int | None = 0, dst_type_max: float | None = 0.0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x [rows, columns], group_index says where each group's rows end. Blocks run along the rows and end with their group. Scales are
    [rows // 64 + groups, columns, 2]; those of group g begin at (its first row) // 64 + g, which leaves room for all. Rows past the
    last group are zero."""
    name = "npu_grouped_dynamic_mx_quant"
    require(x.dim() == 2, f"{name}: x must be [rows, columns], not {tuple(x.shape)}")
    require(blocksize == _BLOCK, f"{name}: blocksize must be {_BLOCK}, not {blocksize}")
    target = mx_target(dst_type, round_mode, scale_alg, dst_type_max, name)
    groups = row_groups(group_index, 0, x.shape[0], name)
    assert groups is not None
    require(groups.count > 0, f"{name}: group_index is empty; it must say where each group ends")
    ends = group_index.reshape(-1).long()
    starts = F.pad(ends[:-1], (1, 0))[groups.member]
    first = 2 * (starts // _PAIR + groups.member)
    block = first + (torch.arange(x.shape[0], device=x.device) - starts) // _BLOCK
    pairs = x.shape[0] // _PAIR + groups.count
    block = torch.where(groups.inside, block, 2 * pairs)  # one row past the scales for what no group has
    values = x.detach().float()
    places = block.unsqueeze(1).expand_as(values)
    top = values.new_zeros(2 * pairs + 1, x.shape[1]).scatter_reduce(0, places, values.abs(), "amax")
    exponent = mx_exponent(top, target, scale_alg)
    scaled = torch.ldexp(values, -exponent.index_select(0, block))
    scales = mx_scales(exponent[:-1].t()).transpose(0, 1)
    (kept,) = visited(groups, scaled)
    return store(kept, target), scales.contiguous().view(torch.float8_e8m0fnu)


def npu_dynamic_block_mx_quant(
    input: Tensor, *, round_mode: str = "rint", dst_type: int = 296, scale_alg: int = 0, dst_type_max: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """One scale for each square of 32 by 32. The values are their own transpose's, so the scales come for blocks along the last
    dimension and for blocks along the one before it, as npu_dynamic_mx_quant would give either."""
    name = "npu_dynamic_block_mx_quant"
    require(input.dim() >= 2, f"{name}: two dimensions or more, not {input.dim()}")
    target = mx_target(dst_type, round_mode, scale_alg, dst_type_max, name)
    rows, columns = input.shape[-2:]
    padded = F.pad(input.detach().float(), (0, -columns % _BLOCK, 0, -rows % _BLOCK))
    squares = torch.unflatten(torch.unflatten(padded, -1, (-1, _BLOCK)), -3, (-1, _BLOCK))
    exponent = mx_exponent(squares.abs().amax((-3, -1)), target, scale_alg)
    tall = exponent.repeat_interleave(_BLOCK, -2)[..., :rows, :]
    broad = exponent.repeat_interleave(_BLOCK, -1)[..., :columns]
    values = torch.ldexp(input.detach().float(), -tall.repeat_interleave(_BLOCK, -1)[..., :columns])
    along_rows = mx_scales(tall)
    along_columns = mx_scales(broad.transpose(-1, -2)).transpose(-2, -3)
    by_row, by_column = (codes.contiguous().view(torch.float8_e8m0fnu) for codes in (along_rows, along_columns))
    return store(values, target), by_row, by_column


def _no_groups(name: str, group_index: Tensor | None) -> None:
    if group_index is not None:
        raise unsupported(f"{name}: group_index; all rows at once are there")


def npu_swiglu_mx_quant_with_dual_axis(
    x: Tensor, *, group_index: Tensor | None = None, activate_left: bool = True, round_mode: str = "rint", scale_alg: int = 1,
    dst_type: int = 24, dst_type_max: float = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    name = "npu_swiglu_mx_quant_with_dual_axis"
    _no_groups(name, group_index)
    return npu_dynamic_mx_quant_with_dual_axis(
        swiglu(x.detach(), activate_left, name), round_mode=round_mode, dst_type=dst_type, scale_alg=scale_alg,
        dst_type_max=dst_type_max,
    )  # fmt: skip


def _npu_swiglu_backward_mx_quant_with_dual_axis(
    x: Tensor, y_grad: Tensor, *, group_index: Tensor | None = None, activate_left: bool = True, round_mode: str = "rint",
    scale_alg: int = 1, dst_type: int = 24, dst_type_max: float = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    name = "_npu_swiglu_backward_mx_quant_with_dual_axis"
    _no_groups(name, group_index)
    grad = gradient(lambda z: swiglu(z, activate_left, name), y_grad.float(), x.float())
    return npu_dynamic_mx_quant_with_dual_axis(
        grad, round_mode=round_mode, dst_type=dst_type, scale_alg=scale_alg, dst_type_max=dst_type_max
    )
