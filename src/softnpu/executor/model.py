"""A loaded model: its description, its engine, and runs of it on buffers in device memory."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from softnpu.base.dtypes import DType
from softnpu.base.errors import NpuError, codes
from softnpu.base.trace import Span, bus
from softnpu.executor import choose, instrument
from softnpu.executor.binding import PARAMETERS, PICTURE, STATIC, TOLERANCE, Binder, Given, Ready
from softnpu.executor.engines.base import Engine, Shape, view
from softnpu.graph.inout import SHAPE_INPUT
from softnpu.graph.om import ModelInfo, Om
from softnpu.runtime.process import process

if TYPE_CHECKING:
    from softnpu.runtime.memory.memory import Memory
    from softnpu.runtime.streams.stream import Context

__all__ = ["PARAMETERS", "PICTURE", "SHAPE_INPUT", "STATIC", "TOLERANCE", "Given", "Model"]
_MAX_PLANS = 64
_FLOATS = frozenset({DType.FLOAT, DType.FLOAT16, DType.DOUBLE})


class Model:
    """A model in memory. `id` is the number that programs use."""

    def __init__(self, source: Om, context: Context, number: int = 0) -> None:
        self.id = number
        self.held = 0  # bytes of device memory that the system gave it
        self.source = source
        self.context = context
        self.info: ModelInfo = source.info()
        self.name = source.head().get("name", "")
        self.engine: Engine = choose.open_model(source, self.info, instrument.wanted(self))
        instrument.attach(self)
        self.gear = self.info.run.largest_gear if self.info.gears else None
        self._plans: dict[tuple[Any, ...], Ready] = {}
        self._binder = Binder(self.info, context)
        self.ranged, self.open_outputs = self._binder.ranged, self._binder.open_outputs
        self.shape_input = next(
            (i for i, tensor in enumerate(self.info.inputs) if tensor.name == SHAPE_INPUT and self.info.gears), None
        )
        self._status_check = self.info.run.status_check
        self.loaded = True

    def close(self) -> None:
        """Give the engine back."""
        self.loaded = False
        self._plans.clear()
        self.engine.close()

    # ---- running -----------------------------------------------------------------------------------------------------

    def prepare(self, inputs: Given, outputs: Given) -> Ready:
        """Check the buffers and bind them; what was bound before is found again."""
        gear = self._gear(inputs)
        key = (
            gear,
            len(inputs.buffers),
            *[(buffer.address, buffer.size) for buffer in inputs.buffers],
            *[(buffer.address, buffer.size) for buffer in outputs.buffers],
            *[(index, tuple(desc.dims)) for index, desc in inputs.descs.items()],
        )
        ready = self._plans.get(key)
        if ready is None:
            lasting = all(
                buffer.address for buffer in outputs.buffers
            )  # asked now, since binding allocates what is missing
            ready = self._bind(inputs, outputs, gear)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            if lasting:
                self._plans[key] = ready
        return ready

    @instrument.telling
    def run(self, ready: Ready) -> list[Shape]:
        """Run what was prepared; returns the dims of the outputs."""
        if not self.loaded:
            raise NpuError(
                codes.GE_EXEC_MODEL_ID_INVALID, f"model {self.id} was unloaded", "unload a model after its work is done"
            )
        plan = ready.plan
        assert plan is not None
        board, slot = self.context.device.board_slot()
        memory = self._memory()
        start = time.monotonic_ns() if bus.listeners else 0
        with ready.lock:
            board.task_started(slot)
            try:
                for address, size, write in ready.reach:  # the program may have freed something since
                    memory.reach(address, size, write)
                for step in ready.before:
                    step()
                try:
                    plan.run()
                except Exception as error:
                    raise self._failed(instrument.explain(self, ready.places, error)) from error
                for step in ready.after:
                    step()
                if self._status_check:
                    self._look_for_overflow(ready)
                dims = list(ready.dims)
            finally:
                board.task_ended(slot)
        if start and bus.listeners:
            bus.publish(
                Span(
                    "model",
                    self.name,
                    start,
                    time.monotonic_ns(),
                    self.context.device.index,
                    -1,
                    threading.get_native_id(),
                    {"model_id": self.id, "engine": self.engine.name},
                )
            )
        return [shape or () for shape in dims]

    def _look_for_overflow(self, ready: Ready) -> None:
        """--status_check: infinity or NaN among the results sets the device's overflow status."""
        for place in ready.places[1]:
            if (
                place.shape is not None
                and place.address
                and place.dtype in _FLOATS
                and not np.isfinite(view(place)).all()
            ):
                self.context.device.overflow = True

    def _failed(self, error: Exception) -> NpuError:
        text = " ".join(str(error).split())[:600]
        return NpuError(
            codes.GE_INTERNAL_ERROR,
            f"model {self.id} ({self.name}) failed while running: {text}",
            "check the values and shapes of the inputs",
        )

    def _memory(self) -> Memory:
        return process().memory

    def _gear(self, inputs: Given) -> int | None:
        """Which gear a run uses: the one set in the dataset, else the one that stands in the shape input's memory."""
        if not self.info.gears:
            return None
        if inputs.gear is not None:
            return inputs.gear
        index = self.shape_input
        largest = self.info.run.largest_gear
        if index is None or index >= len(inputs.buffers):
            return largest
        buffer = inputs.buffers[index]
        count = len(self.info.gears[0])
        if not buffer.address or buffer.size < 4 * count:
            return largest
        words = self._memory().array(buffer.address, 4 * count, 8)
        gear = [int(number) for number in words]
        return self.info.gears.index(gear) if gear in self.info.gears else largest

    def _bind(self, inputs: Given, outputs: Given, gear: int | None) -> Ready:
        ready = self._binder.bind(inputs, outputs, gear)
        try:
            ready.plan = self.engine.plan(*ready.places)
        except Exception as error:
            raise self._failed(error) from error
        return ready

    def gear_shapes(self, gear: int) -> list[Shape]:
        """The dims of every input under a gear; the added inputs have their own."""
        return self._binder.gear_shapes(gear)
