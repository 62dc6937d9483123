"""RMSprop over buffers, in torch's form and in TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from torch_npu.optim.base import NpuFusedOptimizerBase, Options, check_range
from torch_npu.optim.bucket import Run


class NpuFusedRMSprop(NpuFusedOptimizerBase):
    """`torch.optim.RMSprop`."""

    _square_start = 0.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        **more: Any,
    ) -> None:
        if more and type(self) is NpuFusedRMSprop:
            raise TypeError(f"NpuFusedRMSprop got unexpected options {sorted(more)}")
        for name, value in (("learning rate", lr), ("alpha", alpha), ("epsilon", eps), ("momentum", momentum)):
            check_range(name, value)
        check_range("weight_decay", weight_decay)
        options = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**options, "centered": centered, **more})

    def _state_names(self, group: Options) -> Mapping[str, float]:
        names = {"square_avg": self._square_start}
        if group["momentum"]:
            names["momentum_buffer"] = 0.0
        if group["centered"]:
            names["grad_avg"] = 0.0
        return names

    def _update(self, group: Options, run: Run) -> None:
        grad, alpha, rate = run.grad, group["alpha"], float(group["lr"])
        square = run.state["square_avg"]
        if group["weight_decay"]:
            grad = grad.add(run.param, alpha=group["weight_decay"])
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = run.state["grad_avg"].lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_().add_(group["eps"])
        else:
            root = square.sqrt().add_(group["eps"])
        if group["momentum"]:
            buffer = run.state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, root)
            run.param.add_(buffer, alpha=-rate)
        else:
            run.param.addcdiv_(grad, root, value=-rate)


class NpuFusedRMSpropTF(NpuFusedRMSprop):
    """RMSprop as TensorFlow has it: the mean square begins at one, epsilon is inside of the root, and the momentum may contain the
    learning rate."""

    _square_start = 1.0

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.9,
        eps: float = 1e-10,
        weight_decay: float = 0,
        momentum: float = 0.0,
        centered: bool = False,
        decoupled_decay: bool = False,
        lr_in_momentum: bool = True,
    ) -> None:
        more = {"decoupled_decay": decoupled_decay, "lr_in_momentum": lr_in_momentum}
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, **more)

    def _update(self, group: Options, run: Run) -> None:
        grad, rate, decay = run.grad, float(group["lr"]), group["weight_decay"]
        if decay and group["decoupled_decay"]:
            run.param.mul_(1 - rate * decay)
        elif decay:
            grad = grad.add(run.param, alpha=decay)
        root = self._root(group, run, grad)
        if not group["momentum"]:
            run.param.addcdiv_(grad, root, value=-rate)
            return
        buffer = run.state["momentum_buffer"].mul_(group["momentum"])
        inside = group["lr_in_momentum"]
        buffer.addcdiv_(grad, root, value=rate if inside else 1.0)
        run.param.add_(buffer, alpha=-1.0 if inside else -rate)

    def _root(self, group: Options, run: Run, grad: Tensor) -> Tensor:
        square, share = run.state["square_avg"], 1.0 - group["alpha"]
        square.add_(grad.pow(2).sub_(square), alpha=share)
        if not group["centered"]:
            return square.add(group["eps"]).sqrt_()
        mean = run.state["grad_avg"]
        mean.add_(grad - mean, alpha=share)
        return square.addcmul(mean, mean, value=-1).add_(group["eps"]).sqrt_()
