"""Products that quantise their input on the way in and give float results."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require, unsupported
from torch_npu.operators.common.groups import GroupList, by_rows
from torch_npu.operators.quantisation.core import dynamic, product, static, target_of
from torch_npu.operators.quantisation.matmul import scaled


def _quantised_input(
    x: Tensor, x_scale: Tensor | None, smooth_scale: Tensor | None, quant_mode: str | None, name: str
) -> tuple[Tensor, Tensor]:
    """int8 rows and the scale of each."""
    require(
        quant_mode in (None, "pertoken", "pertensor"),
        f"{name}: quant_mode must be pertoken or pertensor, not {quant_mode!r}",
    )
    values = x.float() if smooth_scale is None else x.float() * smooth_scale.float()
    target = target_of(torch.int8, name)
    if x_scale is None:
        require(quant_mode != "pertensor", f"{name}: quant_mode pertensor needs x_scale")
        return dynamic(values, target)
    scale = x_scale.float().reshape(-1)
    return static(values, scale if scale.numel() == 1 else scale.unsqueeze(-1), None, target, divide=True), scale


def npu_quant_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    *,
    bias: Tensor | None = None,
    x_scale: Tensor | None = None,
    x_offset: Tensor | None = None,
    smooth_scale: Tensor | None = None,
    quant_mode: str | None = "pertoken",
) -> Tensor:
    """The weight is [n, k]: a row for each output."""
    if x_offset is not None:
        raise unsupported("npu_quant_matmul_dequant: x_offset; a symmetric input is there")
    rows, scale = _quantised_input(x, x_scale, smooth_scale, quant_mode, "npu_quant_matmul_dequant")
    return scaled(product(rows, quantized_weight.transpose(-1, -2)), weight_scale, scale, bias).to(x.dtype)


def npu_quant_grouped_matmul_dequant(
    x: Tensor,
    quantized_weight: Tensor,
    weight_scale: Tensor,
    group_list: Tensor,
    *,
    bias: Tensor | None = None,
    x_scale: Tensor | None = None,
    x_offset: Tensor | None = None,
    smooth_scale: Tensor | None = None,
    quant_mode: str | None = "pertoken",
) -> Tensor:
    """Weights are [groups, n, k], group_list says where the rows of each group end."""
    name = "npu_quant_grouped_matmul_dequant"
    if x_offset is not None or bias is not None:
        raise unsupported(f"{name}: x_offset and bias; a symmetric input without a bias is there")
    rows, scale = _quantised_input(x, x_scale, smooth_scale, quant_mode, name)
    weights, scales = quantized_weight.transpose(-1, -2), scale.expand(x.shape[0])

    def rows_of(group: int, start: int, end: int) -> Tensor:
        return scaled(product(rows[start:end], weights[group]), weight_scale[group], scales[start:end], None)

    return by_rows(x.shape[0], GroupList(group_list, 0, weights.shape[0], name), rows_of).to(x.dtype)
