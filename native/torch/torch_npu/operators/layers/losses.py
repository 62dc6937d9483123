"""Softmax, dropout with bit masks, losses."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradient, pack_bits, require, unpack_bits, wide

_BITS = 128  # a mask is made of blocks of so many bits
_MASKED = -10000.0  # what the device puts in the place of a masked score


def _check_probability(p: float, name: str) -> None:
    require(0 <= p <= 1, f"{name}: dropout probability has to be between 0 and 1, but got {p}", ErrCode.VALUE)


def _keep(count: int, p: float, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    return torch.empty(count, dtype=torch.bool, device=device).bernoulli_(1 - p, generator=generator)


def _bit_mask(count: int, p: float, device: torch.device, generator: torch.Generator | None = None) -> Tensor:
    """A bit 1 for each element that is kept, in whole blocks."""
    return pack_bits(_keep(-(-count // _BITS) * _BITS, p, device, generator).to(torch.uint8))


def _bits_like(mask: Tensor, x: Tensor, name: str) -> Tensor:
    wanted = -(-x.numel() // _BITS) * (_BITS // 8)
    require(
        mask.dtype == torch.uint8 and mask.numel() >= wanted,
        f"{name}: the mask must be {wanted} bytes of uint8 for {x.numel()} elements, not {mask.numel()} of {mask.dtype}",
    )
    return unpack_bits(mask)[: x.numel()].reshape(x.shape)


def _drop(x: Tensor, kept: Tensor, p: float) -> Tensor:
    """What is kept, scaled; with p 1 nothing is."""
    return x * kept * (1 / (1 - p) if p < 1 else 0.0)


def _npu_dropout(self: Tensor, p: float) -> tuple[Tensor, Tensor]:
    _check_probability(p, "_npu_dropout")
    mask = _bit_mask(self.numel(), p, self.device)
    return _drop(self, _bits_like(mask, self, "_npu_dropout"), p), mask


def npu_dropout_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    _check_probability(p, "npu_dropout_backward")
    return _drop(grad_output, _bits_like(mask, grad_output, "npu_dropout_backward"), p)


def npu_dropout_do_mask(self: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    _check_probability(p, "npu_dropout_do_mask")
    return _drop(self, _bits_like(mask, self, "npu_dropout_do_mask"), p), mask.clone()


def npu_dropout_gen_mask(
    size: list[int],
    p: float,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """dtype is that of the tensor the mask will be for: the mask itself is uint8 always."""
    _check_probability(p, "npu_dropout_gen_mask")
    require(layout in (None, torch.strided), f"npu_dropout_gen_mask: layout {layout}; masks are strided")
    require(not pin_memory, "npu_dropout_gen_mask: pin_memory is for tensors of the host")
    return _bit_mask(torch.Size(size).numel(), p, torch.device("npu") if device is None else device)


def _npu_dropout_gen_mask__Tensor(
    self: Tensor,
    size: list[int],
    p: float,
    seed: int,
    offset: int,
    *,
    parallel: bool | None = True,
    sync: bool | None = None,
) -> Tensor:
    """Seed and offset alone decide; work is over when the call returns, whatever `parallel` and `sync` ask."""
    _check_probability(p, "_npu_dropout_gen_mask")
    generator = torch.Generator().manual_seed((seed * 0x9E3779B97F4A7C15 + offset) % 2**63)
    return _bit_mask(torch.Size(size).numel(), p, torch.device("cpu"), generator).to(self.device)


def _dropout_with_byte_mask(self: Tensor, p: float) -> tuple[Tensor, Tensor]:
    _check_probability(p, "_dropout_with_byte_mask")
    mask = _keep(self.numel(), p, self.device).to(torch.uint8).reshape(self.shape)
    return _drop(self, mask, p), mask


def dropout_with_byte_mask(self: Tensor, p: float, train: bool) -> Tensor:
    return _dropout_with_byte_mask(self, p)[0] if train else self.clone()


def _dropout_with_byte_mask_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    return _drop(grad_output, mask.reshape(grad_output.shape), p)


def npu_dropout_with_add_softmax(
    self: Tensor, x1: Tensor, alpha: float, prob: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    _check_probability(prob, "npu_dropout_with_add_softmax")
    softmax = torch.softmax(torch.add(x1, self, alpha=alpha), dim)
    dropped, mask = _npu_dropout(softmax, prob)
    return mask, softmax, dropped


def npu_dropout_with_add_softmax_backward(
    grad: Tensor, mask: Tensor, softmax_out: Tensor, alpha: float, prob: float, dim: int
) -> tuple[Tensor, Tensor]:
    """Gradients of self and x1, both of the shape of the softmax."""
    to_softmax = npu_dropout_backward(grad, mask, prob)
    to_x1 = torch.ops.aten._softmax_backward_data(to_softmax, softmax_out, dim, softmax_out.dtype)
    return to_x1 * alpha, to_x1


def npu_attn_softmax_(self: Tensor) -> Tensor:
    return self.copy_(torch.softmax(self, -1))


def npu_attn_softmax_backward_(self: Tensor, grad_output: Tensor, values: Tensor) -> Tensor:
    """self is the softmax of an attention, grad_output that of softmax @ values: the gradient of the scores takes self's place."""
    to_softmax = torch.matmul(grad_output, values.transpose(-2, -1))
    return self.copy_(torch.ops.aten._softmax_backward_data(to_softmax, self, -1, self.dtype))


def npu_sim_exponential_(self: Tensor, lambd: float = 1, *, generator: torch.Generator | None = None) -> Tensor:
    return self.exponential_(lambd, generator=generator)


def _upper(x: Tensor) -> Tensor:
    return torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)


def npu_scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1, fixed_triu_mask: bool = False) -> Tensor:
    """float16 whatever the input is, as on the device; with the fixed mask the given one is not looked at."""
    hidden = _upper(x) if fixed_triu_mask else mask.bool()
    return torch.softmax((wide(x) * scale).masked_fill(hidden, _MASKED), -1).to(torch.float16)


def npu_scaled_masked_softmax_backward(
    y_grad: Tensor, y: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool
) -> Tensor:
    hidden = _upper(y) if fixed_triu_mask else mask.bool()
    grad, out = wide(y_grad), wide(y)
    inner = out * (grad - (grad * out).sum(-1, keepdim=True)) * scale
    return inner.masked_fill(hidden, 0).to(y_grad.dtype)


def npu_masked_softmax_with_rel_pos_bias(
    x: Tensor,
    atten_mask: Tensor | None,
    relative_pos_bias: Tensor,
    scale_value: float = 1.0,
    inner_precision_mode: int = 0,
) -> Tensor:
    """x is [B, W, N, S, S] or [B * W, N, S, S], the mask [W, S, S] with a dimension 1 for the heads or without, the bias [N, S, S]
    with dimensions 1 before or without. Both precision modes are computed in float32."""
    require(inner_precision_mode in (0, 1), f"inner_precision_mode must be 0 or 1, not {inner_precision_mode}")
    require(x.dim() in (4, 5), f"npu_masked_softmax_with_rel_pos_bias: x must have 4 or 5 dimensions, not {x.dim()}")
    size = x.shape[-2:]
    scores = wide(x) * scale_value
    if atten_mask is not None:
        windows = atten_mask.reshape(-1, 1, *size)
        scores = scores.reshape(-1, windows.shape[0], x.shape[-3], *size) + windows
    return torch.softmax(scores.reshape(x.shape) + relative_pos_bias.reshape(-1, *size), -1).to(x.dtype)


def npu_softmax_cross_entropy_with_logits(self: Tensor, labels: Tensor) -> Tensor:
    require(
        self.shape == labels.shape,
        f"npu_softmax_cross_entropy_with_logits: logits {tuple(self.shape)} and labels {tuple(labels.shape)} differ",
    )
    return -(labels * torch.log_softmax(self, -1)).sum(-1)


def npu_softmax_cross_entropy_with_logits_backward(grad: Tensor, self: Tensor, labels: Tensor) -> Tensor:
    rows = grad.unsqueeze(-1) if grad.dim() < self.dim() else grad
    return rows * (torch.softmax(self, -1) * labels.sum(-1, keepdim=True) - labels)


def _entropy(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    lse_square_scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Loss, log_prob, z-loss and the logarithms of the sums; the last two are empty when there is no z-loss, else part of the loss."""
    log_prob = torch.log_softmax(scores, 1)
    options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": reduction}
    options["weight"] = None if weight is None else weight.to(scores.dtype)
    if label_smoothing:
        loss = F.cross_entropy(log_prob, target.long(), label_smoothing=label_smoothing, **options)
    else:
        loss = F.nll_loss(log_prob, target.long(), **options)
    if not lse_square_scale:
        return loss, log_prob, scores.new_empty(0), scores.new_empty(0)
    sums = torch.logsumexp(scores, 1)
    valid = target != ignore_index
    penalty = lse_square_scale * sums.square() * valid
    if reduction != "none":
        penalty = penalty.sum()
    if reduction == "mean":
        penalty = penalty / valid.sum()
    return loss + penalty, log_prob, penalty, sums


def npu_cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The z-loss, scale * logsumexp², is part of the loss when its scale is not 0, and an output by itself when asked for. What is
    not asked for is empty."""
    _check_entropy(input, target, weight, reduction, label_smoothing)
    require(
        not return_zloss or lse_square_scale_for_zloss != 0,
        "npu_cross_entropy_loss: return_zloss needs lse_square_scale_for_zloss, which is 0",
        ErrCode.VALUE,
    )
    options = (weight, reduction, ignore_index, label_smoothing, lse_square_scale_for_zloss)
    loss, log_prob, penalty, sums = _entropy(wide(input), target, *options)
    shown = penalty if return_zloss else penalty.new_empty(0)
    return loss.to(input.dtype), log_prob.to(input.dtype), shown.to(input.dtype), sums


def _check_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> None:
    name = "npu_cross_entropy_loss"
    require(
        input.dim() == 2 and target.shape == input.shape[:1],
        f"{name}: input must be [N, C] and target [N], not {tuple(input.shape)} and {tuple(target.shape)}",
    )
    require(not target.is_floating_point(), f"{name}: target must hold classes, not {target.dtype}", ErrCode.TYPE)
    require(
        weight is None or weight.shape == input.shape[1:],
        f"{name}: weight must have one entry for each of {input.shape[1]} classes",
    )
    known = ("mean", "sum", "none")
    require(reduction in known, f"{name}: reduction must be one of {', '.join(known)}, not {reduction!r}")
    require(
        0 <= label_smoothing < 1, f"{name}: label_smoothing must be in [0, 1), {label_smoothing} is not", ErrCode.VALUE
    )


def npu_cross_entropy_loss_backward(
    grad_loss: Tensor,
    log_prob: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    grad_zloss: Tensor | None = None,
    lse_for_zloss: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
) -> Tensor:
    """log_prob and the logarithms of the sums make the scores again."""
    _check_entropy(log_prob, target, weight, reduction, label_smoothing)
    scale = lse_square_scale_for_zloss
    scores = wide(log_prob)
    if scale:
        require(
            lse_for_zloss is not None and lse_for_zloss.numel() == len(scores),
            "npu_cross_entropy_loss_backward: a z-loss needs lse_for_zloss, the fourth output of the forward call",
        )
        assert lse_for_zloss is not None
        scores = scores + lse_for_zloss.reshape(-1, 1)

    grads = [wide(grad_loss)]
    if grad_zloss is not None and grad_zloss.numel():
        require(scale != 0, "npu_cross_entropy_loss_backward: grad_zloss is given, but lse_square_scale_for_zloss is 0")
        grads.append(wide(grad_zloss))

    def forward(x: Tensor) -> tuple[Tensor, ...]:
        loss, _, penalty, _ = _entropy(x, target, weight, reduction, ignore_index, label_smoothing, scale)
        return (loss, penalty)[: len(grads)]

    grad: Tensor = gradient(forward, grads, scores)
    return grad.to(log_prob.dtype)
