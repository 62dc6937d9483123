"""Helpers of the tests of single operators: arrays on the device, descriptions, models made by atc."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import acl
from softnpu.base.dtypes import from_numpy
from softnpu.compiler.options.rows import Options
from softnpu.compiler.single_op.build import build_single_ops
from tests.support import ok

Array = np.ndarray[Any, Any]
ND = 2


class Tensor:
    """An array in device memory with its description and buffer."""

    def __init__(self, array: Array, form: int = ND, dims: list[int] | None = None) -> None:
        self.dtype, self.shape = array.dtype, array.shape
        self.size = array.nbytes
        self.address: int = ok(acl.rt.malloc(max(self.size, 1), 2))
        if self.size:
            acl_bytes = array.tobytes()
            ok(acl.rt.memcpy(self.address, self.size, acl.util.bytes_to_ptr(acl_bytes), self.size, 1))
        self.desc: int = acl.create_tensor_desc(
            from_numpy(array.dtype.name), list(array.shape) if dims is None else dims, form
        )
        self.buffer: int = acl.create_data_buffer(self.address, self.size)

    def array(self, shape: tuple[int, ...] | None = None) -> Array:
        """What the memory holds now."""
        wanted = self.shape if shape is None else shape
        count = int(np.prod(wanted)) * self.dtype.itemsize
        return np.frombuffer(acl.util.ptr_to_bytes(self.address, count), self.dtype).reshape(wanted)


def empty(dtype: Any, *shape: int) -> Tensor:
    """Room for a result, filled with something that no result here is."""
    return Tensor(np.full(shape, 77, dtype))


def execute(op_type: str, inputs: list[Tensor], outputs: list[Tensor], attr: int = 0, stream: int = 0) -> int:
    """acl.op.execute_v2 over tensors; the code."""
    code: int = acl.op.execute_v2(
        op_type,
        [tensor.desc for tensor in inputs],
        [tensor.buffer for tensor in inputs],
        [tensor.desc for tensor in outputs],
        [tensor.buffer for tensor in outputs],
        attr,
        stream,
    )
    return code


def row(op: str, inputs: list[Any], outputs: list[Any], attrs: list[Any] | None = None) -> dict[str, Any]:
    """An element of a single-operator file; tensors are (type, shape)."""
    sides = [[{"format": "ND", "type": word, "shape": shape} for word, shape in side] for side in (inputs, outputs)]
    return {"op": op, "input_desc": sides[0], "output_desc": sides[1], "attr": attrs or []}


def compile_ops(folder: Path, rows: list[dict[str, Any]]) -> list[Path]:
    """Models of single operators in a folder, as atc writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "ops.json"
    source.write_text(json.dumps(rows))
    return build_single_ops(
        Options({"singleop": str(source), "output": str(folder), "soc_version": "Ascend910B3"})
    ).files
