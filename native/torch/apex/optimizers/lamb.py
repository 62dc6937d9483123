"""LAMB parameter by parameter: for parameters that cannot be in one buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch_npu.optim.base import check_betas, check_range
from torch_npu.optim.lamb import trust_ratio


class Lamb(torch.optim.Optimizer):
    """What `NpuFusedLamb` computes."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("epsilon", eps)
        check_betas(betas)
        self.adam = adam
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._update(group, param, param.grad)
        return loss

    def _update(self, group: dict[str, Any], param: torch.Tensor, grad: torch.Tensor) -> None:
        state = self.state[param]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        first = state["exp_avg"].lerp_(grad, 1 - beta1)
        second = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        step = first / second.sqrt().add_(group["eps"])
        if group["weight_decay"]:
            step.add_(param, alpha=group["weight_decay"])
        if not self.adam:
            step.mul_(trust_ratio(param.norm(), step.norm()))
        param.add_(step, alpha=-float(group["lr"]))
