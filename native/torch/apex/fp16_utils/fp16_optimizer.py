"""FP16_Optimizer: float32 masters and a loss scale around any optimizer, for models that were cast by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from apex.fp16_utils.loss_scaler import LossScaler, make_scaler


class FP16_Optimizer:
    """The optimizer's half parameters become masters in float32; `backward(loss)` takes the place of `loss.backward()`."""

    def __init__(
        self,
        init_optimizer: torch.optim.Optimizer,
        static_loss_scale: float = 1.0,
        dynamic_loss_scale: bool = False,
        dynamic_loss_args: dict[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        self.optimizer, self.verbose = init_optimizer, verbose
        self.fp16_groups: list[list[Tensor]] = []
        self.fp32_from_fp16_groups: list[list[Tensor]] = []
        for group in init_optimizer.param_groups:
            self._take_over(group)
        self.dynamic_loss_scale = dynamic_loss_scale
        self.loss_scaler: LossScaler = make_scaler(static_loss_scale, dynamic_loss_scale, dynamic_loss_args)
        self.overflow = False
        self.first_closure_call_this_step = True

    def _take_over(self, group: dict[str, Any]) -> None:
        """Put masters in the places of half parameters, with their state if they have one."""
        halves: list[Tensor] = []
        masters: list[Tensor] = []
        for index, param in enumerate(group["params"]):
            if param.device.type != "npu" or param.dtype not in (torch.float16, torch.float32):
                raise TypeError(
                    f"FP16_Optimizer takes torch.npu.FloatTensor and torch.npu.HalfTensor, not {param.type()}: call .npu() and "
                    ".half() or .float() before the optimizer is made"
                )
            if param.dtype != torch.float16 or not param.requires_grad:
                continue
            master = nn.Parameter(param.detach().float())
            group["params"][index] = master
            if param in self.optimizer.state:
                self.optimizer.state[master] = self.optimizer.state.pop(param)
            halves.append(param)
            masters.append(master)
        self.fp16_groups.append(halves)
        self.fp32_from_fp16_groups.append(masters)

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        for halves, masters in zip(self.fp16_groups, self.fp32_from_fp16_groups, strict=True):
            yield from zip(halves, masters, strict=True)

    def _params(self) -> list[Tensor]:
        return [param for group in self.optimizer.param_groups for param in group["params"]]

    def _model_params(self) -> list[Tensor]:
        """Where a backward pass leaves gradients."""
        masters = {master: half for half, master in self._pairs()}
        return [masters.get(param, param) for param in self._params()]

    def zero_grad(self, set_grads_to_None: bool = False) -> None:
        """Forget the gradients of the model and of the masters."""
        for param in [*self._params(), *(half for half, _ in self._pairs())]:
            if set_grads_to_None:
                param.grad = None
            elif param.grad is not None:
                param.grad = param.grad.detach().zero_()

    def backward(self, loss: Tensor, update_master_grads: bool = True, retain_graph: bool = False) -> None:
        """The backward pass of the scaled loss. With several losses give `update_master_grads=False` to all but the last."""
        self.loss_scaler.backward(loss, retain_graph=retain_graph)
        if update_master_grads:
            self.update_master_grads()

    def update_master_grads(self) -> None:
        """Hand the model's gradients to the masters, unscaled; on an overflow nothing is handed over and the step is skipped."""
        if self.dynamic_loss_scale:
            self.overflow = self.loss_scaler.has_overflow(self._model_params())
            if self.overflow:
                return
        scale = self.loss_scaler.loss_scale
        for half, master in self._pairs():
            master.grad = None if half.grad is None else half.grad.detach().float().div_(scale)
        if scale == 1.0:
            return
        own = {id(master) for _, master in self._pairs()}
        for param in self._params():
            if id(param) not in own and param.grad is not None:
                param.grad.div_(scale)

    def clip_master_grads(self, max_norm: float, norm_type: float = 2) -> Tensor | float:
        """Clip after `update_master_grads`; the norm before, or -1 after an overflow."""
        if self.overflow:
            return -1
        return nn.utils.clip_grad_norm_(self._params(), max_norm, norm_type)

    def inspect_master_grad_data(self) -> list[list[Tensor | None]] | None:
        """The gradients of the masters, group by group; None after an overflow."""
        if self.overflow:
            print("inspect_master_grad_data: the last backward pass overflowed, the gradients are not valid")
            return None
        return [[param.grad for param in group["params"]] for group in self.optimizer.param_groups]

    @torch.no_grad()
    def _to_model(self) -> None:
        for half, master in self._pairs():
            half.copy_(master)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """A step of the masters, then the model follows. A closure must call `backward` of this object; it cannot overflow away."""
        before = self.loss_scaler.loss_scale
        if closure is None or not self.first_closure_call_this_step:
            self.loss_scaler.update_scale(self.overflow)
        if closure is None and self.overflow:
            if self.verbose:
                print(
                    f"OVERFLOW! Skipping step. Attempted loss scale: {before}, reducing to {self.loss_scaler.loss_scale}"
                )
            return None
        result = self.optimizer.step() if closure is None else self._step_with(closure)
        self._to_model()
        return result

    def _step_with(self, closure: Callable[[], Any]) -> Any:
        """The closure again, with a smaller scale, until its gradients are finite."""

        def wrapped() -> Any:
            if not self.first_closure_call_this_step:
                self._to_model()
            self.first_closure_call_this_step = False
            loss = closure()
            while self.overflow:
                before = self.loss_scaler.loss_scale
                self.loss_scaler.update_scale(True)
                if before == self.loss_scaler.loss_scale:
                    raise FloatingPointError(
                        f"FP16_Optimizer: the gradients of the closure are inf or nan at a loss scale of {before}, the smallest"
                    )
                loss = closure()
            return loss

        try:
            return self.optimizer.step(wrapped)
        finally:
            self.first_closure_call_this_step = True

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to go on exactly."""
        return {
            "loss_scaler": dict(vars(self.loss_scaler)),
            "dynamic_loss_scale": self.dynamic_loss_scale,
            "overflow": self.overflow,
            "first_closure_call_this_step": self.first_closure_call_this_step,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "fp32_from_fp16": self.fp32_from_fp16_groups,
        }

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint; load the model's before, its values are the masters' afterwards."""
        saved = state_dict["fp32_from_fp16"]
        if [len(group) for group in saved] != [len(masters) for masters in self.fp32_from_fp16_groups]:
            raise ValueError(
                f"the checkpoint has {[len(group) for group in saved]} masters, this optimizer "
                f"{[len(masters) for masters in self.fp32_from_fp16_groups]}"
            )
        if state_dict["dynamic_loss_scale"] != self.dynamic_loss_scale:
            raise ValueError(
                f"the checkpoint has dynamic_loss_scale={state_dict['dynamic_loss_scale']}, this optimizer not"
            )
        vars(self.loss_scaler).update(state_dict["loss_scaler"])
        self.overflow = state_dict["overflow"]
        self.first_closure_call_this_step = state_dict["first_closure_call_this_step"]
        self.optimizer.load_state_dict(state_dict["optimizer_state_dict"])
        for masters, values in zip(self.fp32_from_fp16_groups, saved, strict=True):
            for master, value in zip(masters, values, strict=True):
                master.copy_(value)
        self._to_model()

    @property
    def loss_scale(self) -> float:
        """The loss scale now."""
        return self.loss_scaler.loss_scale

    @loss_scale.setter
    def loss_scale(self, value: float) -> None:
        self.loss_scaler.cur_scale = float(value)

    @property
    def state(self) -> Any:
        """That of the optimizer."""
        return self.optimizer.state

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the optimizer, with masters."""
        return self.optimizer.param_groups
