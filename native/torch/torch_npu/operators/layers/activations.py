"""Activations: gelu in its forms, silu, mish, gated linear units."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, check_halves, gradient, halves, require
from torch_npu.operators.common.fused import Kind, apply

_FAST = 1.702  # the slope that makes a sigmoid look like the normal distribution


def _check_approximate(approximate: str, name: str) -> None:
    require(
        approximate in ("none", "tanh"),
        f"{name}: approximate must be 'none' or 'tanh', not {approximate!r}",
        ErrCode.PARAM,
    )


def fast_gelu(self: Tensor) -> Tensor:
    return self * torch.sigmoid(_FAST * self)


npu_fast_gelu = fast_gelu


def npu_fast_gelu_backward(grad: Tensor, self: Tensor) -> Tensor:
    gate = torch.sigmoid(_FAST * self)
    return grad * (gate + _FAST * self * gate * (1 - gate))


def npu_gelu(self: Tensor, *, approximate: str = "none") -> Tensor:
    _check_approximate(approximate, "npu_gelu")
    return F.gelu(self, approximate=approximate)


def npu_gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    _check_approximate(approximate, "npu_gelu_backward")
    grad: Tensor = torch.ops.aten.gelu_backward(grad_output, self, approximate=approximate)
    return grad


def npu_gelu_mul(input: Tensor, *, approximate: str = "none") -> Tensor:
    _check_approximate(approximate, "npu_gelu_mul")
    left, right = halves(input, -1, "npu_gelu_mul")
    return F.gelu(left, approximate=approximate) * right


def _geglu(self: Tensor, dim: int, approximate: int, activate_left: bool) -> tuple[Tensor, Tensor]:
    require(approximate in (0, 1), f"npu_geglu: approximate must be 0 (none) or 1 (tanh), not {approximate}")
    left, right = halves(self, dim, "npu_geglu")
    if activate_left:
        left, right = right, left
    gelu = F.gelu(right, approximate="tanh" if approximate else "none")
    return left * gelu, gelu


def npu_geglu(self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> tuple[Tensor, Tensor]:
    return _geglu(self, dim, approximate, activate_left)


def npu_geglu_grad(
    grad_output: Tensor, self: Tensor, gelu: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> Tensor:
    left, right = halves(self, dim, "npu_geglu_grad")
    if activate_left:
        left, right = right, left
    name = "tanh" if approximate else "none"
    to_right = torch.ops.aten.gelu_backward(grad_output * left, right, approximate=name)
    parts = (to_right, grad_output * gelu) if activate_left else (grad_output * gelu, to_right)
    return torch.cat(parts, dim)


def npu_mish(self: Tensor) -> Tensor:
    return F.mish(self)


def npu_mish_backward(grad: Tensor, input: Tensor) -> Tensor:
    return gradient(F.mish, grad, input)


def npu_silu(self: Tensor) -> Tensor:
    return F.silu(self)


def npu_silu_(self: Tensor) -> Tensor:
    return F.silu(self, inplace=True)


def npu_silu_backward(grad_output: Tensor, x0: Tensor, x1: Tensor) -> Tensor:
    """x0 is the input, x1 the output of the forward call, which the formula does not need."""
    require(x0.shape == x1.shape, f"npu_silu_backward: input {tuple(x0.shape)} and output {tuple(x1.shape)} differ")
    grad: Tensor = torch.ops.aten.silu_backward(grad_output, x0)
    return grad


def _swiglu_composed(inputs: tuple[Tensor, ...], options: tuple[int]) -> tuple[Tensor]:
    left, right = inputs[0].chunk(2, options[0])
    return (F.silu(left) * right,)


def _swiglu_direct(
    inputs: tuple[Tensor, ...], options: tuple[int], keep: bool
) -> tuple[tuple[Tensor], tuple[Tensor, ...]]:
    left, right = inputs[0].chunk(2, options[0])
    gate = F.silu(left)
    return ((gate * right,), (gate,)) if keep else ((gate.mul_(right),), ())


def _swiglu_gradients(
    inputs: tuple[Tensor, ...], kept: tuple[Tensor, ...], grad: Tensor, _wanted: tuple[bool, ...], options: tuple[int]
) -> tuple[Tensor]:
    """Each half of the gradient is computed where it belongs, not joined afterwards."""
    left, right = inputs[0].chunk(2, options[0])
    dx = torch.empty_like(inputs[0])
    to_left, to_right = dx.chunk(2, options[0])
    torch.mul(grad, kept[0], out=to_right)
    torch.mul(grad, right, out=to_left)
    torch.ops.aten.silu_backward.grad_input(to_left, left, grad_input=to_left)
    return (dx,)


_SWIGLU = Kind(_swiglu_composed, _swiglu_direct, _swiglu_gradients)


def npu_swiglu(self: Tensor, dim: int = -1) -> Tensor:
    check_halves(self, dim, "npu_swiglu")
    return apply(_SWIGLU, (self,), dim)[0]


def npu_swiglu_backward(grad_output: Tensor, self: Tensor, dim: int = -1) -> Tensor:
    left, right = halves(self, dim, "npu_swiglu_backward")
    to_left = torch.ops.aten.silu_backward(grad_output * right, left)
    return torch.cat((to_left, grad_output * F.silu(left)), dim)


def npu_clipped_swiglu(
    x: Tensor,
    *,
    group_index: Tensor | None = None,
    dim: int = -1,
    alpha: float = 1.702,
    limit: float = 7.0,
    bias: float = 1.0,
    interleaved: bool = True,
) -> Tensor:
    """Rows past the last group are zero: the kernel does not visit them."""
    if interleaved:
        require(
            x.shape[dim] % 2 == 0, f"npu_clipped_swiglu: dimension {dim} has {x.shape[dim]} elements; it must be even"
        )
        paired = x.movedim(dim, -1)
        left, right = paired[..., ::2].movedim(-1, dim), paired[..., 1::2].movedim(-1, dim)
    else:
        left, right = halves(x, dim, "npu_clipped_swiglu")
    left, right = left.clamp(max=limit), right.clamp(-limit, limit)
    result = left * torch.sigmoid(alpha * left) * (right + bias)
    if group_index is None:
        return result
    rows = torch.arange(result.shape[0], device=x.device) < group_index.sum()
    return result * rows.reshape(-1, *([1] * (result.dim() - 1))).to(result.dtype)
