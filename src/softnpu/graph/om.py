"""Reading an `.om`: everything is a view of the mapped file until somebody needs it."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.errors import NpuError, codes
from softnpu.graph import container, digest, inout, runtime_info
from softnpu.graph.attrs import attr_value
from softnpu.graph.inout import Cursor, ModelInfo, TensorInfo, damaged, read_descriptions
from softnpu.graph.model_def import MODEL
from softnpu.graph.program import (
    KERNEL_MAGIC,
    PROGRAM,
    WEIGHTS,
    Program,
    StoredProgram,
    Weights,
    check_weights,
    stored,
)
from softnpu.graph.wire import Message, WireError, decode

__all__ = [
    "WEIGHTS", "ModelInfo", "Om", "Program", "StoredProgram", "TensorInfo", "Weights", "attr_value", "check_weights", "damaged",
]  # fmt: skip
HEAD = Message("ModelDef").add(
    name=(1, "string"), version=(2, "uint32"), attr=(11, "map", MODEL.by_name["attr"].message)
)


class Om:
    """An open `.om`. Parts are read when asked for."""

    def __init__(self, data: bytes | bytearray | memoryview, path: Path | None = None) -> None:
        self.data = memoryview(data).cast("B")
        self.path = path
        self.header, self.partitions = container.read(self.data)
        self.weights_digest = digest.check(self.partitions)

    @classmethod
    def open(cls, path: Path) -> Om:
        """Map a file; a missing, unreadable or empty one is code 145002."""
        if os.path.isdir(path):
            raise NpuError(
                codes.GE_EXEC_MODEL_PATH_INVALID,
                f"the model file {str(path)!r} is a folder",
                "check the path; atc writes <output>.om",
            )
        try:
            with open(path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is empty"
            raise NpuError(
                codes.GE_EXEC_MODEL_PATH_INVALID,
                f"the model file {str(path)!r} cannot be read: {reason}",
                "check the path; atc writes <output>.om",
            ) from error
        return cls(memoryview(mapped), path)

    @classmethod
    def copy_of(cls, read: Callable[[int], bytes], size: int) -> Om:
        """A model in memory of a program, copied once its header says that it is one of this size; `read(n)` gives the first
        n bytes."""
        container.read_header(memoryview(read(min(size, container.HEADER_BYTES))), size)
        return cls(read(size))

    @staticmethod
    def map(path: Path) -> memoryview:
        """The bytes of a weight file beside a model."""
        try:
            with open(path, "rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError) as error:
            raise NpuError(
                codes.GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED,
                f"the weight file {str(path)!r} of the model cannot be read",
                "keep the folder weight/ beside the .om",
            ) from error

    @staticmethod
    def let_go(view: memoryview) -> None:
        """Give back the memory that reading a mapped file has taken; what is touched again is read again."""
        if isinstance(view.obj, mmap.mmap):
            view.obj.madvise(mmap.MADV_DONTNEED)

    def head(self) -> dict[str, Any]:
        """Name and attributes of the model, without its graph."""
        try:
            model = decode(HEAD, self.partitions[container.MODEL_DEF])
        except WireError as error:
            raise damaged(f"the model partition cannot be read ({error})") from error
        return {"name": model.get("name", ""), **{key: attr_value(attr) for key, attr in model.get("attr", {}).items()}}

    def model_def(self) -> dict[str, Any]:
        """The whole ModelDef, decoded."""
        try:
            return decode(MODEL, self.partitions[container.MODEL_DEF])
        except WireError as error:
            raise damaged(f"the model partition cannot be read ({error})") from error

    def info(self) -> ModelInfo:
        """Inputs, outputs, gears and what running needs."""
        if container.MODEL_INOUT_INFO not in self.partitions:
            raise damaged("there is no description of inputs and outputs; it was not written by this atc")
        cursor = Cursor(self.partitions[container.MODEL_INOUT_INFO])
        info = ModelInfo([], [])
        while cursor.at < len(cursor.data):
            kind, length = cursor.take("II")
            self._take_record(info, kind, cursor.bytes(length))
        head = self.head()
        info.memory_size, info.weight_size = _count(head.get("memory_size")), _count(head.get("weight_size"))
        runtime_info.read(head.get("softnpu", "{}"), info)
        return info

    def _take_record(self, info: ModelInfo, kind: int, data: memoryview) -> None:
        cursor = Cursor(data)
        if kind == inout.INPUTS:
            info.inputs = read_descriptions(data)
        elif kind == inout.OUTPUTS:
            info.outputs = read_descriptions(data)
        elif kind == inout.BATCHES:
            (count,) = cursor.take("I")
            info.gear_kind = "batch"
            info.gears = [[batch] for batch in cursor.numbers(8 * count, "Q")]
        elif kind in (inout.RESOLUTIONS, inout.DIMS):
            (count,) = cursor.take("I")
            info.gear_kind = "hw" if kind == inout.RESOLUTIONS else "dims"
            info.gears = [cursor.numbers(8 * length, "Q") for length in cursor.numbers(4 * count, "I")]

    def kernels(self) -> dict[str, memoryview]:
        """The items of the kernel store."""
        data = self.partitions.get(container.TBE_KERNELS, memoryview(b""))
        kernels: dict[str, memoryview] = {}
        at = 0
        while at < len(data):
            if len(data) - at < 12:
                raise damaged("the kernel store is cut off")
            magic, name_length, size = struct.unpack_from("<III", data, at)
            at += 12
            if magic != KERNEL_MAGIC or name_length + size > len(data) - at:
                raise damaged("the kernel store is cut off")
            name = str(data[at : at + name_length], "utf-8", "replace")
            kernels[name] = data[at + name_length : at + name_length + size]
            at += name_length + size
        return kernels

    def weights(self) -> memoryview:
        """The weight partition."""
        return self.partitions.get(container.WEIGHTS_DATA, memoryview(b""))

    def weights_offset(self) -> int:
        """Where the weight partition begins in the file."""
        first = self.partitions.get(container.WEIGHTS_DATA)
        if first is None or not len(first):
            return 0
        return _address(first) - _address(self.data)

    def weights_place(self) -> tuple[Path, str, int]:
        """The file that holds the weights of a model that was read from one: folder, name, offset in it."""
        assert self.path is not None
        name = self._weight_file()
        path = self.path.resolve()
        if not name:
            return path.parent, path.name, self.weights_offset()
        return path.parent / "weight", name, 0

    def _weight_file(self) -> str:
        """The name of the file beside the model that holds its weights; "" when they are inside."""
        name = self.head().get("softnpu_weight_file", "")
        if not isinstance(name, str) or "/" in name or name in (".", "..") or "\0" in name:
            raise damaged(f"it names the impossible weight file {name!r}")
        return name

    def all_weights(self) -> memoryview:
        """The weights, wherever they are."""
        name = self._weight_file()
        if not name:
            return self.weights()
        if self.path is None:
            raise NpuError(
                codes.GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED,
                f"the weights of the model are in the file {name!r} beside it, which a model in memory cannot find",
                "load it with acl.mdl.load_from_file",
            )
        folder, name, _ = self.weights_place()
        return Om.map(folder / name)

    def programs(self) -> list[StoredProgram]:
        """What the engines run."""
        kernels = self.kernels()
        programs: list[StoredProgram] = []
        while (data := kernels.get(f"{PROGRAM}.{len(programs)}")) is not None:
            programs.append(stored(data))
        if not programs and not self.info().run.steps:
            raise NpuError(
                codes.GE_EXEC_LOAD_KERNEL_PARTITION_FAILED,
                "the model holds no program that this machine can run",
                "models that a real atc compiled hold NPU kernels; convert the original model again with softnpu's atc",
            )
        return programs


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0])
