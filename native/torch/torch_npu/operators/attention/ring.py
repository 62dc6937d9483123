"""Ring attention: two partial results, of different keys, become the result of both."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.attention.layouts import check_layout
from torch_npu.operators.common.arguments import ErrCode, require, wide

_NAME = "npu_ring_attention_update"


def _weights(
    top: Tensor, total: Tensor, other_top: Tensor, other_total: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The merged maximum and sum, and the shares of the two in it; a row that neither saw keeps the sum 0."""
    highest = torch.maximum(top, other_top)
    first = total * torch.exp(top - highest)
    second = other_total * torch.exp(other_top - highest)
    whole = first + second
    safe = torch.where(whole == 0, 1.0, whole)
    return highest, whole, first / safe, second / safe


def _over_output(share: Tensor, out: Tensor, layout: str) -> Tensor:
    """A share, [batch, heads, rows, 8] or [rows, heads, 8], in the shape of the output."""
    lane = share[..., :1]
    if layout == "TND":
        return lane
    batch, heads, rows, _ = lane.shape
    return lane.permute(2, 0, 1, 3).expand(rows, batch, heads, out.shape[-1] // heads).reshape(rows, batch, -1)


def npu_ring_attention_update(
    prev_attn_out: Tensor,
    prev_softmax_max: Tensor,
    prev_softmax_sum: Tensor,
    cur_attn_out: Tensor,
    cur_softmax_max: Tensor,
    cur_softmax_sum: Tensor,
    *,
    actual_seq_qlen: Tensor | None = None,
    input_layout: str = "SBH",
    input_softmax_layout: str = "",
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of TND are merged one by one, so that actual_seq_qlen only has to end where they do."""
    layout = check_layout(input_layout, ("SBH", "TND"), _NAME)
    require(
        input_softmax_layout in ("", "same_as_input"),
        f"{_NAME}: input_softmax_layout must be '' or 'same_as_input', not {input_softmax_layout!r}",
        ErrCode.VALUE,
    )
    require(
        prev_attn_out.shape == cur_attn_out.shape,
        f"{_NAME}: outputs of different shapes: {tuple(prev_attn_out.shape)} and {tuple(cur_attn_out.shape)}",
    )
    stats = (prev_softmax_max, prev_softmax_sum, cur_softmax_max, cur_softmax_sum)
    require(
        len({statistic.shape for statistic in stats}) == 1 and prev_softmax_max.dim() == (3 if layout == "TND" else 4),
        f"{_NAME}: maxima and sums of shapes {[tuple(statistic.shape) for statistic in stats]} for input_layout {layout}",
    )
    require(
        actual_seq_qlen is None or layout == "TND",
        f"{_NAME}: actual_seq_qlen is for input_layout TND, not {layout}",
        ErrCode.VALUE,
    )
    highest, whole, first, second = _weights(*stats)
    merged = wide(prev_attn_out) * _over_output(first, prev_attn_out, layout)
    merged = merged + wide(cur_attn_out) * _over_output(second, cur_attn_out, layout)
    return merged.to(prev_attn_out.dtype), highest, whole
