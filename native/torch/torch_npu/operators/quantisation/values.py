"""Quantisation: values to integers and back. Products are in `matmul`, gated units in `gated`, blocks in `blocks`."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, dtype_of, require, unsupported
from torch_npu.operators.quantisation.core import (
    check_limit,
    check_rint,
    dynamic,
    dynamic_asymmetric,
    pack_int4,
    per_row,
    row_groups,
    scale_of,
    static,
    target_of,
    unpack_int4,
    visited,
)
from torch_npu.operators.tensors.scatter import scatter_update_


def npu_quantize(
    self: Tensor, scales: Tensor, zero_points: Tensor | None, dtype: int, axis: int = 1, div_mode: bool = True
) -> Tensor:
    return static(self, scales, zero_points, target_of(dtype, "npu_quantize"), divide=div_mode, axis=axis)


def _quantize_impl(values: Tensor, dtype: torch.dtype, result: Tensor) -> Tensor:
    require(
        result.shape == values.shape,
        f"a result of {tuple(result.shape)} for quantised values of {tuple(values.shape)}",
    )
    target = target_of(dtype, "quantize").dtype
    require(result.dtype == target, f"a result of {result.dtype} for values quantised to {target}", ErrCode.TYPE)
    return result.copy_(values)


def _quantize_per_channel_impl__out(
    inputs: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: torch.dtype, *, result: Tensor
) -> Tensor:
    values = static(inputs, scales, zero_points, target_of(dtype, "quantize_per_channel"), divide=True, axis=axis)
    return _quantize_impl(values, dtype, result)


def _quantize_per_tensor_impl__out(
    inputs: Tensor, scales: Tensor, zero_points: Tensor, dtype: torch.dtype, *, result: Tensor
) -> Tensor:
    values = static(inputs, scales, zero_points, target_of(dtype, "quantize_per_tensor"), divide=True)
    return _quantize_impl(values, dtype, result)


def npu_anti_quant(
    x: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: int | None = None,
    src_dtype: int | None = None,
) -> Tensor:
    """An int32 input holds packed int4: its last dimension grows by eight."""
    values = unpack_int4(x) if x.dtype == torch.int32 else x
    if src_dtype is not None:
        wanted = target_of(src_dtype, "npu_anti_quant")
        require(
            wanted.dtype == x.dtype,
            f"npu_anti_quant: src_dtype {src_dtype} is stored as {wanted.dtype}, x is {x.dtype}",
            ErrCode.TYPE,
        )
    result = values.float()
    if offset is not None:
        result = result + offset.float()
    return (result * scale.float()).to(torch.float16 if dst_dtype is None else dtype_of(dst_dtype, "dst_dtype"))


def npu_convert_weight_to_int4pack(weight: Tensor, inner_k_tiles: int = 0) -> Tensor:
    """Values of int4 in an int32 each become eight in one, along the last dimension."""
    require(inner_k_tiles == 0, f"npu_convert_weight_to_int4pack: inner_k_tiles must be 0, not {inner_k_tiles}")
    if weight.is_floating_point():
        raise unsupported(f"npu_convert_weight_to_int4pack: a weight of {weight.dtype} is packed as float4; give int32")
    return pack_int4(weight)


def npu_trans_quant_param(scale: Tensor, offset: Tensor | None = None, round_mode: int | None = 0) -> Tensor:
    """Bits 13 to 31 are those of the float scale, 37 to 45 the offset, 46 says that they are there."""
    require(round_mode in (None, 0, 1), f"npu_trans_quant_param: round_mode must be 0 or 1, not {round_mode}")
    bits = scale.float().contiguous().view(torch.int32).long() & 0xFFFFFFFF
    if round_mode == 1:  # to the nearest, half to even, of what 19 bits can say
        bits = bits + 0xFFF + ((bits >> 13) & 1)
    packed = (bits & 0xFFFFE000) | (1 << 46)
    if offset is None:
        return packed
    return packed | ((offset.float().round().clamp(-256, 255).long() & 0x1FF) << 37)


def npu_dequant_bias(
    x: Tensor,
    weight_scale: Tensor,
    activation_scale: Tensor | None,
    bias: Tensor | None,
    *,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """An integer bias belongs to the sums, a float one to what they mean."""
    sums = x if bias is None or bias.is_floating_point() else x + bias
    result = sums.float() * scale_of(weight_scale)
    if activation_scale is not None:
        result = result * activation_scale.float().reshape(-1, 1)
    if bias is not None and bias.is_floating_point():
        result = result + bias.float()
    return result.to(output_dtype or torch.float16)


def _dims(x: Tensor, quant_mode: str, name: str) -> tuple[int, ...]:
    """What one scale covers."""
    if quant_mode == "pertoken":
        return (-1,)
    if quant_mode == "perchannel":
        require(x.dim() >= 2, f"{name}: perchannel needs two dimensions, {tuple(x.shape)} has {x.dim()}")
        return (-2,)
    require(
        quant_mode == "pertensor",
        f"{name}: quant_mode must be pertoken, pertensor or perchannel, not {quant_mode!r}",
    )
    return tuple(range(x.dim()))


def _smoothed(x: Tensor, smooth_scales: Tensor | None, group_index: Tensor | None, name: str) -> Tensor:
    """Rows are tokens; with groups (given by where they end) each has its own row of factors."""
    values = x.detach().float()
    if smooth_scales is None:
        require(group_index is None, f"{name}: group_index without smooth_scales has nothing to choose from")
        return values
    if group_index is None:
        return values * smooth_scales.float()
    rows = values.reshape(-1, x.shape[-1])
    groups = row_groups(group_index, 0, rows.shape[0], name)
    return visited(groups, rows * per_row(smooth_scales, groups))[0].reshape(x.shape)


def npu_dynamic_quant(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor]:
    check_limit(dst_type_max, "npu_dynamic_quant")
    target, dims = target_of(dst_type, "npu_dynamic_quant"), _dims(input, quant_mode, "npu_dynamic_quant")
    y, scale = dynamic(_smoothed(input, smooth_scales, group_index, "npu_dynamic_quant"), target, dims)
    return y, scale.reshape(1) if quant_mode == "pertensor" else scale


def npu_dynamic_quant_asymmetric(
    input: Tensor,
    *,
    smooth_scales: Tensor | None = None,
    group_index: Tensor | None = None,
    dst_type: int | None = None,
    quant_mode: str = "pertoken",
    dst_type_max: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    name = "npu_dynamic_quant_asymmetric"
    check_limit(dst_type_max, name)
    target, dims = target_of(dst_type, name), _dims(input, quant_mode, name)
    y, scale, offset = dynamic_asymmetric(_smoothed(input, smooth_scales, group_index, name), target, dims)
    return (y, scale.reshape(1), offset.reshape(1)) if quant_mode == "pertensor" else (y, scale, offset)


def npu_group_quant(
    x: Tensor,
    scale: Tensor,
    group_index: Tensor,
    *,
    offset: Tensor | None = None,
    dst_dtype: torch.dtype | None = None,
) -> Tensor:
    """group_index says where each group's rows end."""
    groups = row_groups(group_index, 0, x.shape[0], "npu_group_quant")
    values = static(x, per_row(scale, groups), offset, target_of(dst_dtype, "npu_group_quant"))
    return visited(groups, values)[0]


def npu_quant_scatter_(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: int | None = None,
    round_mode: str | None = "rint",
) -> Tensor:
    """Indices are a start for each batch, or rows of (batch, start)."""
    require(reduce == "update", f"npu_quant_scatter: reduce must be 'update', not {reduce!r}")
    check_rint(round_mode, "npu_quant_scatter")
    target = target_of(self.dtype if dst_type is None else dst_type, "npu_quant_scatter")
    require(
        target.dtype == self.dtype and not target.packed,
        f"npu_quant_scatter: values of {target.dtype} for an input of {self.dtype}",
        ErrCode.TYPE,
    )
    values = static(updates, quant_scales, quant_zero_points, target, divide=True, axis=quant_axis)
    if indices.dim() == 1:
        return scatter_update_(self, indices, values, axis)
    for number, (batch, start) in enumerate(torch.split(row.long(), 1, -1) for row in torch.split(indices, 1)):
        chosen = self.index_select(0, batch.reshape(-1))
        self.index_copy_(0, batch.reshape(-1), scatter_update_(chosen, start, values[number : number + 1], axis))
    return self


def npu_quant_scatter(
    self: Tensor,
    indices: Tensor,
    updates: Tensor,
    quant_scales: Tensor,
    quant_zero_points: Tensor | None = None,
    axis: int = -2,
    quant_axis: int = -1,
    reduce: str = "update",
    dst_type: int | None = None,
    round_mode: str | None = "rint",
) -> Tensor:
    copy = self.clone()
    return npu_quant_scatter_(
        copy, indices, updates, quant_scales, quant_zero_points, axis, quant_axis, reduce, dst_type, round_mode
    )
