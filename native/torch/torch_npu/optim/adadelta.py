"""Adadelta over buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_range
from torch_npu.optim.bucket import Run


class NpuFusedAdadelta(NpuFusedOptimizerBase):
    """`torch.optim.Adadelta`."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0
    ) -> None:
        check_range("learning rate", lr)
        check_range("rho", rho, high=1.0 + 1e-12)
        check_range("epsilon", eps)
        check_range("weight_decay", weight_decay)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def _update(self, group: Options, run: Run) -> None:
        grad, rho, eps = run.grad, group["rho"], group["eps"]
        square, moved = run.state["square_avg"], run.state["acc_delta"]
        if group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        change = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        moved.mul_(rho).addcmul_(change, change, value=1 - rho)
        run.param.add_(change, alpha=-float(group["lr"]))
