"""Output shapes of an operator from its descriptions (`acl.op.infer_shape`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.executor.single_op_match import OpAttr, describe

if TYPE_CHECKING:
    from softnpu.runtime.memory import Memory

_MOST_BYTES = 1 << 20  # inputs that decide about shapes are small; larger ones are data


def infer(
    memory: Memory,
    op_type: str,
    inputs: tuple[list[TensorDesc], list[DataBuffer]],
    outputs: list[TensorDesc],
    attr: OpAttr | None,
) -> None:
    """Write types and dims into the output descriptions; an unknown dim is -1 and has a range."""
    from softnpu.compiler.errors import AtcError
    from softnpu.compiler.singleop import infer as infer_outputs

    descs, buffers = inputs
    if buffers and len(buffers) != len(descs):
        raise NpuError(
            codes.INVALID_PARAM,
            f"{len(descs)} descriptions and {len(buffers)} buffers of inputs were given",
            "give one buffer for each description",
        )
    known = [_known(memory, desc, buffers[index] if buffers else None) for index, desc in enumerate(descs)]
    try:
        found = infer_outputs(describe(op_type, known, outputs, attr))
    except AtcError as error:
        code = codes.OP_NOT_FOUND if error.code == "E10501" else codes.INVALID_PARAM
        raise NpuError(code, f"the shapes of {op_type} cannot be told: {error.message}", error.solution) from error
    most = max((desc.elements() for desc in descs), default=0)
    for desc, (dtype, shape) in zip(outputs, found, strict=True):
        desc.data_type = dtype if dtype >= 0 else desc.data_type
        desc.dims = [-2] if shape is None else list(shape)
        desc.shape_range = [[dim, dim] if dim >= 0 else [0, most or -1] for dim in shape or ()]


def _known(memory: Memory, desc: TensorDesc, buffer: DataBuffer | None) -> TensorDesc:
    """The description with its content, where that is given and may decide about shapes."""
    size = desc.bytes()
    if buffer is None or not buffer.address or desc.constant is not None or not 0 < size <= _MOST_BYTES:
        return desc
    if buffer.size < size:
        raise NpuError(
            codes.INVALID_PARAM,
            f"a tensor of {math.prod(desc.dims)} elements needs {size} bytes, its buffer has {buffer.size}",
            f"pass {size} bytes of host memory",
        )
    copy = desc.copy()
    copy.constant = memory.read(buffer.address, size)
    return copy
