"""Adam and AdamW over buffers: the operations of torch.optim in their order, so that the numbers are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_betas, check_range
from torch_npu.optim.bucket import Run


def adam_moments(run: Run, grad: Tensor, beta1: float, beta2: float) -> tuple[Tensor, Tensor]:
    """The running means of the gradient and its square, brought up to date."""
    first, second = run.state["exp_avg"], run.state["exp_avg_sq"]
    first.lerp_(grad, 1 - beta1)
    second.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    return first, second


class NpuFusedAdam(NpuFusedOptimizerBase):
    """`torch.optim.Adam`."""

    _decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        super().__init__(params, options)

    def _state_names(self, group: Options) -> Mapping[str, float]:
        names = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**names, "max_exp_avg_sq": 0.0} if group["amsgrad"] else names

    def _update(self, group: Options, run: Run) -> None:
        beta1, beta2 = group["betas"]
        grad, rate, decay = run.grad, float(group["lr"]), group["weight_decay"]
        if decay and self._decoupled:
            run.param.mul_(1 - rate * decay)
        elif decay:
            grad = grad.add(run.param, alpha=decay)
        first, second = adam_moments(run, grad, beta1, beta2)
        if group["amsgrad"]:
            second = torch.maximum(run.state["max_exp_avg_sq"], second, out=run.state["max_exp_avg_sq"])
        step = run.step
        divisor = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        run.param.addcdiv_(first, divisor, value=-(rate / (1 - beta1**step)))


class NpuFusedAdamW(NpuFusedAdam):
    """`torch.optim.AdamW`: the decay acts on the parameters, not through the gradients."""

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad)
