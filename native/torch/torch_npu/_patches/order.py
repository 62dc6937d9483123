"""What `import torch_npu` does to torch, step by step. A step stands where it stands for the reason beside it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import torch
from torch.utils import backend_registration

from torch_npu import formats, npu, operators
from torch_npu._inductor import registration
from torch_npu._patches import (
    autograd_profiler,
    checkpoints,
    device_lists,
    dlpack,
    legacy_types,
    nn_names,
    older_torch,
    onnx_names,
    operator_names,
    package_names,
    process_groups,
    processes,
)
from torch_npu._runtime import chip, dtype_numbers
from torch_npu.contrib import _old_names

_NO_TENSORS_OF = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]


class Step(NamedTuple):
    """One change."""

    install: Callable[[ModuleType], None]  # it gets the package torch_npu
    why_here: str


def _alone(install: Callable[[], None]) -> Callable[[ModuleType], None]:
    """A step that needs nothing of the package."""
    return lambda _package: install()


def _register_device(_package: ModuleType) -> None:
    """`torch.npu`, and `x.npu()` of tensors, modules and storages."""
    torch._register_device_module("npu", npu)
    backend_registration.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_storage=True, unsupported_dtype=_NO_TENSORS_OF
    )


STEPS = (
    Step(_register_device, "first: the others put names into torch.npu and wrap the methods that this one makes"),
    Step(_alone(older_torch.install), "before all that counts on torch 2.13, which an older one is like from here on"),
    Step(
        lambda _package: legacy_types.install(npu),
        "before checkpoints and processes, which meet the types in what they read",
    ),
    Step(dtype_numbers.install, "before the names of operators, which leave a name alone that the package has"),
    Step(_alone(dlpack.install), "any place would do: nothing else touches DLPack"),
    Step(_alone(processes.install), "after the legacy types, which it teaches to travel"),
    Step(_alone(checkpoints.install), "after the legacy types, which old files name"),
    Step(_alone(chip.install), "before the first operator runs: from here on the chip's limits hold"),
    Step(_alone(device_lists.install), "after the methods are made: it allows Tensor.npu where torch lists methods"),
    Step(
        _alone(registration.install), "after torch.npu is there: parts of the compiler that are loaded ask it at once"
    ),
    Step(_alone(nn_names.install), "any place would do: it only adds names"),
    Step(_alone(operators.register), "before their names"),
    Step(operator_names.expose, "after the operators, before what has a better function under one of their names"),
    Step(formats.install, "after the names of operators: its get_npu_format tells more than the operator does"),
    Step(autograd_profiler.install, "before the sanitizer, which looks at operators first when both look"),
    Step(
        package_names.install,
        "after the operators: a sanitizer that the environment asks for sees none of the work above",
    ),
    Step(_alone(process_groups.install), "after torch.npu is there, whose backend hccl becomes"),
    Step(_alone(onnx_names.install), "any place would do: it waits for torch.onnx to be imported"),
    Step(_alone(_old_names.install), "any place would do: the old library is looked up when a program asks for it"),
    Step(_alone(device_lists.transfer_if_asked), "last: it lets cuda mean what npu has become by now"),
)


def install(package: ModuleType, other_accelerator: str) -> None:
    """All steps; nothing is changed where another accelerator forbids it."""
    device_lists.refuse_other_accelerator(other_accelerator)
    for step in STEPS:
        step.install(package)
