"""The models of the process, by the numbers that programs use."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.units import human
from softnpu.executor.model import Model
from softnpu.graph.om import Om
from softnpu.runtime.device import Device
from softnpu.runtime.parts import Part
from softnpu.runtime.process import Process


class ModelTable(Part):
    """Loaded models. Numbers count from 1 and are not used again."""

    def __init__(self) -> None:
        self.models: dict[int, Model] = {}
        self.configs: dict[int, Any] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()  # a destructor may come here in the middle of a call

    def load(
        self, process: Process, source: Om, work: tuple[int, int] = (0, 0), weight: tuple[int, int] = (0, 0)
    ) -> int:
        """Load a model into the current context; work and weight are memory of the caller as (address, bytes)."""
        context = process.current()
        info = source.info()
        self._check_memory(process, "work", work, info.memory_size)
        self._check_memory(process, "weight", weight, info.weight_size)
        need = (0 if any(work) else info.memory_size) + (0 if any(weight) else info.weight_size)
        self._take(process, context.device, need)
        try:
            model = Model(source, context)
        except BaseException:
            _account(context.device, -need)
            raise
        with self._lock:
            model.id = next(self._numbers)
            model.held = need
            self.models[model.id] = model
        return model.id

    def _take(self, process: Process, device: Device, need: int) -> None:
        """Count the memory that the system gives a model on the device."""
        with device.arena.lock:
            try:
                process.memory.allocator.check_room(device, need)
            except NpuError as error:
                raise NpuError(
                    codes.GE_MEMORY_ALLOCATION, f"the model needs {human(need)}: {error.text}", error.remedy
                ) from error
            _account(device, need)

    def sweep(self, device: Device) -> None:
        """A device is reset: its models are gone."""
        with self._lock:
            gone = [model for model in self.models.values() if model.context.device is device]
            for model in gone:
                del self.models[model.id]
        for model in gone:
            _account(device, -model.held)
            model.close()

    def _check_memory(self, process: Process, purpose: str, memory: tuple[int, int], need: int) -> None:
        address, size = memory
        if not address and not size:
            return
        if not address or size < need:
            raise NpuError(
                codes.GE_PARAM_INVALID,
                f"the {purpose} memory has {size} bytes at {address:#x}, the model needs {need}",
                "ask acl.mdl.query_size how much is needed, or pass 0 and 0",
            )
        process.memory.reach(address, need, True)

    def leaks(self, device: Device | None) -> list[str]:
        """A line for each model that was never unloaded."""
        mine = [model for model in self.models.values() if device is None or model.context.device is device]
        return [f"model {model.id} ({model.name}) never unloaded, {human(model.held)}" for model in mine]

    def get(self, number: int) -> Model:
        """The model of a number."""
        model = self.models.get(number)
        if model is None:
            raise unknown(number)
        return model

    def unload(self, number: int) -> None:
        """Forget a model and give its engine back."""
        with self._lock:
            model = self.models.pop(number, None)
        if model is None:
            raise unknown(number)
        _account(model.context.device, -model.held)
        model.close()


def _account(device: Device, size: int) -> None:
    with device.arena.lock:
        device.physical += size
        device.account(size)


def unknown(number: int) -> NpuError:
    """The error for a number that no loaded model has."""
    return NpuError(
        codes.GE_EXEC_MODEL_ID_INVALID,
        f"no loaded model has the id {number}",
        "use the id that acl.mdl.load_* returned, before acl.mdl.unload",
    )


def table(process: Process) -> ModelTable:
    """The models of a process object."""
    return process.part(ModelTable)
