"""Binding: from the buffers of one run to places that an engine can use, with checks and the copies around the run."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softnpu.base import aipp_block
from softnpu.base.aipp import FORMATS
from softnpu.base.dtypes import element_size
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.engines.base import Place, Plan, Shape
from softnpu.graph.om import ModelInfo, TensorInfo
from softnpu.runtime.process import process

if TYPE_CHECKING:
    from softnpu.runtime.memory.memory import Memory
    from softnpu.runtime.streams.stream import Context

TOLERANCE = 64  # a buffer may be this many bytes short, as on hardware
STATIC, PICTURE, PARAMETERS = 1, 2, 3  # aclmdlInputAippType of the inputs of dynamic AIPP
Copy = tuple[int, int, DataBuffer]  # output, its place among those that the engine allocates, where it goes


@dataclass
class Given:
    """The buffers of one run, and what was said about them."""

    buffers: list[DataBuffer]
    descs: dict[int, TensorDesc]
    gear: int | None = None


class Ready:
    """A plan with what has to happen around it."""

    __slots__ = ("after", "before", "dims", "keep", "lock", "places", "plan", "reach")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.plan: Plan | None = None
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.reach: list[tuple[int, int, bool]] = []
        self.keep: list[object] = []
        self.dims: list[Shape | None] = []  # of the outputs, None where only the run tells
        self.places: tuple[list[Place], list[Place]] = ([], [])


class Binder:
    """Binds the buffers of a model's runs; `inputs` and `outputs` are the engine's names of the tensors.

    An input that the engine does not see (the shape input of gears) has no name.
    """

    def __init__(self, info: ModelInfo, context: Context) -> None:
        self.info = info
        self.context = context
        self.inputs = list(info.run.engine_inputs)
        self.outputs = list(info.run.engine_outputs)
        if len(self.outputs) != len(info.outputs) or len(self.inputs) != len(info.inputs):
            raise NpuError(
                codes.GE_EXEC_MODEL_DATA_SIZE_INVALID,
                "the model data are damaged: inputs and outputs do not fit the program",
                "convert the model again with atc",
            )
        self.ranged = any(tensor.ranges for tensor in info.inputs)
        self.open_outputs = any(_unknown(tensor.dims) for tensor in info.outputs)

    def bind(self, inputs: Given, outputs: Given, gear: int | None) -> Ready:
        """Everything of a run but the engine's plan, which the caller makes from the places."""
        self._check_counts(inputs, outputs)
        ready = Ready()
        taken = self._input_places(ready, inputs, gear)
        places, copies = self._output_places(ready, outputs, gear)
        ready.places = taken, places
        if copies:
            ready.after.append(lambda: self._collect(ready, copies))
        return ready

    def _memory(self) -> Memory:
        return process().memory

    def _check_counts(self, inputs: Given, outputs: Given) -> None:
        for side, offered, wanted in (("input", inputs, self.info.inputs), ("output", outputs, self.info.outputs)):
            count = len(offered.buffers)
            if self.ranged and side == "input" and count >= len(wanted):
                continue
            if count != len(wanted):
                code = codes.INVALID_PARAM if self.ranged else codes.GE_PARAM_INVALID
                names = ", ".join(tensor.name for tensor in wanted)
                raise NpuError(
                    code,
                    f"the {side} dataset has {count} buffers, the model has {len(wanted)} {side}s ({names})",
                    "add one buffer for each",
                )

    def _input_shapes(self, inputs: Given, gear: int | None) -> list[Shape]:
        if gear is not None:
            return self.gear_shapes(gear)
        shapes = []
        for index, info in enumerate(self.info.inputs):
            desc = inputs.descs.get(index)
            if self._aipp(index) == STATIC:  # the memory of the picture, which is not what get_input_dims shows
                shapes.append(self._source(index, info, desc))
                continue
            if info.ranges and _unknown(info.dims):
                if desc is None:
                    raise _no_dims(index, info)
                shapes.append(_in_range(index, info, tuple(desc.dims)))
            else:
                if desc is not None and self.ranged and tuple(desc.dims) != tuple(info.dims):
                    shapes.append(_in_range(index, info, tuple(desc.dims)))
                    continue
                shapes.append(tuple(info.dims))
        return shapes

    def gear_shapes(self, gear: int) -> list[Shape]:
        """The dims of every input under a gear; the added inputs have their own."""
        flat = list(self.info.gear_inputs[gear])
        shapes: list[Shape] = []
        for index, (info, name) in enumerate(zip(self.info.inputs, self.inputs, strict=True)):
            if name is None or self._aipp(index) == PARAMETERS:
                shapes.append(tuple(info.dims))
            else:
                count = len(info.dims)
                shapes.append(tuple(flat[:count]))
                del flat[:count]
        return shapes

    def _input_places(self, ready: Ready, inputs: Given, gear: int | None) -> list[Place]:
        """Where the inputs that the engine knows are read from."""
        shapes = self._input_shapes(inputs, gear)
        taken = []
        for index, (info, name) in enumerate(zip(self.info.inputs, self.inputs, strict=True)):
            if name is None:
                continue
            buffer = inputs.buffers[index]
            kind = self._aipp(index)
            if kind == PARAMETERS:
                self._need_parameters(ready, info, buffer)
            if kind == PICTURE:
                shape, address = self._picture(ready, index, info, buffer)
            elif kind == PARAMETERS and self.info.gear_kind == "batch" and gear is not None:
                shape, address = self._parameters(ready, info, buffer, self.info.gears[gear][0])
            else:
                shape = shapes[index]
                address = self._input(ready, index, info, shape, buffer)
            taken.append(Place(name, info.dtype, shape, address))
        return taken

    def _input(self, ready: Ready, index: int, info: TensorInfo, shape: Shape, buffer: DataBuffer) -> int:
        """The address an input is read from: the buffer itself, or a copy when the buffer is a little short."""
        need = _bytes(info.dtype, shape)
        if not need:
            return 0
        if not buffer.address:
            raise NpuError(
                codes.INVALID_PARAM,
                f"input {index} ({info.name}) has no memory, its data buffer holds a null pointer",
                "allocate it with acl.rt.malloc",
            )
        if buffer.size >= need:
            self._memory().reach(buffer.address, need, False)
            ready.reach.append((buffer.address, need, False))
            return buffer.address
        if need - buffer.size > TOLERANCE or self.ranged or self.info.gears:
            raise _short("input", index, info, need, buffer.size)
        return self._padded(ready, buffer, need)

    def _source(self, index: int, info: TensorInfo, desc: TensorDesc | None) -> Shape:
        """The memory of a picture with static AIPP; where a range leaves its size open, the description says it as NHWC."""
        if not _unknown(info.dims_v2):
            return tuple(info.dims_v2)
        if desc is None or len(desc.dims) != 4:
            raise _no_dims(index, info)
        code = int(self.info.run.aipp[info.name].info["inputFormat"])
        return _in_range(index, info, FORMATS[code].memory_dims(*desc.dims[:3]))

    def _aipp(self, index: int) -> int:
        """aclmdlInputAippType of an input."""
        return self.info.run.aipp_type(self.info.inputs[index].name)

    def _picture(self, ready: Ready, index: int, info: TensorInfo, buffer: DataBuffer) -> tuple[Shape, int]:
        """The picture of dynamic AIPP: as many bytes as the program gave; the parameters say how they are read."""
        if not buffer.address or not buffer.size:
            raise NpuError(
                codes.INVALID_PARAM, f"input {index} ({info.name}) has no memory", "allocate it with acl.rt.malloc"
            )
        self._memory().reach(buffer.address, buffer.size, False)
        ready.reach.append((buffer.address, buffer.size, False))
        return (buffer.size,), buffer.address

    def _need_parameters(self, ready: Ready, info: TensorInfo, buffer: DataBuffer) -> None:
        """Before each run: the block of dynamic AIPP must have been written."""
        if not buffer.address or buffer.size <= aipp_block.BATCH_PLACE:
            return  # told by the check of its size
        head = self._memory().view(buffer.address, (aipp_block.BATCH_PLACE + 1,), np.dtype(np.uint8))

        def check() -> None:
            if not head[aipp_block.BATCH_PLACE]:
                raise NpuError(
                    codes.GE_AIPP_BATCH_EMPTY,
                    f"the AIPP parameters in the input {info.name} were never set",
                    "call acl.mdl.set_input_aipp (or set_aipp_by_input_index) before the model runs",
                )

        ready.before.append(check)

    def _parameters(self, ready: Ready, info: TensorInfo, buffer: DataBuffer, batch: int) -> tuple[Shape, int]:
        """The parameters of dynamic AIPP for the pictures of a batch gear, out of those for the largest."""
        size = aipp_block.block_bytes(batch)
        if not buffer.address or buffer.size < size:
            raise NpuError(
                codes.GE_DYNAMIC_INPUT_LENGTH_INVALID,
                f"the input {info.name} needs {info.size} bytes, its buffer has {buffer.size}",
                "allocate acl.mdl.get_input_size_by_index bytes for it",
            )
        source = self._memory().view(buffer.address, (size,), np.dtype(np.uint8))
        ready.reach.append((buffer.address, size, False))
        room = np.zeros(size, np.uint8)

        def copy() -> None:
            room[:] = source
            room[aipp_block.BATCH_PLACE] = min(int(room[aipp_block.BATCH_PLACE]), batch)

        ready.before.append(copy)
        ready.keep.append(room)
        return (size,), int(room.ctypes.data)

    def _padded(self, ready: Ready, buffer: DataBuffer, need: int) -> int:
        memory = self._memory()
        memory.reach(buffer.address, buffer.size, False)
        ready.reach.append((buffer.address, buffer.size, False))
        room = np.zeros(need, np.uint8)
        source = memory.view(buffer.address, (buffer.size,), np.dtype(np.uint8))

        def copy() -> None:
            room[: len(source)] = source

        ready.before.append(copy)
        ready.keep.append(room)
        return int(room.ctypes.data)

    def _output_places(self, ready: Ready, outputs: Given, gear: int | None) -> tuple[list[Place], list[Copy]]:
        """Where outputs go, and those that are copied after the run."""
        places: list[Place] = []
        copies: list[Copy] = []
        seen: dict[str, int] = {}  # the engine binds a tensor once, also where it is several outputs
        for index, (info, name) in enumerate(zip(self.info.outputs, self.outputs, strict=True)):
            buffer = outputs.buffers[index]
            shape = self._output_shape(index, gear)
            ready.dims.append(shape)
            need = _bytes(info.dtype, shape) if shape is not None else None
            direct = need is not None and self._direct(index, info, need, buffer)
            if need is not None and direct and self.outputs.count(name) == 1:
                self._memory().reach(buffer.address, need, True)
                ready.reach.append((buffer.address, need, True))
                places.append(Place(name, info.dtype, shape, buffer.address))
                continue
            if name not in seen:
                seen[name] = len(seen)
                places.append(Place(name, info.dtype, None, 0))
            copies.append((index, seen[name], _as_now(buffer)))
        return places, copies

    def _output_shape(self, index: int, gear: int | None) -> Shape | None:
        if gear is not None and self.info.gear_outputs:
            shape = tuple(self.info.gear_outputs[gear][index])
        else:
            shape = tuple(self.info.outputs[index].dims)
        return None if _unknown(shape) else shape

    def _direct(self, index: int, info: TensorInfo, need: int, buffer: DataBuffer) -> bool:
        """Whether the engine can write into the buffer itself."""
        if not need:
            return False
        if not buffer.address and not buffer.size:
            self._allocate(buffer, need)
            return True
        if not buffer.address:
            raise NpuError(
                codes.INVALID_PARAM,
                f"output {index} ({info.name}) has no memory, its data buffer holds a null pointer of {buffer.size} bytes",
                "allocate it with acl.rt.malloc, or pass address 0 and size 0 to have it allocated",
            )
        if buffer.size >= need:
            return True
        if need - buffer.size > TOLERANCE:
            raise _short("output", index, info, need, buffer.size)
        return False

    def _allocate(self, buffer: DataBuffer, need: int) -> None:
        buffer.address = self._memory().allocate(self.context.device, need, 0)
        buffer.size = need

    def _collect(self, ready: Ready, copies: list[Copy]) -> None:
        """Copy what the engine allocated to where the program wants it."""
        assert ready.plan is not None
        results = ready.plan.results()
        memory = self._memory()
        for index, position, buffer in copies:
            info = self.info.outputs[index]
            dtype, shape, address, _keep = results[position]
            size = _bytes(dtype, shape)
            ready.dims[index] = shape
            if not size:
                continue
            if not buffer.address and not buffer.size:
                self._allocate(buffer, size)
            if buffer.size < size and (size - buffer.size > TOLERANCE or self.ranged or self.open_outputs):
                raise _short("output", index, info, size, buffer.size)
            count = min(size, buffer.size)
            memory.reach(buffer.address, count, True)
            memory.backend.copy(buffer.address, address, count)


def _unknown(dims: Sequence[int]) -> bool:
    return any(dim < 0 for dim in dims)


def _as_now(buffer: DataBuffer) -> DataBuffer:
    """What a buffer says now, since the program may give it other memory before the plan runs again.

    The empty one is left as it is: the run puts address and size into it.
    """
    return DataBuffer(buffer.address, buffer.size) if buffer.address or buffer.size else buffer


def _bytes(dtype: int, shape: Shape) -> int:
    return math.prod(shape) * element_size(dtype)


def _no_dims(index: int, info: TensorInfo) -> NpuError:
    return NpuError(
        codes.INVALID_PARAM,
        f"input {index} ({info.name}) has the dims {info.dims}; the run needs to know the real ones",
        "call acl.mdl.set_dataset_tensor_desc(dataset, desc, index) with the shape of this run",
    )


def _in_range(index: int, info: TensorInfo, dims: Shape) -> Shape:
    if list(info.dims) == [-2] and all(dim >= 0 for dim in dims):  # any rank
        return dims
    fits = len(dims) == len(info.dims) and all(
        dim >= 0 and low <= dim and (high < 0 or dim <= high)
        for dim, (low, high) in zip(dims, info.ranges or [(dim, dim) for dim in info.dims], strict=False)
    )
    if not fits:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the dims {list(dims)} of input {index} ({info.name}) are outside of what the model was built for: {[list(pair) for pair in info.ranges] or info.dims}",
            "use dims inside the range, or convert the model with a wider one",
        )
    return dims


def _short(side: str, index: int, info: TensorInfo, need: int, size: int) -> NpuError:
    hint = f"; acl.mdl.get_{side}_size_by_index tells the size" if info.size else ""
    return NpuError(
        codes.GE_PARAM_INVALID,
        f"{side} {index} ({info.name}) needs {need} bytes, its data buffer has {size}",
        f"allocate at least {need} bytes{hint}",
    )
