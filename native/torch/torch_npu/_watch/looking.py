"""Looking on while operators run: a dispatch mode that stays on between two calls, and what a call reads and writes.

It sees the operators of the thread that switched it on and of the backward passes which that thread starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode, _push_mode

_MAKES_ROOM = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})


class Looking(TorchDispatchMode):
    """Calls `look` instead of every operator that has a tensor on npu; it runs the operator itself, with `call`."""

    def start(self) -> None:
        """Look from now on."""
        _push_mode(self)

    def stop(self) -> None:
        """Look no more; modes that were entered later stay."""
        above = []
        while self in _get_current_dispatch_mode_stack():
            mode = _pop_mode()
            if mode is not self:
                above.append(mode)
        for mode in reversed(above):
            _push_mode(mode)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types  # subclasses are unwrapped before they come here
        kwargs = kwargs or {}
        if not computes(func) or not self.wants(args, kwargs):
            return func(*args, **kwargs)
        return self.look(func, args, kwargs)

    def wants(self, args: Any, kwargs: Any) -> bool:
        """Whether a call is for a device: one of its tensors is there, or its result is to be."""
        device = kwargs.get("device")
        if device is not None and torch.device(device).type == "npu":
            return True
        return any(tensor.device.type == "npu" for _, tensor in tensors_in(dict(enumerate([*args, *kwargs.values()]))))

    def look(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What is done with a call."""
        raise NotImplementedError


def computes(func: Any) -> bool:
    """Whether a chip would run a kernel: views and memory without values need none."""
    name = short_name(func)
    return not (func.is_view or name in _MAKES_ROOM or name in ("detach", "record_stream"))


def short_name(func: Any) -> str:
    """The operator's name without library and overload: add_ of aten::add_.Tensor."""
    name: str = func._schema.name
    return name.rpartition("::")[2]


def named_arguments(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments that a call gives, by the names of the schema."""
    names = [argument.name for argument in func._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def named_results(func: Any, result: Any) -> dict[str, Any]:
    """The results by name: that of the schema, or output, output1 …"""
    returned = func._schema.returns
    values = result if len(returned) > 1 else [result]
    names = (declared.name or ("output" if index == 0 else f"output{index}") for index, declared in enumerate(returned))
    return dict(zip(names, values, strict=False))


def tensors_in(values: dict[Any, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors among arguments or results; those of a list are called name_0, name_1 …"""
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, list | tuple):
            for index, element in enumerate(value):
                if isinstance(element, torch.Tensor):
                    yield f"{name}_{index}", element


def written_names(func: Any) -> set[str]:
    """The arguments that an operator changes."""
    return {
        argument.name
        for argument in func._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    }
