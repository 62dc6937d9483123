"""What is fused with a grouped product: sums of gradients, gated units with quantised results, routing back to tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import needed, unsupported
from torch_npu.operators.common.groups import COUNTS, GroupList, by_columns, by_rows
from torch_npu.operators.experts.grouped import Options, matrices_of, pick, stacked
from torch_npu.operators.quantisation.core import dynamic, product, target_of, unpack_weight
from torch_npu.operators.quantisation.gated import swiglu
from torch_npu.operators.quantisation.matmul import check_types, scaled


def npu_grouped_matmul_add_(
    self: Tensor,
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    *,
    transpose_x: bool = True,
    transpose_weight: bool = False,
    group_type: int = 2,
    group_list_type: int | None = 0,
) -> Tensor:
    """x is [k, m] and weight [k, n]; self, [groups, m, n] or the same rows below one another, takes the sum."""
    name = "npu_grouped_matmul_add"
    if not transpose_x or transpose_weight or group_type != 2:
        raise unsupported(f"{name}: x transposed, weight not, and group_type 2 are there")
    groups = GroupList(group_list, group_list_type or 0, group_list.shape[0], name)
    products = torch.stack(by_columns(x.float().t(), weight.float(), groups))
    return self.add_(products.reshape(self.shape).to(self.dtype))


def npu_grouped_matmul_add(self: Tensor, x: Tensor, weight: Tensor, group_list: Tensor, **options: Any) -> Tensor:
    return npu_grouped_matmul_add_(self.clone(), x, weight, group_list, **options)


def npu_grouped_matmul_swiglu_quant(
    x: Tensor,
    weight: Tensor,
    group_list: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    *,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Values, a scale for each row, and an offset that is empty."""
    if bias is not None or offset is not None:
        raise unsupported(
            "npu_grouped_matmul_swiglu_quant: bias and offset, which the product leaves for later as well"
        )
    y, scale = npu_grouped_matmul_swiglu_quant_v2(x, [weight], [weight_scale], x_scale, group_list)
    return y, scale, scale.new_empty(0)


def npu_grouped_matmul_swiglu_quant_v2(
    x: Tensor, weight: list[Tensor], weight_scale: list[Tensor], x_scale: Tensor, group_list: Tensor, *,
    smooth_scale: Tensor | None = None, weight_assist_matrix: list[Tensor] | None = None, bias: Tensor | None = None,
    dequant_mode: int | None = 0, dequant_dtype: int | None = 0, quant_mode: int | None = 0,
    quant_dtype: int | None = 1, group_list_type: int | None = 0, tuning_config: list[int] | None = None,
    x_dtype: int | None = None, weight_dtype: int | None = None, weight_scale_dtype: int | None = None,
    x_scale_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The first half of a row goes through silu. Weights with a scale for each output, results with one for each row. tuning_config is a
    hint about sizes to a kernel that tiles."""
    name = "npu_grouped_matmul_swiglu_quant_v2"
    check_types(
        name, x_dtype=x_dtype, weight_dtype=weight_dtype, weight_scale=weight_scale_dtype, x_scale=x_scale_dtype
    )
    if (
        weight_assist_matrix
        or bias is not None
        or smooth_scale is not None
        or dequant_mode
        or dequant_dtype
        or quant_mode
    ):
        raise unsupported(f"{name}: assist matrix, bias, smooth_scale and modes other than 0")
    matrices = matrices_of(weight)

    def rows_of(group: int, start: int, end: int) -> Tensor:
        matrix = unpack_weight(matrices[group], x.shape[-1], name)
        return scaled(
            product(x[start:end], matrix),
            pick(weight_scale, group, stacked(weight)),
            x_scale.reshape(-1)[start:end],
            None,
        )

    groups = GroupList(group_list, group_list_type or 0, len(matrices), name)
    return dynamic(swiglu(by_rows(x.shape[0], groups, rows_of), True, name), target_of(quant_dtype, name))


def npu_grouped_matmul_finalize_routing(
    x: Tensor, w: Tensor, group_list: Tensor, *, scale: Tensor | None = None, bias: Tensor | None = None,
    offset: Tensor | None = None, pertoken_scale: Tensor | None = None, shared_input: Tensor | None = None,
    logit: Tensor | None = None, row_index: Tensor | None = None, dtype: torch.dtype | None = None,
    shared_input_weight: float | None = 1.0, shared_input_offset: int | None = 0, output_bs: int | None = 0,
    group_list_type: int | None = 1, tuning_config: list[int] | None = None, x_dtype: int | None = None,
    w_dtype: int | None = None, scale_dtype: int | None = None, pertoken_scale_dtype: int | None = None,
) -> Tensor:  # fmt: skip
    """Row r of the product, times its logit, is added to row row_index[r] of the result; the shared input from its offset on.
    tuning_config is a hint about sizes to a kernel that tiles."""
    name = "npu_grouped_matmul_finalize_routing"
    check_types(name, x_dtype=x_dtype, w_dtype=w_dtype, scale_dtype=scale_dtype, pertoken=pertoken_scale_dtype)
    if offset is not None or (bias is not None and w.dtype == torch.int32):
        raise unsupported(f"{name}: offset, and the bias of packed int4 weights, which corrects for an offset")
    targets = needed(row_index, f"{name}: row_index says where each row goes and must be given").reshape(-1).long()
    biases, scales, row_scales = (None if table is None else [table] for table in (bias, scale, pertoken_scale))
    options = Options(w.dim() == 3, biases, scales, None, None, row_scales, act_type=0, output=torch.float32)
    matrices = matrices_of([w])

    def rows_of(group: int, start: int, end: int) -> Tensor:
        return options.single(x[start:end], matrices[group], group, slice(start, end))

    kind = COUNTS if group_list_type is None else group_list_type
    rows = by_rows(x.shape[0], GroupList(group_list, kind, len(matrices), name), rows_of)
    if logit is not None:
        rows = rows * logit.float().reshape(-1, 1)
    result = rows.new_zeros(output_bs or x.shape[0], rows.shape[1]).index_add(0, targets, rows)
    if shared_input is not None:
        start = shared_input_offset or 0
        part = (1.0 if shared_input_weight is None else shared_input_weight) * shared_input.float()
        result = result.slice_scatter(result[start : start + len(part)] + part, 0, start, start + len(part))
    return result.to(dtype or torch.float32)
