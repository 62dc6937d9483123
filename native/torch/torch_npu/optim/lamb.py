"""LAMB over buffers: the step of Adam, scaled for each parameter by its norm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from torch_npu.optim.adam import adam_moments
from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_betas, check_range
from torch_npu.optim.bucket import Run

MAX_WEIGHT_NORM = 10.0


def trust_ratio(weight_norm: Tensor, step_norm: Tensor) -> Tensor:
    """The norm of a parameter (at most 10) over that of its step; 1 where either is zero."""
    held = weight_norm.clamp(max=MAX_WEIGHT_NORM)
    return torch.where((held == 0) | (step_norm == 0), torch.ones_like(held), held / step_norm)


class NpuFusedLamb(NpuFusedOptimizerBase):
    """LAMB without bias correction. `adam=True` leaves the norms out; `use_global_grad_norm=True` first divides the gradients by
    their norm over all parameters where that exceeds 1."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        adam: bool = False,
        use_global_grad_norm: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("epsilon", eps)
        check_betas(betas)
        check_range("weight_decay", weight_decay)
        self.adam, self.use_global_grad_norm = adam, use_global_grad_norm
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def _before_updates(self) -> None:
        if self.use_global_grad_norm:
            flats = self.get_combined_grads()
            squares = [torch.linalg.vector_norm(flat, dtype=torch.float32).square() for flat in flats]
            divisor = torch.stack(squares).sum().sqrt().clamp(min=1.0)
            for flat in flats:
                flat.div_(divisor)

    def _update(self, group: Options, run: Run) -> None:
        first, second = adam_moments(run, run.grad, *group["betas"])
        step = first / second.sqrt().add_(group["eps"])
        if group["weight_decay"]:
            step.add_(run.param, alpha=group["weight_decay"])
        if not self.adam:
            step.mul_(run.spread(trust_ratio(run.norms(run.param), run.norms(step))))
        run.param.add_(step, alpha=-float(group["lr"]))
