"""The body of `npu_model` at level 1: torch code on npu tensors, which stay where they are between nodes of one device."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from softnpu.flow import codes, log
from softnpu.flow.bodies.common import inside, source_of
from softnpu.flow.bodies.function import load_targets
from softnpu.flow.body import Inlet, InstanceInfo, Outlet
from softnpu.flow.errors import DfException
from softnpu.flow.functions import work
from softnpu.flow.message import TORCH_TENSOR, Message
from softnpu.flow.values import torch_door
from softnpu.flow.values.register import pickle_loads

Function = tuple[Callable[..., Any], tuple[int, ...]]  # what is called, and the node's outputs that it writes


class Refused(Exception):
    """Something that the documented constraints forbid."""


class TorchBody:
    """A function, or an object whose marked methods are the functions."""

    takes_failures = False
    takes_exceptions = False

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._instance: InstanceInfo | None = None
        self._functions: list[Function] = []
        self._device: Any = None

    def start(self, instance: InstanceInfo) -> None:
        """Hook first, then torch, then the program's own code."""
        data = self._data
        self._instance = instance
        work.unpack_path(data["path"])
        with inside(instance):
            if data["hook"] is not None:
                pickle_loads(data["hook"])()
            torch_door.torch_npu()
            torch = torch_door.torch()
            self._device = _device(instance)
            torch.npu.set_device(self._device)
            with torch.no_grad():
                targets = [target for target, _ in load_targets(pickle_loads(data["object"]), data["functions"])]
        for function, target in zip(data["functions"], targets, strict=True):
            owner = getattr(target, "__self__", None)
            if isinstance(owner, torch.nn.Module):
                owner.to(self._device)
            self._functions.append((target, tuple(data["output_map"][index] for index in function.outputs)))

    def call(self, function: int, messages: Sequence[Message], out: Outlet) -> int:
        """One group of inputs, one group of outputs."""
        target, outputs = self._functions[function]
        first = source_of(messages) or Message()
        try:
            if messages and first.null:  # the end of a stream passes through
                results = [Message() for _ in outputs]
            else:
                results = [
                    Message(torch_door.local(tensor), TORCH_TENSOR)
                    for tensor in self._run(target, messages, len(outputs))
                ]
        except (Refused, DfException) as problem:
            log.error("node %s: %s", self._node, problem)
            return codes.FUNC_FAILED
        except Exception:
            log.error("node %s: %s failed\n%s", self._node, _name(target), traceback.format_exc())
            return codes.FUNC_FAILED
        for output, message in zip(outputs, results, strict=True):
            out.send(output, message.inherit(first))
        return codes.SUCCESS

    def _run(self, target: Callable[..., Any], messages: Sequence[Message], count: int) -> tuple[Any, ...]:
        if any(each.null for each in messages):
            raise Refused(f"{_name(target)} got an input without data; npu_model needs npu tensors")
        assert self._instance is not None, "start comes first"
        with inside(self._instance), torch_door.torch().no_grad():
            returned = target(*[torch_door.tensor_of(each, self._device) for each in messages])
        results = (returned,) if count == 1 else returned
        if not isinstance(results, tuple) or len(results) != count:
            size = f" of {len(results)}" if isinstance(results, tuple | list) else ""
            raise Refused(
                f"{_name(target)} must return a tuple of {count} tensors, not a {type(results).__name__}{size}"
            )
        for index, each in enumerate(results):
            self._check(target, index, each)
        return results

    def _check(self, target: Callable[..., Any], index: int, value: Any) -> None:
        if not isinstance(value, torch_door.torch().Tensor):
            raise Refused(f"output {index} of {_name(target)} is a {type(value).__name__}; it must be an npu tensor")
        if value.device.type != "npu":
            raise Refused(
                f"output {index} of {_name(target)} lies on {value.device}; it must be an npu tensor (tensor.npu())"
            )

    @property
    def _node(self) -> str:
        return self._instance.node if self._instance is not None else ""

    def stream(self, function: int, inlets: Sequence[Inlet], out: Outlet) -> int:
        """Refused when the node was made."""
        raise NotImplementedError("npu_model has no stream input")

    def notice(self, trans_id: int, code: int, context_id: int) -> None:
        """Has no use for exceptions of others (`takes_exceptions`)."""

    def close(self) -> None:
        """Let go of the object and its device memory."""
        self._functions = []


def _device(instance: InstanceInfo) -> Any:
    """The device of an instance; logic devices may be more than this machine has."""
    count = torch_door.torch().npu.device_count()
    wanted = max(instance.device_id, 0)
    if wanted >= count:
        log.warning(
            "node %s: device %d is not there, this machine has %d; device %d takes its place (SOFTNPU_DEVICES adds devices)",
            instance.node,
            wanted,
            count,
            wanted % count,
        )
    return torch_door.torch().device("npu", wanted % count)


def _name(target: Callable[..., Any]) -> str:
    return getattr(target, "__qualname__", repr(target))


def load(data: dict[str, Any]) -> TorchBody:
    """The loader that specs name."""
    return TorchBody(data)
