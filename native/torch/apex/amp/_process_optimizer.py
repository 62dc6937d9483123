"""What an optimizer gets for mixed precision: master weights, gradients without the scale, and steps that may be skipped."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch_npu.utils.combine_tensors import clip_flat_norm_

from apex.amp._amp_state import _amp_state, maybe_print
from apex.amp._grads import FusedGrads, Grads, average_over_ranks_
from apex.amp.casts import disable_casts
from apex.amp.options import Properties
from apex.amp.scaler import LossScaler, multiply_

MASTER = "_apex_master"  # on a half parameter of a model: its float32 master


class AmpStash:
    """The mixed precision of one optimizer, kept as `optimizer._amp_stash`."""

    def __init__(self, optimizer: Any, properties: Properties) -> None:
        self.optimizer, self.properties = optimizer, properties
        self.models: list[Tensor] = []  # halves
        self.masters: list[Tensor] = []  # their float32 masters, which the optimizer updates
        self.direct: list[Tensor] = []  # parameters that the optimizer updates as they are
        self.grad_scale = 1.0  # what the gradients are multiplied with now
        self._waiting: list[tuple[dict[str, Any], int]] = []  # frozen parameters: group and place
        self._skip: tuple[int, LossScaler] | None = None

    @property
    def fused(self) -> bool:
        """Whether the optimizer has buffers of its own."""
        return bool(getattr(self.optimizer, "is_fused_optimizer", False))

    def take_group(self, group: dict[str, Any], originals: Mapping[Tensor, Tensor]) -> None:
        """Sort the parameters of a group; those that do not train yet are looked at again before each backward pass."""
        for index, param in enumerate(group["params"]):
            if param.requires_grad:
                self._take(group, index, originals)
            else:
                self._waiting.append((group, index))

    def _take(self, group: dict[str, Any], index: int, originals: Mapping[Tensor, Tensor]) -> None:
        """A half gets its master, from the value before the cast where that is known."""
        param = group["params"][index]
        if not (self.properties.master_weights and param.dtype == torch.float16):
            self.direct.append(param)
            return
        master = nn.Parameter(originals.get(param, param).detach().float().clone())
        setattr(param, MASTER, master)
        group["params"][index] = master
        self.models.append(param)
        self.masters.append(master)
        if param in self.optimizer.state:
            self.optimizer.state[master] = self.optimizer.state.pop(param)

    def _take_thawed(self) -> None:
        thawed = [(group, index) for group, index in self._waiting if group["params"][index].requires_grad]
        if thawed:
            self._waiting = [
                (group, index) for group, index in self._waiting if not group["params"][index].requires_grad
            ]
            for group, index in thawed:
                self._take(group, index, {})
            self.build()

    def build(self) -> None:
        """Sort the gradients; again after a group was added. Masters and other parameters of a fused optimizer share a buffer, so
        the latter are taken one by one there."""
        combine = bool(self.properties.combine_grad)
        self._model_grads = Grads(self.models, combine and bool(self.models))
        self._direct_grads = Grads(self.direct, combine and not self.fused and bool(self.direct))
        if combine and self.fused and not self.models:
            self._direct_grads = FusedGrads(self.direct, self.optimizer)
        self._master_grads = Grads(self.masters, combine and not self.fused and bool(self.masters))

    @torch.no_grad()
    def before_backward(self, scale: float) -> None:
        """Bring the gradients of earlier backward passes to the scale of this one, which adds to them."""
        if self._waiting:
            self._take_thawed()
        factor = scale / self.grad_scale
        if factor != 1.0:
            multiply_(self._direct_grads.tensors() + self._model_grads.tensors(), factor)
        self.grad_scale = scale

    @torch.no_grad()
    def after_backward(self, scaler: LossScaler) -> None:
        """Take the scale out of the gradients and hand those of the halves to their masters."""
        if self.properties.check_combined_tensors:
            for grads in (self._model_grads, self._direct_grads, self._master_grads):
                grads.check()
        if self.properties.combine_ddp:
            self._model_grads.complete()
            self._direct_grads.complete()
        direct = self._direct_grads.tensors()
        if self.properties.combine_ddp:
            average_over_ranks_(self._model_grads.tensors() + direct, self.properties.ddp_replica_count)
        self._to_masters(scaler)
        if direct and (scaler.dynamic or self.grad_scale != 1.0):
            scaler.unscale_(direct, self.grad_scale)
        self.grad_scale = 1.0

    def _to_masters(self, scaler: LossScaler) -> None:
        wide = [tensor.float() for tensor in self._model_grads.tensors()]
        if not wide:
            return
        scaler.unscale_(wide, self.grad_scale)
        if self._model_grads.buffers and self._master_grads.buffers:
            self._add_buffers(wide)
        else:
            self._add_one_by_one(wide)
        self._model_grads.clear()

    def _add_buffers(self, wide: list[Tensor]) -> None:
        for halves, masters, grad in zip(self._model_grads.buffers, self._master_grads.buffers, wide, strict=True):
            masters.gather()
            masters.flat.add_(grad)
            masters.attach(set(range(len(masters.params))) - halves.missing)

    def _add_one_by_one(self, wide: list[Tensor]) -> None:
        known = {id(model): master for model, master in zip(self.models, self.masters, strict=True)}
        if self._model_grads.buffers:
            pairs = [
                (known[id(param)], part.view(param.shape))
                for buffer, flat in zip(self._model_grads.buffers, wide, strict=True)
                for param, part in zip(
                    buffer.params, flat.split([param.numel() for param in buffer.params]), strict=True
                )
                if param.grad is not None
            ]
        else:
            pairs = list(zip((known[id(model)] for model in self.models if model.grad is not None), wide, strict=True))
        grown = [(master.grad, grad) for master, grad in pairs if master.grad is not None]
        for master, grad in pairs:
            if master.grad is None:
                master.grad = grad
        if grown:
            torch._foreach_add_([grad for grad, _ in grown], [grad for _, grad in grown])

    def skip_once(self, loss_id: int, scaler: LossScaler) -> None:
        """The next step does nothing but tell."""
        self._skip = self._skip or (loss_id, scaler)

    def step(self, step: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's own step and what belongs around it."""
        if self._skip is not None:
            return self._skip_step()
        if self.grad_scale != 1.0:
            raise RuntimeError(
                f"step(): the gradients still carry the loss scale {self.grad_scale}: the last amp.scale_loss before a step needs "
                "delay_unscale=False"
            )
        if self.models and (args or kwargs.get("closure") is not None):
            raise RuntimeError("Currently, Amp does not support closure use with optimizers that have master weights.")
        with disable_casts():
            loss = step(*args, **kwargs)
        if _amp_state.handle is not None:
            _amp_state.handle.clear_cache()
        self.masters_to_models()
        return loss

    def _skip_step(self) -> None:
        assert self._skip is not None
        loss_id, scaler = self._skip
        self._skip = None
        self.optimizer._opt_called = True  # a scheduler asks whether step was called
        maybe_print(
            f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}"
        )
        if self.fused and self.masters:
            self.optimizer_zero_grad()
        else:
            self._master_grads.clear()

    @torch.no_grad()
    def masters_to_models(self) -> None:
        """The model computes with what the optimizer has made."""
        if self.models:
            torch._foreach_copy_(
                [model.detach() for model in self.models], [master.detach() for master in self.masters]
            )

    def optimizer_zero_grad(self, **options: Any) -> None:
        """The optimizer's own zero_grad; set when it is patched."""
        raise NotImplementedError("process() sets it")

    def zero_grad(self, set_to_none: bool | None) -> None:
        """All gradients, of halves too. Combined ones stay and become zero."""
        combine = self.properties.combine_grad
        if combine and set_to_none:
            raise ValueError(
                "zero_grad: set_to_none=True does not work with combine_grad=True, gradients are parts of one buffer"
            )
        drop = not (combine or self.fused) if set_to_none is None else set_to_none
        self.optimizer_zero_grad(set_to_none=drop)
        if combine or drop:
            self._model_grads.clear()
        else:
            for tensor in self._model_grads.tensors():
                tensor.zero_()
        self.grad_scale = 1.0

    def clip(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """`clip_grad_norm_` over the combined gradients that the step will use."""
        if self.fused:
            norm: Tensor = self.optimizer.clip_grad_norm_fused_(max_norm, norm_type)
            return norm
        return clip_flat_norm_(self._direct_grads.tensors() + self._master_grads.tensors(), max_norm, norm_type)


def process(optimizer: Any, properties: Properties, originals: Mapping[Tensor, Tensor]) -> None:
    """Patch step, zero_grad and add_param_group of one optimizer."""
    stash = optimizer._amp_stash = AmpStash(optimizer, properties)
    for group in optimizer.param_groups:
        stash.take_group(group, originals)
    stash.build()
    own_step, own_add = optimizer.step, optimizer.add_param_group
    stash.optimizer_zero_grad = optimizer.zero_grad  # type: ignore[method-assign]

    @functools.wraps(own_step)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._amp_stash.step(own_step, *args, **kwargs)

    def zero_grad(self: Any, set_to_none: bool | None = None) -> None:
        self._amp_stash.zero_grad(set_to_none)

    def add_param_group(self: Any, new_group: dict[str, Any]) -> None:
        own_add(new_group)
        self._amp_stash.take_group(self.param_groups[-1], {})
        self._amp_stash.build()

    optimizer.step = MethodType(step, optimizer)
    optimizer.zero_grad = MethodType(zero_grad, optimizer)
    optimizer.add_param_group = MethodType(add_param_group, optimizer)
    if properties.combine_grad:
        optimizer.clip_optimizer_grad_norm_fused = stash.clip
