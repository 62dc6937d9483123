"""The formula of attention, for whoever looks on: fake tensors, tracers, functional transforms, second derivatives."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.attention._dropout import expand_bits
from torch_npu.operators.attention.masks import Span
from torch_npu.operators.attention.problem import Spec, slopes
from torch_npu.operators.common.arguments import wide

_LOWEST = torch.finfo(torch.float32).min


def compose(inputs: tuple[Tensor, ...], options: tuple[Spec]) -> tuple[Tensor, Tensor, Tensor]:
    """Output, maximum and sum."""
    spec, rest = options[0], list(inputs[3:])
    q, k, v = (wide(x) for x in inputs[:3])
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-2, -1)  # mT has no form in ONNX
    pse = rest.pop(0).to(scores.dtype) if spec.pse else None
    scores = (scores + pse) * spec.scale if pse is not None and spec.pse_scaled else scores * spec.scale
    if pse is not None and not spec.pse_scaled:
        scores = scores + pse
    if spec.slope is not None:
        rows, columns = scores.shape[-2:]
        every = [
            slopes(spec, k.shape[1], 1, Span(b * k.shape[1], (b + 1) * k.shape[1], 0, rows, 0, columns))
            for b in range(len(q))
        ]
        scores = scores + torch.stack(every).squeeze(2)
    masked = spec.band.full(scores.shape[-2], scores.shape[-1], scores.device)
    if spec.mask is not None:
        masked = spec.mask if masked is None else masked | spec.mask
    if masked is not None:
        scores = scores.masked_fill(masked, -torch.inf)
    sink = rest.pop(0).to(scores.dtype).reshape(1, -1, 1, 1) if spec.sink else None
    return _finish(spec, scores, v, sink, inputs[0].dtype)


def _finish(
    spec: Spec, scores: Tensor, v: Tensor, sink: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    top = scores.detach().amax(-1, keepdim=True).clamp(min=_LOWEST)
    if sink is not None:
        top = torch.maximum(top, sink.detach())
    powers = torch.exp(scores - top)
    total = powers.sum(-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - top)
    probabilities = powers / torch.where(total == 0, 1.0, total)
    if spec.bits is not None:
        keep = expand_bits(spec.bits)[: scores.numel()].view(scores.shape)
        probabilities = probabilities * keep.to(scores.dtype) / spec.keep
    return (probabilities @ v).to(dtype), top.squeeze(-1), total.detach().squeeze(-1)
