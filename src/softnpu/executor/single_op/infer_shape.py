"""Output shapes of an operator from its descriptions (`acl.op.infer_shape`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import DataBuffer, TensorDesc
from softnpu.compiler.errors import AtcError
from softnpu.executor.engines.base import Shape
from softnpu.executor.single_op.match import OpAttr, describe

if TYPE_CHECKING:
    from softnpu.runtime.memory.memory import Memory

_LOW, _HIGH = 1, (1 << 20, 3 << 19)  # two sizes for what is unbounded: what follows from them differs
_CHOOSING = frozenset({"NonZero", "Where", "UniqueWithCountsAndSorting", "NonMaxSuppressionV3", "NonMaxSuppressionV6"})
_MANY = 256  # more outputs than an operator has
_MOST_BYTES = 1 << 20  # inputs that decide about shapes are small; larger ones are data


def infer(
    memory: Memory,
    op_type: str,
    inputs: tuple[list[TensorDesc], list[DataBuffer]],
    outputs: list[TensorDesc],
    attr: OpAttr | None,
) -> None:
    """Write types and dims into the output descriptions; an unknown dim is -1 and has a range."""
    from softnpu.compiler.single_op.graph import infer as infer_outputs  # the compiler: few programs ask for shapes

    descs, buffers = inputs
    if buffers and len(buffers) != len(descs):
        raise NpuError(
            codes.INVALID_PARAM,
            f"{len(descs)} descriptions and {len(buffers)} buffers of inputs were given",
            "give one buffer for each description",
        )
    known = [_known(memory, desc, buffers[index] if buffers else None) for index, desc in enumerate(descs)]

    def shapes(variant: list[TensorDesc]) -> list[tuple[int, Shape | None]]:
        return infer_outputs(describe(op_type, variant, outputs, attr))

    try:
        inferred = shapes(known)
    except AtcError as error:
        code = codes.OP_NOT_FOUND if error.code == "E10501" else codes.INVALID_PARAM
        raise NpuError(code, f"the shapes of {op_type} cannot be told: {error.message}", error.solution) from error
    bounds = [_bounded(shapes, known, size) for size in (_LOW, *_HIGH)]
    most = max((desc.elements() for desc in descs), default=0) if op_type in _CHOOSING else 0
    for index, (desc, (dtype, shape)) in enumerate(zip(outputs, inferred, strict=True)):
        desc.data_type = dtype if dtype >= 0 else desc.data_type
        desc.dims = [-2] if shape is None else list(shape)
        desc.shape_range = [
            [dim, dim] if dim >= 0 else _range([bound[index] for bound in bounds], axis, most)
            for axis, dim in enumerate(shape or ())
        ]


def _bounded(
    shapes: Callable[[list[TensorDesc]], list[tuple[int, Shape | None]]], descs: list[TensorDesc], size: int
) -> list[Shape | None]:
    """The shapes of the outputs with every open dim of the inputs at its lower bound, or at its upper one; `size` stands for
    an upper bound that there is not."""
    variant = []
    for desc in descs:
        copy = desc.copy()
        for axis, dim in enumerate(desc.dims):
            if dim == -1:
                low, high = desc.shape_range[axis] if axis < len(desc.shape_range) else (_LOW, -1)
                copy.dims[axis] = max(low, _LOW) if size == _LOW else high if high > 0 else size
        copy.shape_range = []
        variant.append(copy)
    try:
        return [shape for _, shape in shapes(variant)]
    except AtcError:  # bounds that do not fit together say nothing
        return [None] * _MANY


def _range(shapes: list[Shape | None], axis: int, most: int) -> list[int]:
    """From an output at the lower bounds and at two upper ones: the range of one of its dims. `most` bounds what only the
    values tell (0 when nothing does)."""
    dims = [shape[axis] if shape is not None and axis < len(shape) else -1 for shape in shapes]
    low, high, other = dims
    if min(dims) < 0:
        return [0, most or -1]
    return [low, high if high == other else -1]


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
