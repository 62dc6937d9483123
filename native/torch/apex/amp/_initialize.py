"""What `amp.initialize` does to models and optimizers."""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from apex.amp import _process_optimizer
from apex.amp._amp_state import _amp_state, warn_or_err
from apex.amp._grads import broadcast_parameters
from apex.amp._process_optimizer import MASTER
from apex.amp.amp import start_casts
from apex.amp.casts import applied, to_dtype
from apex.amp.handle import AmpHandle
from apex.amp.options import Properties
from apex.fp16_utils import convert_network
from apex.parallel.LARC import LARC

_WANTED = "torch.npu.FloatTensor"


def initialize(models: Any, optimizers: Any, properties: Properties, output_type: torch.dtype | None) -> Any:
    """Check, cast, patch; the models and optimizers in the form they came in."""
    modules = _as_list(models, nn.Module, "models must be either a single model or a list of models", nn.Module)
    steppers = _as_list(
        [] if optimizers is None else optimizers,
        (torch.optim.Optimizer, LARC),
        "optimizers must be either a single optimizer or a list of optimizers",
        torch.optim.Optimizer,
    )
    _check_models(modules)
    _check_optimizers(steppers)
    if not _amp_state.allow_incoming_model_not_fp32:
        _check_parameters(modules)
    if properties.combine_ddp:
        broadcast_parameters(modules)
    originals = _values(steppers) if properties.master_weights else {}
    for module in modules:
        _cast(module, properties, output_type)
    _switch_casts(properties)
    for stepper in steppers:
        _process_optimizer.process(stepper, properties, originals)
    if properties.combine_grad:
        for module in modules:
            module.zero_grad = MethodType(_zero_grad, module)
    return models if optimizers is None else (models, optimizers)


def _as_list(value: Any, kind: Any, message: str, wanted: type) -> list[Any]:
    items = value if isinstance(value, list | tuple) else [value]
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"{message}; found {type(item).__name__} where a torch {wanted.__name__} is needed")
    return list(items)


def _check_models(models: list[nn.Module]) -> None:
    for model in models:
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.parallel.DataParallel):
            raise RuntimeError(
                f"Incoming model is an instance of {type(model).__name__}. Parallel wrappers should only be applied to the model(s) "
                "AFTER the model(s) have been returned from amp.initialize."
            )


def _check_optimizers(optimizers: list[Any]) -> None:
    for optimizer in optimizers:
        if hasattr(optimizer, "_amp_stash"):
            raise RuntimeError("A given optimizer should only be passed through amp.initialize once.")


def _check_parameters(models: list[nn.Module]) -> None:
    for model in models:
        for name, parameter in model.named_parameters():
            if parameter.is_floating_point() and parameter.type() != _WANTED:
                warn_or_err(_what_is_wrong("param", name, parameter))
        for name, buffer in model.named_buffers():
            if buffer.is_floating_point() and (buffer.device.type != "npu" or buffer.dtype == torch.float16):
                warn_or_err(_what_is_wrong("buffer", name, buffer))


def _what_is_wrong(kind: str, name: str, tensor: Tensor) -> str:
    if tensor.device.type != "npu":
        advice = "When using amp.initialize, the model must be on an npu device before: call model.npu() first."
    else:
        advice = (
            "When using amp.initialize, you do not need to call .half() on your model\n"
            "before passing it, no matter what optimization level you choose."
        )
    return f"Found {kind} {name} with type {tensor.type()}, expected {_WANTED}.\n{advice}"


def _values(optimizers: list[Any]) -> dict[Tensor, Tensor]:
    """The float32 values, before the models are cast: masters begin with all their digits."""
    return {
        param: param.detach().clone()
        for optimizer in optimizers
        for group in optimizer.param_groups
        for param in group["params"]
    }


class _CastInputs:
    """A hook before forward. A class, so that copies of the model have their own."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __call__(self, _module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        return applied(self._cast, args), applied(self._cast, kwargs)

    def _cast(self, x: Tensor) -> Tensor:
        return to_dtype(self.dtype, x)


class _CastOutputs(_CastInputs):
    """A hook behind forward."""

    def __call__(self, _module: nn.Module, _args: Any, output: Any) -> Any:
        return applied(self._cast, output)


def _cast(model: nn.Module, properties: Properties, output_type: torch.dtype | None) -> None:
    dtype = properties.cast_model_type
    if dtype is not None:
        if properties.keep_batchnorm_fp32:
            convert_network(model, dtype)
        else:
            model.to(dtype)
        model.register_forward_pre_hook(_CastInputs(dtype), prepend=True, with_kwargs=True)
    if dtype is not None or output_type is not None:
        model.register_forward_hook(_CastOutputs(output_type or torch.float32))
    if properties.opt_level == "O2":
        for module in model.modules():
            module.register_state_dict_post_hook(_save_full)
            module.register_load_state_dict_pre_hook(_load_full)


def _save_full(module: nn.Module, state_dict: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """A checkpoint holds float32: the masters where there are some, so that training goes on exactly."""
    for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
        if prefix + name in state_dict and tensor.dtype == torch.float16:
            state_dict[prefix + name] = getattr(tensor, MASTER, tensor).detach().float()


@torch.no_grad()
def _load_full(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_rest: Any) -> None:
    """Values of a checkpoint go to the masters too, which would overwrite the model at the next step."""
    for name, param in module.named_parameters(recurse=False):
        value, master = state_dict.get(prefix + name), getattr(param, MASTER, None)
        if master is not None and value is not None and value.shape == master.shape:
            master.copy_(value)


def _zero_grad(self: nn.Module, set_to_none: bool = False) -> None:
    """`nn.Module.zero_grad` for combined gradients: they stay in their buffer."""
    if set_to_none:
        raise ValueError(
            "zero_grad: set_to_none=True does not work with combine_grad=True, gradients are parts of one buffer"
        )
    type(self).zero_grad(self, set_to_none=False)


def _switch_casts(properties: Properties) -> None:
    if properties.patch_torch_functions:
        start_casts(AmpHandle(), bool(properties.user_cast_preferred))
    elif _amp_state.handle is not None:
        _amp_state.handle.deactivate()
