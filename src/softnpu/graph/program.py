"""The program of an `.om`: ONNX operators that an engine runs, large weights named by their place in the weight partition.

It stands in the kernel partition as items `softnpu.onnx.<n>`, so that loading builds nothing anew.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from softnpu.base.dtypes import DType, to_onnx
from softnpu.graph.inout import damaged
from softnpu.graph.ir import Constant
from softnpu.graph.onnx_def import GRAPH, RAW_MODEL, TENSOR, tensor_bytes
from softnpu.graph.wire import decode, encode, sized_field

ALIGN = 64
INLINE_BYTES = 1024  # smaller constants stand in the program itself
KERNEL_MAGIC = 0x5D776EFD
PROGRAM = "softnpu.onnx"
WEIGHTS = "softnpu.weights"


@dataclass
class Weights:
    """The weight partition as pieces, and where each constant stands in it."""

    pieces: list[bytes | memoryview] = field(default_factory=list)
    size: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def add(self, constant: Constant) -> int:
        """Put a constant in; the same constant is stored once."""
        offset = self.places.get(id(constant))
        if offset is None:
            gap = -self.size % ALIGN
            if gap:
                self.pieces.append(bytes(gap))
            offset = self.places[id(constant)] = self.size + gap
            self.pieces.append(constant.data)
            self.size = offset + len(constant.data)
        return offset


@dataclass
class Program:
    """The lowered graph: ONNX operators, what goes in and out, and its constants by name."""

    nodes: list[dict[str, Any]]
    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    constants: dict[str, Constant]
    opsets: dict[str, int]
    functions: list[dict[str, Any]]
    ir_version: int
    name: str = ""


def program_bytes(program: Program, weights: Weights) -> bytes:
    small, large = [], []
    for name, constant in program.constants.items():
        if constant.dtype == DType.STRING:
            small.append({**decode(TENSOR, constant.data), "name": name})
        elif len(constant.data) <= INLINE_BYTES or constant.dtype >= 1000:
            small.append(
                {
                    "dims": list(constant.shape),
                    "data_type": to_onnx(constant.dtype),
                    "name": name,
                    "raw_data": constant.data,
                }
            )
        else:
            offset = weights.add(constant)
            large.append([name, to_onnx(constant.dtype), list(constant.shape), offset, len(constant.data)])
    graph = encode(
        GRAPH,
        {
            "node": program.nodes,
            "name": program.name or "graph",
            "initializer": small,
            "input": program.inputs,
            "output": program.outputs,
        },
    )
    opsets = [{"domain": domain, "version": version} for domain, version in program.opsets.items()]
    model = encode(
        RAW_MODEL,
        {
            "ir_version": program.ir_version,
            "producer_name": "softnpu",
            "opset_import": opsets,
            "functions": program.functions,
        },
    )
    table = json.dumps(large, separators=(",", ":")).encode()
    return struct.pack("<QQQ", len(model), len(graph), len(table)) + model + graph + table


def kernel_item(name: str, binary: bytes) -> list[bytes]:
    """One item of the kernel store."""
    label = name.encode()
    return [struct.pack("<III", KERNEL_MAGIC, len(label), len(binary)), label, binary]


class StoredWeight(NamedTuple):
    """A large weight, which lies outside of the messages."""

    name: str
    onnx_type: int
    dims: list[int]
    offset: int  # in the partition of the weights
    size: int  # bytes


@dataclass
class StoredProgram:
    """A program as it stands in the file: ONNX messages, and the weights that lie outside of them."""

    model: memoryview  # ModelProto without its graph
    graph: memoryview  # GraphProto without its large weights
    weights: list[StoredWeight]

    def onnx(self, location: str, base: int) -> bytes:
        """The whole ModelProto, its large weights named as places of a file."""
        parts: list[bytes | memoryview] = [self.graph]
        for name, dtype, dims, offset, size in self.weights:
            fields = [
                {"key": "location", "value": location},
                {"key": "offset", "value": str(base + offset)},
                {"key": "length", "value": str(size)},
            ]
            message = encode(
                TENSOR, {"dims": dims, "data_type": dtype, "name": name, "external_data": fields, "data_location": 1}
            )
            parts.append(sized_field(5, message))
        graph = b"".join(parts)
        return bytes(self.model) + sized_field(7, graph)

    def onnx_inline(self, weights: memoryview) -> bytes:
        """The whole ModelProto with its weights in it."""
        parts: list[bytes | memoryview] = [self.graph]
        for name, dtype, dims, offset, size in self.weights:
            parts.append(
                sized_field(
                    5,
                    encode(
                        TENSOR,
                        {"dims": dims, "data_type": dtype, "name": name, "raw_data": weights[offset : offset + size]},
                    ),
                )
            )
        return bytes(self.model) + sized_field(7, b"".join(parts))


def check_weights(rows: Iterable[StoredWeight], available: int) -> None:
    """Raise unless every weight lies inside the partition and has the size its dims say."""
    for name, dtype, dims, offset, size in rows:
        try:
            wanted = tensor_bytes({"dims": dims, "data_type": dtype})
        except ValueError as error:
            raise damaged(f"the weight {name!r} is impossible: {error}") from error
        if wanted != size or offset < 0 or offset + size > available:
            raise damaged(
                f"the weight {name!r} of {size} bytes at {offset} does not lie in the {available} bytes of weights"
            )


def stored(data: memoryview) -> StoredProgram:
    if len(data) < 24:
        raise damaged("its program is cut off")
    sizes = struct.unpack_from("<QQQ", data)
    if sum(sizes) != len(data) - 24:
        raise damaged("its program is cut off")
    model, graph = 24 + sizes[0], 24 + sizes[0] + sizes[1]
    try:
        table = json.loads(bytes(data[graph:]))
        rows = [
            StoredWeight(str(name), int(dtype), [int(dim) for dim in dims], int(offset), int(size))
            for name, dtype, dims, offset, size in table
        ]
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"the table of weights cannot be read ({error})") from error
    return StoredProgram(data[24:model], data[model:graph], rows)
