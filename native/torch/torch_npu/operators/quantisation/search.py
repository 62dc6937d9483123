"""Quantisation that looks at all values first: the largest magnitude, the scale with the least error."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, refuse, require
from torch_npu.operators.quantisation.core import check_rint, static, target_of

_LOW, _HIGH = -128, 127


def npu_quant_max(
    x: Tensor, scale: Tensor, *, round_mode: str = "rint", dst_dtype: int = 291, group_list: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """x times its scale, and the largest magnitude of x before it, a vector of one: what delayed scaling keeps for the next step.
    That the scale multiplies is a reading: no document here says it."""
    name = "npu_quant_max"
    check_rint(round_mode, name)
    refuse(name, group_list=group_list)
    require(scale.numel() == 1, f"{name}: one scale for the tensor, not {tuple(scale.shape)}")
    require(x.numel() > 0, f"{name}: x is empty and has no largest value")
    return static(x, scale.reshape(1), None, target_of(dst_dtype, name)), x.detach().abs().amax().reshape(1)


def _ratios(start: float, end: float, step: float, device: torch.device) -> Tensor:
    require(
        0 < start <= end and step > 0,
        f"npu_ifmr: the search goes from {start} to {end} by {step}; start must be positive and not over the end, step positive",
        ErrCode.VALUE,
    )
    count = int((end - start) / step + 1e-6) + 1
    return start + step * torch.arange(count, device=device)


def npu_ifmr(
    data: Tensor, data_min: Tensor, data_max: Tensor, cumsum: Tensor, min_percentile: float, max_percentile: float,
    search_start: float, search_end: float, search_step: float, with_offset: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The range of the data between percentiles, found in its histogram (cumsum: values up to the end of each bin), times the ratio
    of the search that gives int8 the least squared error; the first where several do. Without an offset the range is symmetric.
    With one, it includes zero and the offset is what zero becomes."""
    name = "npu_ifmr"
    for what, percentile in (("min_percentile", min_percentile), ("max_percentile", max_percentile)):
        require(
            0.5 < percentile <= 1, f"{name}: {what} must be over 0.5 and at most 1, not {percentile}", ErrCode.VALUE
        )
    ratios = _ratios(search_start, search_end, search_step, data.device).unsqueeze(1)
    counts, bins = cumsum.reshape(-1).double(), cumsum.numel()
    low, high = data_min.float().reshape(()), data_max.float().reshape(())
    width = (high - low) / bins
    wanted = torch.tensor([1 - min_percentile, max_percentile], dtype=torch.float64, device=data.device) * counts[-1]
    first, last = torch.searchsorted(counts, wanted).clamp(max=bins - 1).unbind()
    bottom, top = low + width * first, low + width * (last + 1)
    if with_offset:
        bottom, top = bottom.clamp(max=0) * ratios, top.clamp(min=0) * ratios
        scales = (top - bottom) / (_HIGH - _LOW)
    else:
        scales = torch.maximum(bottom.abs(), top.abs()) * ratios / _HIGH
        bottom = scales * _LOW
    scales = torch.where(scales > 0, scales, torch.ones_like(scales))
    offsets = (_LOW - bottom / scales).round() if with_offset else torch.zeros_like(scales)
    values = data.detach().float().reshape(1, -1)
    restored = ((values / scales + offsets).round().clamp(_LOW, _HIGH) - offsets) * scales
    best = (restored - values).square().sum(1).argmin()
    return scales[best, 0], offsets[best, 0]
