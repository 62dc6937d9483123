"""SGD with momentum over buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_range
from torch_npu.optim.bucket import Run


class NpuFusedSGD(NpuFusedOptimizerBase):
    """`torch.optim.SGD`."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
    ) -> None:
        check_range("learning rate", lr)
        check_range("momentum", momentum)
        check_range("weight_decay", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**options, "nesterov": nesterov})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        return {"momentum_buffer": 0.0} if group["momentum"] else {}

    def _update(self, group: Options, run: Run) -> None:
        grad, momentum = run.grad, group["momentum"]
        if group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        if momentum:
            buffer = run.state["momentum_buffer"]
            if run.step == 1:
                buffer.copy_(grad)
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        run.param.add_(grad, alpha=-float(group["lr"]))
