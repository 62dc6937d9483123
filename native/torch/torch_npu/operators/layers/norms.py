"""Normalisation: layer, rms, group and deep norm, their fused forms, and the primitives of SyncBatchNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import HALF, gradients, require, wide
from torch_npu.operators.common.fused import Kind, apply


def _last_dims(x: Tensor, gamma: Tensor, name: str) -> tuple[int, ...]:
    """The dimensions that gamma covers: the last ones of x."""
    require(
        0 < gamma.dim() <= x.dim() and x.shape[x.dim() - gamma.dim() :] == gamma.shape,
        f"{name}: gamma {tuple(gamma.shape)} must be the last dimensions of the input {tuple(x.shape)}",
    )
    return tuple(range(x.dim() - gamma.dim(), x.dim()))


def _rms_composed(inputs: tuple[Tensor, ...], options: tuple[float]) -> tuple[Tensor, Tensor]:
    x, gamma = inputs
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    whole = wide(x)
    rstd = torch.rsqrt(whole.square().mean(dims, keepdim=True) + options[0])
    return (whole * rstd * wide(gamma)).to(x.dtype), rstd


def _rms_direct(
    inputs: tuple[Tensor, ...], options: tuple[float], _keep: bool
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor]]:
    x, gamma = inputs
    width = gamma.numel()
    rows = x.reshape(-1, width)
    whole = wide(rows)
    rstd = torch.linalg.vector_norm(whole, 2, -1, True).square_().div_(width).add_(options[0]).rsqrt_()
    y = torch.mul(whole, rstd, out=whole) if rows.dtype in HALF else whole * rstd
    y.mul_(wide(gamma).reshape(-1))
    rstd = rstd.reshape(*x.shape[: x.dim() - gamma.dim()], *([1] * gamma.dim()))
    return (y.reshape(x.shape).to(x.dtype), rstd), (rstd,)


def _rms_gradients(
    inputs: tuple[Tensor, ...],
    kept: tuple[Tensor, ...],
    grad: Tensor,
    wanted: tuple[bool, ...],
    _options: tuple[float, ...],
) -> tuple[Tensor | None, Tensor | None]:
    x, gamma = inputs
    width = gamma.numel()
    scale, rstd, dy = wide(gamma).reshape(-1), kept[0].reshape(-1, 1), wide(grad.reshape(-1, width))
    normal = wide(x.reshape(-1, width)) * rstd
    work = dy * normal
    dx, dgamma = None, None
    if wanted[1]:
        dgamma = work.sum(0).reshape(gamma.shape).to(gamma.dtype)
    if wanted[0]:
        mean = (work @ scale).div_(width).unsqueeze(-1)
        torch.mul(dy, scale, out=work).mul_(rstd).addcmul_(normal, mean.mul_(rstd), value=-1)
        dx = work.reshape(x.shape).to(x.dtype)
    return dx, dgamma


_RMS = Kind(_rms_composed, _rms_direct, _rms_gradients)


def _rms(x: Tensor, gamma: Tensor, epsilon: float, name: str) -> tuple[Tensor, Tensor]:
    _last_dims(x, gamma, name)
    y, rstd = apply(_RMS, (x, gamma), epsilon)
    return y, rstd


def npu_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """rstd is a statistic: it has no derivative."""
    return _rms(self, gamma, epsilon, "npu_rms_norm")


def npu_rms_norm_backward(dy: Tensor, self: Tensor, gamma: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """dgamma is float32 for half inputs, as the sum over all rows is."""
    dims = _last_dims(self, gamma, "npu_rms_norm_backward")
    grad, scale = wide(dy), wide(gamma)
    normal = wide(self) * rstd
    scaled = grad * scale
    dx = rstd * (scaled - normal * (scaled * normal).mean(dims, keepdim=True))
    dgamma = (grad * normal).sum(tuple(range(self.dim() - gamma.dim())))
    return dx.to(self.dtype), dgamma


def npu_gemma_rms_norm(self: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    return _rms(self, 1 + wide(gamma), epsilon, "npu_gemma_rms_norm")


def npu_add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    x = x1 + x2
    y, rstd = _rms(x, gamma, epsilon, "npu_add_rms_norm")
    return y, rstd, x


def npu_add_rms_norm_cast(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The second output is y in float32, as it was before rounding."""
    x = x1 + x2
    dims = _last_dims(x, gamma, "npu_add_rms_norm_cast")
    whole = wide(x)
    rstd = torch.rsqrt(whole.square().mean(dims, keepdim=True) + epsilon)
    y = whole * rstd * wide(gamma)
    return y.float(), y.to(x.dtype), rstd, x


def npu_add_rms_norm_v2(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tensor:
    y, rstd, x = npu_add_rms_norm(x1, x2, gamma, epsilon)
    x1.copy_(y)
    x2.copy_(x)
    return rstd


def npu_add_rms_norm_v2_functional(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    y, rstd, x = npu_add_rms_norm(x1, x2, gamma, epsilon)
    return rstd, y, x


def _layer(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, name: str) -> tuple[Tensor, Tensor, Tensor]:
    """y, mean and rstd; the statistics in float32."""
    dims = _last_dims(x, gamma, name)
    whole = wide(x)
    mean = whole.mean(dims, keepdim=True)
    centred = whole - mean
    rstd = torch.rsqrt(centred.square().mean(dims, keepdim=True) + epsilon)
    return (centred * rstd * wide(gamma) + wide(beta)).to(x.dtype), mean, rstd


def npu_add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5, additional_output: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum is the fourth output when it is asked for, an empty tensor otherwise."""
    x = x1 + x2
    y, mean, rstd = _layer(x, gamma, beta, epsilon, "npu_add_layer_norm")
    return y, mean, rstd, x if additional_output else x.new_empty(0)


def npu_add_layer_norm_backward(
    dy_opt: Tensor | None, x1: Tensor, x2: Tensor, rstd: Tensor, mean: Tensor, gamma: Tensor, dsum_opt: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x1, x2, gamma and beta."""
    x = x1 + x2
    if dy_opt is None:
        dx, dgamma, dbeta = torch.zeros_like(x), torch.zeros_like(gamma), torch.zeros_like(gamma)
    else:
        dx, dgamma, dbeta = _layer_gradient(dy_opt, x, gamma, mean, rstd)
    if dsum_opt is not None:
        dx = dx + dsum_opt
    return dx, dx.clone(), dgamma, dbeta


def _layer_gradient(dy: Tensor, x: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of a layer norm from its own statistics."""
    dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    leading = tuple(range(x.dim() - gamma.dim()))
    grad = wide(dy)
    normal = (wide(x) - mean) * rstd
    scaled = grad * wide(gamma)
    inner = scaled - scaled.mean(dims, keepdim=True) - normal * (scaled * normal).mean(dims, keepdim=True)
    return (rstd * inner).to(x.dtype), (grad * normal).sum(leading).to(gamma.dtype), grad.sum(leading).to(gamma.dtype)


def npu_layer_norm_eval(
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def npu_layernorm_grad(
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: list[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Empty gradients stand for a weight or bias that is not there."""
    gamma = torch.ones(normalized_shape, dtype=input.dtype, device=input.device) if weight is None else weight
    shape = [*input.shape[: input.dim() - len(normalized_shape)], *([1] * len(normalized_shape))]
    dx, dgamma, dbeta = _layer_gradient(grad_out, input, gamma, mean.reshape(shape), rstd.reshape(shape))
    nothing = input.new_empty(0)
    return dx, nothing if weight is None else dgamma, nothing if bias is None else dbeta


def npu_deep_norm(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float = 0.3, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, rstd = _layer(alpha * x + gx, gamma, beta, epsilon, "npu_deep_norm")
    return mean, rstd, y


def npu_deep_norm_backward(
    dy: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor, alpha: float = 0.3
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, gx, beta and gamma, in the order of the forward arguments."""
    inner, dgamma, dbeta = _layer_gradient(dy, alpha * x + gx, gamma, mean, rstd)
    return alpha * inner, inner, dbeta, dgamma


def _group(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float, name: str
) -> tuple[Tensor, Tensor, Tensor]:
    require(
        x.dim() >= 2 and groups > 0 and x.shape[1] % groups == 0,
        f"{name}: the second dimension of {tuple(x.shape)} must be a multiple of {groups} groups",
    )
    grouped = wide(x).reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1)
    rstd = torch.rsqrt(grouped.var(-1, unbiased=False) + eps)
    return F.group_norm(x, groups, weight, bias, eps), mean.to(x.dtype), rstd.to(x.dtype)


def npu_group_norm_silu(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, rstd = _group(input, weight, bias, group, eps, "npu_group_norm_silu")
    return F.silu(y), mean, rstd


def npu_group_norm_swish(
    input: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    eps: float | None = 1e-5,
    swish_scale: float | None = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, rstd = _group(input, weight, bias, num_groups, 1e-5 if eps is None else eps, "npu_group_norm_swish")
    scale = 1.0 if swish_scale is None else swish_scale
    return y * torch.sigmoid(scale * y), mean, rstd


def npu_group_norm_swish_grad(
    grad: Tensor,
    input: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    rstd: Tensor,
    grad_input_mask: list[bool],
    swish_scale: float | None = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """From the statistics of the forward call; gradients that the mask leaves out are empty."""
    scale = 1.0 if swish_scale is None else swish_scale
    count = input.shape[0]

    def forward(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        grouped = wide(x).reshape(count, num_groups, -1)
        centre = grouped.mean(-1, keepdim=True)
        # the forward call's rstd as a number that varies with x: its epsilon is inside
        spread = grouped.var(-1, unbiased=False, keepdim=True)
        epsilon = (wide(rstd).reshape(count, num_groups, 1).pow(-2) - spread).detach()
        normal = ((grouped - centre) * torch.rsqrt(spread + epsilon)).reshape(x.shape)
        shape = (1, -1, *([1] * (x.dim() - 2)))
        y = normal * wide(gamma).reshape(shape) + wide(beta).reshape(shape)
        return y * torch.sigmoid(scale * y)

    require(
        mean.numel() == rstd.numel(), "npu_group_norm_swish_grad: mean and rstd must have the same number of elements"
    )
    grads = gradients(forward, wide(grad), input, weight, bias)
    dx, dgamma, dbeta = (
        dinput if wanted else input.new_empty(0) for dinput, wanted in zip(grads, grad_input_mask, strict=True)
    )
    return dx, dgamma, dbeta


def batch_norm_reduce(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Sums and sums of squares per channel, in float32; eps belongs to the step that follows, `batch_norm_gather_stats_update`."""
    require(eps >= 0, f"batch_norm_reduce: eps must not be negative, {eps} is")
    whole = input.float()
    dims = [dim for dim in range(input.dim()) if dim != 1]
    return whole.sum(dims), whole.square().sum(dims)


def batch_norm_gather_stats_update(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """`mean` and `invstd` hold the sums and the sums of squares of each rank ([ranks, channels]); the results are of all of them."""
    require(
        mean.shape == invstd.shape,
        f"batch_norm_gather_stats_update: {tuple(mean.shape)} and {tuple(invstd.shape)} differ",
    )
    total = counts.sum().to(torch.float32)
    centre = mean.reshape(-1, input.shape[1]).sum(0) / total
    variance = invstd.reshape(-1, input.shape[1]).sum(0) / total - centre.square()
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(centre.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = variance * (total / (total - 1).clamp(min=1))
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return centre, torch.rsqrt(variance + eps)
