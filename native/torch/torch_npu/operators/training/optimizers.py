"""Steps of optimizers that update var, m and v in place, and the overflow flags."""

from __future__ import annotations

import math
from typing import NoReturn

import torch
from torch import Tensor

from torch_npu._errors import ops_error
from torch_npu.operators.common.arguments import ErrCode, require, unsupported

Triple = tuple[Tensor, Tensor, Tensor]

_STATUS = 8  # elements of a status buffer


def _amp_foreach_non_finite_check(scaled_grads: list[Tensor]) -> bool:
    return any(not bool(torch.isfinite(grad).all()) for grad in scaled_grads)


def npu_alloc_float_status(self: Tensor) -> Tensor:
    return torch.zeros(_STATUS, dtype=torch.float32, device=self.device)


def _check_status(self: Tensor, mode: int, name: str) -> None:
    require(
        self.numel() == _STATUS,
        f"{name}: the status has {self.numel()} elements; it must be the one of npu_alloc_float_status, with {_STATUS}",
    )
    require(mode in (0, 1), f"{name}: mode must be 0 or 1, not {mode}", ErrCode.VALUE)


def npu_get_float_status(self: Tensor, mode: int = 0) -> Tensor:
    """Overflows are inf and nan in the results, as IEEE says; the chip's flag beside them is never raised."""
    _check_status(self, mode, "npu_get_float_status")
    return torch.zeros_like(self)


def npu_clear_float_status(self: Tensor, mode: int = 0) -> Tensor:
    _check_status(self, mode, "npu_clear_float_status")
    return torch.zeros_like(self)


def _check_triple(name: str, grad: Tensor, var: Tensor, m: Tensor, v: Tensor) -> None:
    shapes = {tuple(x.shape) for x in (grad, var, m, v)}
    require(len(shapes) == 1, f"{name}: grad, var, m and v must have one shape, not {sorted(shapes)}")


def _moments(grad: Tensor, m: Tensor, v: Tensor, beta1: float, beta2: float) -> None:
    m.lerp_(grad.to(m.dtype), 1 - beta1)
    v.mul_(beta2).addcmul_(grad.to(v.dtype), grad.to(v.dtype), value=1 - beta2)


def _only_out(name: str) -> NoReturn:
    raise RuntimeError(
        f"{name}: the form without out= has nothing to update; call it with out=(var, m, v)"
        + ops_error(ErrCode.NOT_SUPPORT)
    )


def npu_apply_adam(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    use_locking: bool | None,
    use_nesterov: bool | None,
) -> Triple:
    _only_out("npu_apply_adam")


@torch.no_grad()
def npu_apply_adam__out(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    use_locking: bool | None,
    use_nesterov: bool | None,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Triple:
    """TensorFlow's ApplyAdam: the powers are those of this step, epsilon is added to the uncorrected root. A call is over when it
    returns, so `use_locking` asks for what is always so."""
    _check_triple("npu_apply_adam", grad, var, m, v)
    _moments(grad, m, v, beta1, beta2)
    rate = lr * math.sqrt(1 - beta2_power) / (1 - beta1_power)
    ahead = torch.lerp(m, grad.to(m.dtype), 1 - beta1) if use_nesterov else m
    var.sub_((rate * ahead / (v.sqrt() + epsilon)).to(var.dtype))
    return var, m, v


def npu_apply_adam_w(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
) -> Triple:
    _only_out("npu_apply_adam_w")


@torch.no_grad()
def npu_apply_adam_w__out(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Triple:
    """The powers are those of the step before (1 at the first): the operator multiplies them by the betas itself. `max_grad_norm`
    is the running maximum of v that amsgrad wants."""
    _check_triple("npu_apply_adam_w", grad, var, m, v)
    require(
        not amsgrad or max_grad_norm is not None,
        "npu_apply_adam_w: amsgrad needs max_grad_norm, the running maximum of v",
    )
    _moments(-grad if maximize else grad, m, v, beta1, beta2)
    second = v
    if amsgrad and max_grad_norm is not None:
        second = torch.maximum(max_grad_norm, v, out=max_grad_norm)
    root = (second / (1 - beta2_power * beta2)).sqrt_().add_(epsilon)
    var.mul_(1 - lr * weight_decay).sub_((m / root).mul_(lr / (1 - beta1_power * beta1)).to(var.dtype))
    return var, m, v


def npu_bert_apply_adam(
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: float,
    global_grad_norm: float,
    weight_decay: float,
    step_size: float | None = None,
    adam_mode: int = 0,
) -> Triple:
    _only_out("npu_bert_apply_adam")


@torch.no_grad()
def npu_bert_apply_adam__out(
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: float,
    global_grad_norm: float,
    weight_decay: float,
    step_size: float | None = None,
    adam_mode: int = 0,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Triple:
    """BERT's Adam: no bias correction, decay added to the step. A positive max_grad_norm clips by the norm over all gradients;
    `step_size` is the warm-up factor of the rate."""
    if adam_mode != 0:
        raise unsupported(f"npu_bert_apply_adam: adam_mode {adam_mode}; only 0 is computed")
    _check_triple("npu_bert_apply_adam", grad, var, m, v)
    if 0 < max_grad_norm < global_grad_norm:
        grad = grad * (max_grad_norm / global_grad_norm)
    _moments(grad, m, v, beta1, beta2)
    step = m / (v.sqrt() + epsilon)
    if weight_decay:
        step.add_(var.to(step.dtype), alpha=weight_decay)
    var.sub_((step.mul_(lr * (1 if step_size is None else step_size))).to(var.dtype))
    return var, m, v
