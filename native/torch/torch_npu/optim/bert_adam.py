"""BERT's Adam over buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_range
from torch_npu.optim.bucket import Run


def _cosine(progress: float, _warmup: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


def _constant(_progress: float, _warmup: float) -> float:
    return 1.0


def _linear(progress: float, warmup: float) -> float:
    return max((progress - 1.0) / (warmup - 1.0), 0.0)


SCHEDULES: dict[str, Callable[[float, float], float]] = {
    "warmup_cosine": _cosine,
    "warmup_constant": _constant,
    "warmup_linear": _linear,
}


class NpuFusedBertAdam(NpuFusedOptimizerBase):
    """Adam without bias correction, with decay added to the step. The gradient of each parameter is clipped to `max_grad_norm` (no
    clipping unless positive). With `t_total` the rate rises over the share `warmup` of the steps and then follows the schedule."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        warmup: float = -1,
        t_total: int = -1,
        schedule: str = "warmup_linear",
        b1: float = 0.9,
        b2: float = 0.999,
        e: float = 1e-6,
        weight_decay: float = 0.01,
        max_grad_norm: float = 1.0,
    ) -> None:
        check_range("learning rate", lr)
        if schedule not in SCHEDULES:
            raise ValueError(f"Invalid schedule parameter: {schedule!r}; it must be one of {sorted(SCHEDULES)}")
        if warmup != -1:
            check_range("warmup", warmup, high=1.0)
        check_range("b1 parameter", b1, high=1.0)
        check_range("b2 parameter", b2, high=1.0)
        check_range("e", e)
        options = {"lr": lr, "schedule": schedule, "warmup": warmup, "t_total": t_total, "b1": b1, "b2": b2, "e": e}
        super().__init__(params, {**options, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        return {"next_m": 0.0, "next_v": 0.0}

    def get_lr(self) -> list[float]:
        """The rate of the last step of each parameter that has made one; [0] before."""
        rates = []
        for group in self.param_groups:
            for param in group["params"]:
                if not self.state.get(param):
                    return [0]
                rates.append(self._rate(group, int(self.state[param]["step"])))
        return rates

    def _rate(self, group: Options, done: int) -> float:
        """The rate after `done` steps."""
        rate, total = float(group["lr"]), group["t_total"]
        if total == -1:
            return rate
        progress, warmup = done / total, max(group["warmup"], 0.0)
        return rate * (progress / warmup if progress < warmup else SCHEDULES[group["schedule"]](progress, warmup))

    def _update(self, group: Options, run: Run) -> None:
        grad, first, second = run.grad, run.state["next_m"], run.state["next_v"]
        if group["max_grad_norm"] > 0:
            factor = (group["max_grad_norm"] / (run.norms(grad) + 1e-6)).clamp(max=1.0)
            grad.mul_(run.spread(factor))
        first.mul_(group["b1"]).add_(grad, alpha=1 - group["b1"])
        second.mul_(group["b2"]).addcmul_(grad, grad, value=1 - group["b2"])
        step = first / second.sqrt().add_(group["e"])
        if group["weight_decay"] > 0:
            step.add_(run.param, alpha=group["weight_decay"])
        run.param.add_(step, alpha=-self._rate(group, run.step - 1))
