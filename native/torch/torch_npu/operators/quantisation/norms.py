"""rms norm with quantised results. The norm itself is computed in float32 and not rounded before it is quantised."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require, unsupported, wide
from torch_npu.operators.quantisation.core import dynamic, static, target_of


def _norm(x: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float) -> Tensor:
    y: Tensor = torch.ops.npu.npu_rms_norm(wide(x.detach()), wide(gamma.detach()), epsilon)[0]
    return y if beta is None else y + wide(beta.detach())


def npu_rms_norm_quant(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    offset: Tensor,
    epsilon: float = 1e-6,
    *,
    dst_dtype: int | None = None,
) -> Tensor:
    return static(_norm(x, gamma, beta, epsilon), scale, offset, target_of(dst_dtype, "npu_rms_norm_quant"))


def npu_rms_norm_quant_v2(
    x: Tensor,
    gamma: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_dtype: int | None = None,
) -> tuple[Tensor, Tensor]:
    """There is one scale, so the second result is empty."""
    target = target_of(dst_dtype, "npu_rms_norm_quant_v2")
    y = static(_norm(x, gamma, beta, epsilon), scale, offset, target, divide=div_mode)
    return y, y.new_empty(0)


def npu_add_rms_norm_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    scales1: Tensor,
    zero_points1: Tensor | None,
    beta: Tensor | None = None,
    scales2: Tensor | None = None,
    zero_points2: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-6,
    div_mode: bool = True,
    dst_type: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The second result is empty where there is no second scale."""
    name = "npu_add_rms_norm_quant"
    require(axis in (-1, x1.dim() - 1), f"{name}: axis must be the last, -1, not {axis}")
    require(scales2 is not None or zero_points2 is None, f"{name}: zero_points2 without scales2")
    x, target = x1 + x2, target_of(dst_type, name)
    y = _norm(x, gamma, beta, epsilon)
    first = static(y, scales1, zero_points1, target, divide=div_mode)
    second = first.new_empty(0) if scales2 is None else static(y, scales2, zero_points2, target, divide=div_mode)
    return first, second, x


def npu_add_rms_norm_dynamic_quant(
    x1: Tensor,
    x2: Tensor,
    gamma: Tensor,
    *,
    smooth_scale1: Tensor | None = None,
    smooth_scale2: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-6,
    output_mask: list[bool] | None = None,
    y_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """y1, y2, the sum, and a scale for each; the mask says which of the two are wanted, without one the second is where it has factors."""
    name = "npu_add_rms_norm_dynamic_quant"
    wanted = [True, smooth_scale2 is not None] if not output_mask else list(output_mask)
    require(len(wanted) == 2, f"{name}: output_mask must have 2 elements, not {len(wanted)}")
    x, target = x1 + x2, target_of(y_dtype, name)
    y = _norm(x, gamma, beta, epsilon)
    results = []
    for smooth, asked in zip((smooth_scale1, smooth_scale2), wanted, strict=True):
        if asked:
            results.append(dynamic(y if smooth is None else y * smooth.float(), target))
        else:
            results.append((y.new_empty(0, dtype=target.dtype), y.new_empty(0)))
    return results[0][0], results[1][0], x, results[0][1], results[1][1]


def _npu_rms_norm_backward_quant(
    dy: Tensor,
    x: Tensor,
    rstd: Tensor,
    gamma: Tensor,
    scale_x: Tensor,
    *,
    offset_x: Tensor | None = None,
    div_mode: bool | None = True,
    quant_mode: str = "static",
    dst_type: int | None = 1,
) -> tuple[Tensor, Tensor]:
    """dx quantised, dgamma in float32."""
    if quant_mode != "static":
        raise unsupported(f"_npu_rms_norm_backward_quant: quant_mode {quant_mode!r}; 'static' is there")
    target = target_of(dst_type, "_npu_rms_norm_backward_quant")
    dx, dgamma = torch.ops.npu.npu_rms_norm_backward(wide(dy), wide(x), gamma, rstd)
    return static(dx, scale_x, offset_x, target, divide=div_mode is not False), dgamma
