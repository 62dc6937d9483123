"""PyTorch's databases of modules and optimizers on npu against cpu; run through `op_db_run.py --what module,optim`.

Modules: forward and backward in training and in evaluation, moved there and back (the same parameter objects and values), made on
the device by `device=`. Optimizers: five steps with each setting of the database, as a loop, foreach, fused and differentiable.
"""

from __future__ import annotations

import tests.torch.aten.expecttest_stand_in  # noqa: F401  # isort: skip

import copy
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.testing._internal.common_optimizers import OptimizerInfo, OptimizerInput, optim_db
from torch.utils._pytree import tree_map

from tests.torch.aten.op_db_compare import Differs, NotCounted, case, compare, copied, onto_npu, tensors
from tests.torch.aten.op_db_page import Report

MODULE_FORMS = ("train", "eval", "backward", "transfer", "device")
STEPS = 5


def each_tensor(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    return tree_map(lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def build_module(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype, **more: Any) -> nn.Module:
    torch.manual_seed(0)
    build = sample.constructor_input
    module = info.module_cls(*build.args, **build.kwargs, **more)
    return module.to(dtype) if dtype.is_floating_point or dtype.is_complex else module


def forward(
    module: nn.Module, sample: ModuleInput, place: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[Any, list[torch.Tensor]]:
    """What the module gives, and the tensors it was given that want a gradient."""
    args, kwargs = each_tensor(place, sample.forward_input.args), each_tensor(place, sample.forward_input.kwargs)
    return module(*args, **kwargs), [leaf for leaf in tensors([args, kwargs]) if leaf.requires_grad]


def outcome(module: nn.Module, sample: ModuleInput, form: str, place: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    module.train(form != "eval")
    result, leaves = forward(module, sample, place)
    if form != "backward":
        return result, list(module.buffers())
    leaves += [p for p in module.parameters() if p.requires_grad]
    ends = [end for end in tensors(result) if end.requires_grad]
    if not leaves or not ends:
        raise NotCounted("no gradient")
    gradients = torch.autograd.grad(ends, leaves, [torch.full_like(end, 0.5) for end in ends], allow_unused=True)
    return [gradient for gradient in gradients if gradient is not None]


def state(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]


def transfer(module: nn.Module) -> None:
    """There and back: every tensor moves, parameters stay the same objects, values stay."""
    before, values = state(module), copy.deepcopy(module.state_dict())
    if not before:
        raise NotCounted("no parameters")
    module.npu()
    if any(tensor.device.type != "npu" for tensor in state(module)):
        raise Differs("transfer: a parameter or buffer stayed behind")
    module.cpu()
    if any(a is not b for a, b in zip(before, state(module), strict=True) if isinstance(a, nn.Parameter)):
        raise Differs("transfer: another Parameter object")
    for name, value in module.state_dict().items():
        if isinstance(value, torch.Tensor) and not torch.equal(value, values[name]):
            raise Differs(f"transfer: {name} changed")


def built_there(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype) -> None:
    here = build_module(info, sample, dtype)
    if not state(here):
        raise NotCounted("no parameters")
    try:
        there = build_module(info, sample, dtype, device="npu")
    except TypeError as error:
        raise NotCounted(f"cpu: {error}") from None
    pairs = [
        pair
        for pair in zip(state(here), state(there), strict=True)
        if not isinstance(pair[0], UninitializedTensorMixin)
    ]
    if any(b.device.type != "npu" or (a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
        raise Differs("device: a parameter is on another device, or has another shape or dtype")


def complete(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype) -> nn.Module:
    """A module with all of its parameters: a lazy one draws them when it is first called."""
    module = build_module(info, sample, dtype)
    if any(isinstance(tensor, UninitializedTensorMixin) for tensor in state(module)):
        forward(module, sample, copied)
    return module


def compare_module(info: ModuleInfo, sample: ModuleInput, dtype: torch.dtype, form: str) -> None:
    if form == "transfer":
        return transfer(complete(info, sample, dtype))
    if form == "device":
        return built_there(info, sample, dtype)
    there = complete(info, sample, dtype).npu()

    def here() -> Any:
        return outcome(complete(info, sample, dtype), sample, form, copied)

    compare(here, lambda: outcome(there, sample, form, onto_npu), form)
    return None


def inputs_of(info: ModuleInfo, dtype: torch.dtype, form: str) -> Iterator[ModuleInput]:
    torch.manual_seed(0)
    wants = {"device": "cpu", "dtype": dtype, "requires_grad": form == "backward", "training": form != "eval"}
    return iter(info.module_inputs_func(info, **wants))


def run_modules(names: set[str], dtypes: Iterable[str], count: int) -> Report:
    report = Report()
    for info in module_db:
        if names and info.name not in names and info.formatted_name not in names:
            continue
        for word in dtypes:
            dtype = getattr(torch, word)
            if dtype not in info.dtypes:
                continue
            for form in MODULE_FORMS:

                def pieces(
                    info: ModuleInfo = info, dtype: torch.dtype = dtype, form: str = form
                ) -> Iterator[Callable[[], None]]:
                    for sample in islice(inputs_of(info, dtype, form), count):
                        yield lambda sample=sample: compare_module(info, sample, dtype, form)

                report.add(info.formatted_name, word, form, *case(pieces))
    return report


def trained(
    info: OptimizerInfo, settings: dict[str, Any], dtype: torch.dtype, place: Callable[[torch.Tensor], torch.Tensor]
) -> Any:
    """Parameters and state after a few steps on a small loss."""
    make = torch.Generator().manual_seed(0)
    weight, bias, x = (torch.randn(*shape, dtype=dtype, generator=make) for shape in ((4, 6), (6,), (3, 4)))
    parameters = [place(value).requires_grad_() for value in (weight, bias)]
    x = place(x)
    only_matrices = info.optim_cls.__name__ == "Muon"
    optimizer = info.optim_cls(parameters[:1] if only_matrices else parameters, **settings)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (x @ parameters[0] + parameters[1]).abs().square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)
    kept = [
        value
        for parameter in parameters
        for value in optimizer.state.get(parameter, {}).values()
        if isinstance(value, torch.Tensor)
    ]
    return [p.detach() for p in parameters], [place(value) if value.device.type == "cpu" else value for value in kept]


def settings_of(info: OptimizerInfo, form: str) -> Iterator[dict[str, Any]]:
    for setting in info.optim_inputs_func(device="cpu"):
        if not isinstance(setting, OptimizerInput):
            raise TypeError(f"{info.optim_cls.__name__}: the database gave {setting!r}, not an OptimizerInput")
        way = {form: True} if form != "loop" else {"foreach": False} if "foreach" in info.supported_impls else {}
        yield {**setting.kwargs, **way}


def optimizer_forms(info: OptimizerInfo) -> list[str]:
    return ["loop", *(impl for impl in ("foreach", "fused") if impl in info.supported_impls)]


def run_optimizers(names: set[str], dtypes: Iterable[str]) -> Report:
    report = Report()
    for info in optim_db:
        name = info.optim_cls.__name__
        if names and name not in names:
            continue
        for word in dtypes:
            dtype = getattr(torch, word)
            if not dtype.is_floating_point and not (dtype.is_complex and info.supports_complex):
                continue
            for form in optimizer_forms(info):

                def pieces(
                    info: OptimizerInfo = info, dtype: torch.dtype = dtype, form: str = form
                ) -> Iterator[Callable[[], None]]:
                    for settings in settings_of(info, form):

                        def here(settings: dict[str, Any] = settings) -> Any:
                            return trained(info, copy.deepcopy(settings), dtype, copied)

                        def there(settings: dict[str, Any] = settings) -> Any:
                            return trained(info, copy.deepcopy(settings), dtype, onto_npu)

                        yield lambda here=here, there=there: compare(here, there, form)

                report.add(name, word, form, *case(pieces))
    return report
