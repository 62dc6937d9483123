"""Derivatives of aten operators under names of their own, as programs written for older releases call them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import gradient, gradients, require
from torch_npu.operators.layers.convolutions import convolution_gradients

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(code: int, name: str) -> str:
    require(0 <= code < len(_REDUCTIONS), f"{name}: reduction must be 0 (none), 1 (mean) or 2 (sum), not {code}")
    return _REDUCTIONS[code]


def _conv_depthwise2d_backward(
    grad_output: Tensor,
    self: Tensor,
    weight: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None]:
    _check_kernel(weight, kernel_size, "_conv_depthwise2d_backward")
    mask = [*output_mask, False]
    grads = convolution_gradients(grad_output, self, weight, stride, padding, dilation, self.shape[1], mask)
    return grads[0], grads[1]


def slow_conv_dilated2d_backward(
    grad_output: Tensor,
    self: Tensor,
    weight: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    _check_kernel(weight, kernel_size, "slow_conv_dilated2d_backward")
    return convolution_gradients(grad_output, self, weight, stride, padding, dilation, 1, output_mask)


def slow_conv_transpose2d_backward(
    grad_output: Tensor,
    self: Tensor,
    weight: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    output_padding: list[int],
    dilation: list[int],
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    _check_kernel(weight, kernel_size, "slow_conv_transpose2d_backward")
    return convolution_gradients(
        grad_output, self, weight, stride, padding, dilation, 1, output_mask, True, output_padding
    )


def _check_kernel(weight: Tensor, kernel_size: list[int], name: str) -> None:
    require(
        list(weight.shape[2:]) == list(kernel_size),
        f"{name}: kernel_size {list(kernel_size)} is not that of the weight {tuple(weight.shape)}",
    )


def fft_c2r_backward(grad: Tensor, dim: list[int], normalization: int) -> Tensor:
    """The real transform of the gradient; what stands for two conjugates of the spectrum counts twice."""
    spectrum: Tensor = torch.ops.aten._fft_r2c(grad, dim, normalization, True)
    last, size = dim[-1], grad.shape[dim[-1]]
    twice = spectrum.shape[last] - (1 if size % 2 else 2)
    spectrum.narrow(last, 1, max(twice, 0)).mul_(2)
    return spectrum


def fft_r2c_backward(grad: Tensor, dim: list[int], normalization: int, onesided: bool, last_dim_size: int) -> Tensor:
    whole = grad
    if onesided:
        shape = list(grad.shape)
        shape[dim[-1]] = last_dim_size
        whole = grad.new_zeros(shape)
        whole.narrow(dim[-1], 0, grad.shape[dim[-1]]).copy_(grad)
    restored: Tensor = torch.ops.aten._fft_c2c(whole, dim, normalization, False)
    return torch.real(restored).contiguous()


def _kl(reduction: int, log_target: bool) -> Callable[[Tensor, Tensor], Tensor]:
    name = _reduction(reduction, "kl_div_backward")

    def forward(x: Tensor, y: Tensor) -> Tensor:
        each = y.exp() * (y - x) if log_target else torch.xlogy(y, y) - y * x
        return each if name == "none" else each.mean() if name == "mean" else each.sum()

    return forward


def kl_div_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    function = _kl(reduction, log_target)
    return gradient(lambda x: function(x, target), grad_output, self)


def kl_div_target_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    function = _kl(reduction, log_target)
    return gradient(lambda y: function(self, y), grad_output, target)


def l1_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    name = _reduction(reduction, "l1_loss_backward")
    sign = torch.sign(self - target) * grad_output
    return sign / self.numel() if name == "mean" else sign


def matmul_double_backward(
    grad_self: Tensor | None,
    grad_other: Tensor | None,
    grad_out: Tensor,
    self: Tensor,
    other: Tensor,
    mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of grad_out, self and other; those that the mask leaves out are undefined (None)."""
    cotangents = [torch.zeros_like(x) if grad is None else grad for grad, x in ((grad_self, self), (grad_other, other))]

    def backward(out: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(torch.matmul(x, y), (x, y), out, create_graph=True)

    grads = gradients(backward, cotangents, grad_out, self, other)
    first, second, third = (grad if wanted else None for grad, wanted in zip(grads, mask, strict=True))
    return first, second, third


def npu_binary_cross_entropy_with_logits_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight_opt: Tensor | None,
    pos_weight_opt: Tensor | None,
    reduction: int,
) -> Tensor:
    name = _reduction(reduction, "npu_binary_cross_entropy_with_logits_backward")

    def forward(x: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(x, target, weight_opt, reduction=name, pos_weight=pos_weight_opt)

    return gradient(forward, grad_output, self)


def npu_gather_backward(grad: Tensor, self_size: list[int], dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    shaped = grad.new_zeros(self_size)
    if sparse_grad:
        sparse: Tensor = torch.ops.aten._gather_sparse_backward(shaped, dim, index.long(), grad)
        return sparse
    return shaped.scatter_add(dim, index.long(), grad)


def npu_renorm_backward(grad: Tensor, self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    return gradient(lambda x: torch.renorm(x, p, dim, maxnorm), grad, self)


def repeat_interleave_backward_int(grad: Tensor, self: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    return gradient(lambda x: torch.repeat_interleave(x, repeats, dim), grad, self)


def repeat_interleave_backward_tensor(grad: Tensor, self: Tensor, repeats: Tensor, dim: int | None = None) -> Tensor:
    return gradient(lambda x: torch.repeat_interleave(x, repeats, dim), grad, self)


def stft_backward(
    grad_output: Tensor,
    self: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Tensor:
    """Of the primitive, which does not pad; a gradient in two real numbers is one of the form without complex results."""
    complex_result = return_complex or self.is_complex() or (window is not None and window.is_complex())
    grad = (
        grad_output if complex_result or grad_output.is_complex() else torch.view_as_complex(grad_output.contiguous())
    )

    def forward(x: Tensor) -> Tensor:
        spectrum: Tensor = torch.ops.aten.stft(x, n_fft, hop_length, win_length, window, normalized, onesided, True)
        return spectrum

    return gradient(forward, grad, self)
