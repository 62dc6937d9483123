"""Inputs and outputs as programs see them, and the partition that describes them (MODEL_INOUT_INFO)."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any

from softnpu.base.errors import NpuError, codes

# Records of the partition.
INPUTS, OUTPUTS, BATCHES, RESOLUTIONS, DIMS, GEAR_OUTPUTS = range(6)
SHAPE_INPUT = "ascend_mbatch_shape_data"  # the input that takes the gear of a run


@dataclass
class TensorInfo:
    """An input or output as programs see it."""

    name: str
    dtype: int
    format: int
    dims: list[int]
    size: int  # bytes, of the largest gear; 0 for a shape range
    dims_v2: list[int] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    real_name: str = ""


@dataclass
class AippEntry:
    """What running needs to know of the AIPP of an input. The fields behind `info` are those of a picture of dynamic AIPP."""

    type: int  # aclmdlInputAippType
    info: dict[str, Any] = field(default_factory=dict)  # static AIPP: the answer of get_first_aipp_info
    block: str = ""  # the input that takes its parameters
    feature: str = ""
    dtype: int = 0
    format: int = 0
    shape: list[int] = field(default_factory=list)
    max_src_image_size: int = 0


@dataclass
class RunInfo:
    """What the engines need to know beside their programs."""

    aipp: dict[str, AippEntry] = field(default_factory=dict)  # by the name of an input
    engine_inputs: list[str | None] = field(default_factory=list)  # None for an input that the engine does not see
    exact_casts: bool = False  # roundings of a precision mode must not be left out
    status_check: bool = False
    engine_outputs: list[str] = field(default_factory=list)
    largest_gear: int = 0
    single_op: Any = None  # the key of a model of one operator; whoever uses it checks it (executor/single_op)
    steps: list[dict[str, Any]] = field(default_factory=list)  # turns of the engine and of operators beside it

    def aipp_type(self, name: str) -> int:
        """aclmdlInputAippType of the input of this name."""
        entry = self.aipp.get(name)
        return entry.type if entry is not None else 0


@dataclass
class ModelInfo:
    """What a program can ask about a model, and what running it needs beside the operators."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    gears: list[list[int]] = field(default_factory=list)
    gear_kind: str = ""  # "batch", "hw", "dims" or none
    gear_outputs: list[list[list[int]]] = field(default_factory=list)  # per gear the dims of every output
    gear_inputs: list[list[int]] = field(default_factory=list)  # per gear the dims of all inputs, one behind the other
    run: RunInfo = field(default_factory=RunInfo)
    memory_size: int = 0
    weight_size: int = 0


def damaged(what: str) -> NpuError:
    """The error of a file that is not what it should be."""
    return NpuError(
        codes.GE_EXEC_MODEL_DATA_SIZE_INVALID, f"the model data are damaged: {what}", "convert the model again with atc"
    )


# ---- writing -----------------------------------------------------------------------------------------------------------


def _record(kind: int, value: bytes) -> bytes:
    return struct.pack("<II", kind, len(value)) + value


def inout_bytes(info: ModelInfo) -> bytes:
    parts = [_record(INPUTS, _descriptions(info.inputs)), _record(OUTPUTS, _descriptions(info.outputs))]
    if info.gear_kind == "batch":
        flat = [gear[0] for gear in info.gears]
        parts.append(_record(BATCHES, struct.pack(f"<I{len(flat)}Q", len(flat), *flat)))
    elif info.gear_kind:
        lengths = [len(gear) for gear in info.gears]
        flat = [number for gear in info.gears for number in gear]
        value = struct.pack(f"<I{len(lengths)}I{len(flat)}Q", len(lengths), *lengths, *flat)
        parts.append(_record(RESOLUTIONS if info.gear_kind == "hw" else DIMS, value))
    if info.gear_outputs:
        words = [json.dumps(outputs, separators=(",", ":")).encode() for outputs in info.gear_outputs]
        parts.append(
            _record(GEAR_OUTPUTS, struct.pack(f"<I{len(words)}I", len(words), *map(len, words)) + b"".join(words))
        )
    return b"".join(parts)


def _descriptions(tensors: list[TensorInfo]) -> bytes:
    parts = [struct.pack("<I", len(tensors))]
    for tensor in tensors:
        name = tensor.name.encode()
        pairs = [bound for pair in tensor.ranges for bound in pair]
        parts.append(
            struct.pack(
                "<QiiIIII",
                tensor.size,
                tensor.format,
                tensor.dtype,
                len(name),
                8 * len(tensor.dims),
                8 * len(tensor.dims_v2),
                8 * len(pairs),
            )
        )
        parts.append(name)
        parts.append(
            struct.pack(
                f"<{len(tensor.dims) + len(tensor.dims_v2) + len(pairs)}q", *tensor.dims, *tensor.dims_v2, *pairs
            )
        )
    return b"".join(parts)


# ---- reading -----------------------------------------------------------------------------------------------------------


class Cursor:
    """Reads the records one after the other and never past their end."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[Any, ...]:
        size = struct.calcsize("<" + form)
        if size > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += size
        return values

    def bytes(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, length: int, letter: str = "q") -> list[int]:
        width = struct.calcsize("<" + letter)
        if length % width or length > len(self.data) - self.at:
            raise damaged("the description of inputs and outputs is cut off")
        return list(self.take(f"{length // width}{letter}"))


def read_descriptions(data: memoryview) -> list[TensorInfo]:
    cursor = Cursor(data)
    (count,) = cursor.take("I")
    if count > len(data) // 32:
        raise damaged(f"it claims {count} inputs or outputs")
    tensors = []
    for _ in range(count):
        size, form, dtype, name_length, dims_length, v2_length, range_length = cursor.take("QiiIIII")
        name = str(cursor.bytes(name_length), "utf-8", "replace")
        dims, v2, flat = cursor.numbers(dims_length), cursor.numbers(v2_length), cursor.numbers(range_length)
        pairs = list(zip(flat[::2], flat[1::2], strict=False))
        if any(dim < -2 for dim in dims):
            raise damaged(f"the dims {dims} of {name!r} are impossible")
        tensors.append(TensorInfo(name, dtype, form, dims, size, v2, pairs, name))
    return tensors
