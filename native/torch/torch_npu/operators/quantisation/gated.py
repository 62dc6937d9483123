"""Gated units and gelu with quantised results, and with quantised sums going in."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import halves, needed, require, unsupported
from torch_npu.operators.quantisation.blocks import npu_dynamic_mx_quant
from torch_npu.operators.quantisation.core import (
    Groups,
    Target,
    check_rint,
    dynamic,
    per_row,
    row_groups,
    scale_of,
    static,
    target_of,
    visited,
)


def swiglu(x: Tensor, activate_left: bool, name: str) -> Tensor:
    """float32; the half that goes through silu is the second unless activate_left."""
    left, right = halves(x.float(), -1, name)
    return F.silu(left) * right if activate_left else left * F.silu(right)


def _clipped(x: Tensor, limit: float, alpha: float, bias: float) -> Tensor:
    """The unit of swiglu_mode 1: its two inputs take turns along the last dimension."""
    gate, linear = x[..., ::2].clamp(max=limit), x[..., 1::2].clamp(-limit, limit)
    return gate * torch.sigmoid(alpha * gate) * (linear + bias)


def _unit(
    x: Tensor, activate_left: bool, mode: int, clip: tuple[float, float, float], dim: int | None, name: str
) -> Tensor:
    if dim not in (None, -1, x.dim() - 1):
        raise unsupported(f"{name}: activate_dim {dim}; the last dimension is there")
    require(mode in (0, 1), f"{name}: swiglu_mode must be 0 or 1, not {mode}")
    return _clipped(x.float(), *clip) if mode else swiglu(x, activate_left, name)


def _quantised(
    values: Tensor, scale: Tensor | None, offset: Tensor | None, target: Target, mode: int, divide: bool, name: str
) -> tuple[Tensor, Tensor]:
    """Mode 0 with the scale that is given (the second result is zero), mode 1 with the one found for each token."""
    require(mode in (0, 1), f"{name}: quant_mode must be 0 (static) or 1 (dynamic), not {mode}")
    if mode == 1:
        require(offset is None, f"{name}: a dynamic quantisation (quant_mode 1) has no offset")
        return dynamic(values if scale is None else values * scale, target)
    factor = needed(scale, f"{name}: a static quantisation (quant_mode 0) needs a scale")
    y = static(values, factor, offset, target, divide=divide)
    return y, values.new_zeros(values.shape[:-1])


def npu_swiglu_quant(
    x: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    offsets: Tensor | None = None,
    group_index: Tensor | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    group_list_type: int = 0,
    dst_type: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Tables have a row, or a number, for each group; rows past the last group are zero."""
    name = "npu_swiglu_quant"
    values = swiglu(x.detach(), activate_left, name)
    rows = values.reshape(-1, values.shape[-1])
    groups = row_groups(group_index, group_list_type, rows.shape[0], name)
    scale, offset = per_row(smooth_scales, groups), per_row(offsets, groups)
    y, row_scales = _quantised(rows, scale, offset, target_of(dst_type, name), quant_mode, False, name)
    y, row_scales = visited(groups, y, row_scales)
    return y.reshape(*values.shape[:-1], -1), row_scales.reshape(values.shape[:-1])


def _dequantised(
    x: Tensor, weight_scale: Tensor | None, activation_scale: Tensor | None, bias: Tensor | None, groups: Groups | None
) -> Tensor:
    """Sums as numbers: an integer bias before the scales, a float one after them."""
    added = per_row(bias, groups)
    before = bias is not None and not bias.is_floating_point()
    values = x.float()
    if added is not None and before:
        values = values + added
    if weight_scale is not None:
        values = values * per_row(scale_of(weight_scale), groups)
    if activation_scale is not None:
        values = values * activation_scale.float().reshape(-1, 1)
    return values if added is None or before else values + added


def npu_dequant_swiglu_quant(
    x: Tensor,
    *,
    weight_scale: Tensor | None = None,
    activation_scale: Tensor | None = None,
    bias: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    group_index: Tensor | None = None,
    activate_left: bool = False,
    quant_mode: int = 0,
    dst_type: int | None = None,
    round_mode: int | None = None,
    activate_dim: int | None = None,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """group_index counts the rows of each group. A static quantisation divides by its scale, a dynamic one multiplies by it first.
    activate_left has no meaning in swiglu_mode 1, whose inputs take turns."""
    name = "npu_dequant_swiglu_quant"
    check_rint(round_mode, name)
    require(
        x.dtype != torch.int32 or weight_scale is not None,
        f"{name}: int32 sums need a weight_scale to become numbers",
    )
    rows = x.detach().reshape(-1, x.shape[-1])
    groups = row_groups(group_index, 1, rows.shape[0], name)
    values = _dequantised(rows, weight_scale, activation_scale, bias, groups)
    last = -1 if activate_dim == x.dim() - 1 else activate_dim
    gated = _unit(values, activate_left, swiglu_mode, (clamp_limit, glu_alpha, glu_bias), last, name)
    scale, offset = per_row(quant_scale, groups), per_row(quant_offset, groups)
    y, row_scales = _quantised(gated, scale, offset, target_of(dst_type, name), quant_mode, True, name)
    y, row_scales = visited(groups, y, row_scales)
    return y.reshape(*x.shape[:-1], -1), row_scales.reshape(x.shape[:-1])


def npu_swiglu_mx_quant(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    activate_dim: int = -1,
    activate_left: bool = False,
    swiglu_mode: int = 0,
    clamp_limit: float = 7.0,
    glu_alpha: float = 1.702,
    glu_bias: float = 1.0,
    group_mode: int = 0,
    axis: int = -1,
    dst_type: int = 296,
    round_mode: str = "rint",
    scale_alg: int = 0,
    max_dtype_value: float = 0,
) -> tuple[Tensor, Tensor]:
    """The unit of npu_dequant_swiglu_quant, then blocks of float8 along the axis."""
    name = "npu_swiglu_mx_quant"
    if group_index is not None or group_mode:
        raise unsupported(f"{name}: group_index and group_mode {group_mode}; all rows at once are there")
    values = _unit(x.detach(), activate_left, swiglu_mode, (clamp_limit, glu_alpha, glu_bias), activate_dim, name)
    return npu_dynamic_mx_quant(
        values, axis=axis, round_mode=round_mode, dst_type=dst_type, scale_alg=scale_alg, dst_type_max=max_dtype_value
    )


def npu_gelu_quant(
    self: Tensor,
    *,
    input_scale: Tensor | None = None,
    input_offset: Tensor | None = None,
    approximate: str = "none",
    quant_mode: str = "dynamic",
    dst_type: int | None = None,
    round_mode: str = "rint",
) -> tuple[Tensor, Tensor]:
    """The second result of a static quantisation is empty."""
    name = "npu_gelu_quant"
    check_rint(round_mode, name)
    require(approximate in ("none", "tanh"), f"{name}: approximate must be 'none' or 'tanh', not {approximate!r}")
    require(quant_mode in ("static", "dynamic"), f"{name}: quant_mode must be static or dynamic, not {quant_mode!r}")
    values = F.gelu(self.detach().float(), approximate=approximate)
    mode = 0 if quant_mode == "static" else 1
    scale = None if input_scale is None else input_scale.float()
    y, row_scales = _quantised(values, scale, input_offset, target_of(dst_type, name), mode, False, name)
    return y, row_scales if mode else row_scales.new_empty(0)
