"""One run of a single operator on a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.engines.base import Shape
from softnpu.executor.model import Given, Model
from softnpu.runtime.streams.event import Mark

if TYPE_CHECKING:
    from softnpu.runtime.process import Process
    from softnpu.runtime.streams.stream import Stream

_POLL_SECONDS = 0.05
Tensors = tuple[list[TensorDesc], list[DataBuffer]]


class Run:
    """An operator with its buffers; what can be checked is checked when it is submitted."""

    def __init__(
        self, process: Process, op_type: str, model: Model, kept: list[int], inputs: Tensors, outputs: Tensors
    ) -> None:
        self.process, self.op_type, self.model = process, op_type, model
        self.outputs = outputs[0]
        _check("input", op_type, [(inputs[0][i], inputs[1][i], i) for i in kept])
        if not model.open_outputs:
            _check(
                "output", op_type, [(desc, buffer, i) for i, (desc, buffer) in enumerate(zip(*outputs, strict=True))]
            )
        taken = [DataBuffer(inputs[1][i].address, inputs[1][i].size) for i in kept]
        self._targets = [DataBuffer(buffer.address, buffer.size) for buffer in outputs[1]]
        self._rooms = self._detour(taken)
        results = self._rooms_or_targets()
        descs = {position: inputs[0][i] for position, i in enumerate(kept)} if model.ranged else {}
        self._ready = model.prepare(Given(taken, descs), Given(results, {}))

    def _detour(self, taken: list[DataBuffer]) -> list[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
        """Memory for the outputs when one of them lies over an input: the engine reads inputs while it writes outputs."""
        if self.op_type == "GEMM":  # C is read completely before the last step writes it
            return []
        overlap = any(_overlap(buffer, other) for buffer in taken for other in self._targets)
        return [np.empty(max(buffer.size, 1), np.uint8) for buffer in self._targets] if overlap else []

    def _rooms_or_targets(self) -> list[DataBuffer]:
        if not self._rooms:
            return self._targets
        for target in self._targets:
            self.process.memory.reach(target.address, target.size, True)
        return [
            DataBuffer(int(room.ctypes.data), target.size)
            for room, target in zip(self._rooms, self._targets, strict=True)
        ]

    def submit(self, stream: Stream) -> None:
        """Queue the run. Where only the run tells the dims of the outputs, wait for it: the program reads them next."""
        dynamic = self.model.open_outputs or self.model.ranged
        if not dynamic:
            stream.submit(self._work, self.op_type, inline=True, detail={"op": self.op_type})
            return
        stream.refuse_inside()
        mark = Mark()
        stream.submit(self._work, self.op_type, inline=True, mark=mark, detail={"op": self.op_type})
        while not mark.wait(_POLL_SECONDS):
            pass

    def _work(self) -> None:
        dims = self.model.run(self._ready)
        for room, target in zip(self._rooms, self._targets, strict=False):
            self.process.memory.backend.copy(target.address, int(room.ctypes.data), target.size)
        if self.model.open_outputs or self.model.ranged:
            self._tell(dims)

    def _tell(self, dims: list[Shape]) -> None:
        """Leave the real dims in the descriptions of the program."""
        for desc, shape in zip(self.outputs, dims, strict=True):
            if desc.storage_dims is None:
                desc.dims = list(shape)


def _check(side: str, op_type: str, rows: list[tuple[TensorDesc, DataBuffer, int]]) -> None:
    for desc, buffer, index in rows:
        need = desc.bytes()
        if need and not buffer.address:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{side} {index} of {op_type} has no memory, its data buffer holds a null pointer",
                "allocate it with acl.rt.malloc",
            )
        if need > buffer.size and desc.storage_dims is None:
            raise NpuError(
                codes.INVALID_PARAM,
                f"{side} {index} of {op_type} needs {need} bytes, its data buffer has {buffer.size}",
                f"allocate {need} bytes; acl.get_tensor_desc_size tells the size",
            )


def _overlap(one: DataBuffer, other: DataBuffer) -> bool:
    return (
        bool(one.size and other.size)
        and one.address < other.address + other.size
        and other.address < one.address + one.size
    )
