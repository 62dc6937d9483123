"""What an operator's `lower` works with: a builder that collects ONNX calls, and the site it is called at.

An operator says what it means in ONNX operators: `lower(b, n)` gets the builder `b` and the site `n`, makes calls with
`b.op(...)` and returns the names of the results, one per output of the operator. Names are plain strings. The methods of
the builder beside `op` hide what differs between ONNX versions (axes as attribute or as input …), so that a body is right
for every opset from 8 on if it uses them; `NATIVE_OPSET` is what graphs get that did not come from ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softnpu.base.dtypes import from_numpy, numpy_name, to_onnx

NATIVE_OPSET = 20
Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class OpError(ValueError):
    """An operator that cannot be built as asked: what is wrong, with which value, what to do."""


@dataclass(frozen=True, slots=True)
class Call:
    """One ONNX operator. An input of "" is an optional one that is absent."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any]
    domain: str = ""


@dataclass(slots=True)
class Site:
    """Where an operator stands: its attributes (CANN's names), its inputs by position, what is known about its tensors."""

    type: str
    name: str
    attrs: dict[str, Any]
    inputs: list[str | None]  # names; None for an optional input that is absent
    input_dtypes: list[int]  # aclDataType, -1 unknown
    input_shapes: list[Shape | None]  # None unknown rank, -1 unknown dim
    constants: list[Array | None]  # content of the inputs that are constants
    outputs: int = 1
    output_dtypes: list[int] = field(default_factory=list)  # what the graph says so far; -1 unknown
    output_shapes: list[Shape | None] = field(default_factory=list)
    input_formats: list[int] = field(default_factory=list)  # aclFormat

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default."""
        return self.attrs.get(name, default)

    def need(self, name: str) -> Any:
        """An attribute that must be there."""
        if name not in self.attrs:
            raise OpError(
                f"{self.type} {self.name!r} lacks the attribute {name!r}; add it to the operator's description"
            )
        return self.attrs[name]

    def input(self, index: int) -> str:
        """An input that must be there."""
        if index >= len(self.inputs) or self.inputs[index] is None:
            raise OpError(f"{self.type} {self.name!r} lacks its input {index}; give it one")
        name = self.inputs[index]
        assert name is not None
        return name

    def has(self, index: int) -> bool:
        """Whether an optional input is there."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def shape(self, index: int = 0) -> Shape:
        """The shape of an input, whose rank must be known (dims may be -1)."""
        shape = self.input_shapes[index]
        if shape is None:
            raise OpError(
                f"{self.type} {self.name!r} needs to know the rank of its input {index}; give the model fixed input shapes"
            )
        return shape

    def rank(self, index: int = 0) -> int:
        """The number of dims of an input."""
        return len(self.shape(index))

    def dtype(self, index: int = 0) -> int:
        """The aclDataType of an input."""
        return self.input_dtypes[index] if index < len(self.input_dtypes) else -1

    def constant(self, index: int) -> Array:
        """The content of an input that must be a constant."""
        content = self.constants[index] if index < len(self.constants) else None
        if content is None:
            raise OpError(
                f"{self.type} {self.name!r} needs a constant as its input {index}; computed values are not supported there"
            )
        return content


class Builder:
    """Collects the ONNX calls of a graph."""

    def __init__(self, opset: int = NATIVE_OPSET, unique: Callable[[str], str] | None = None) -> None:
        self.opset = opset
        self.calls: list[Call] = []
        self.constants: dict[str, Array] = {}
        self.domains: dict[str, int] = {}  # other domains that calls use, with their versions
        self.prefix = ""
        self._unique = unique or self._count
        self._numbers: dict[str, int] = {}

    def _count(self, wish: str) -> str:
        number = self._numbers[wish] = self._numbers.get(wish, -1) + 1
        return f"{wish}_{number}" if number else wish

    def name(self, wish: str) -> str:
        """A fresh name, with the site's name before it."""
        return self._unique(f"{self.prefix}/{wish}" if self.prefix else wish)

    def op(self, type: str, *inputs: str | None, outputs: int = 1, domain: str = "", **attrs: Any) -> Any:
        """Add a call; returns the name of its result, or a tuple of names where it has several.

        Attributes are Python values: int, float, str, bytes, lists of them, a NumPy array for a tensor. None leaves one out."""
        names = tuple(self.name(type if outputs == 1 else f"{type}_{i}") for i in range(outputs))
        taken = [value or "" for value in inputs]
        while taken and not taken[-1]:
            taken.pop()
        options = {key: value for key, value in attrs.items() if value is not None}
        self.calls.append(Call(type, tuple(taken), names, options, domain))
        if domain:
            self.domains.setdefault(domain, 1)
        return names[0] if outputs == 1 else names

    def const(self, value: Any, dtype: int | None = None, name: str = "const") -> str:
        """A constant: an array, a number or a list; `dtype` is an aclDataType (default: the array's; int64 for ints, float32
        for floats)."""
        if isinstance(value, np.ndarray):
            array = value
        else:
            array = np.asarray(value)
            if dtype is None and array.dtype == np.float64:
                array = array.astype(np.float32)
        if dtype is not None:
            array = array.astype(numpy_name(dtype))
        constant = self.name(name)
        self.constants[constant] = array
        return constant

    # ---- what differs between versions -------------------------------------------------------------------------------

    def cast(self, x: str, dtype: int) -> str:
        """Convert to an aclDataType."""
        return str(self.op("Cast", x, to=to_onnx(dtype)))

    def squeeze(self, x: str, axes: Sequence[int]) -> str:
        """Take dims of size 1 away."""
        if self.opset < 13:
            return str(self.op("Squeeze", x, axes=list(axes)))
        return str(self.op("Squeeze", x, self.const(np.array(axes, np.int64))))

    def unsqueeze(self, x: str, axes: Sequence[int]) -> str:
        """Insert dims of size 1 (axes count in the result)."""
        if self.opset < 13:
            return str(self.op("Unsqueeze", x, axes=list(axes)))
        return str(self.op("Unsqueeze", x, self.const(np.array(axes, np.int64))))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Reshape to known dims (0 copies a dim, -1 is found)."""
        return str(self.op("Reshape", x, self.const(np.array(shape, np.int64))))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """Permute the dims."""
        return str(self.op("Transpose", x, perm=list(perm)))

    def slice(
        self,
        x: str,
        starts: Sequence[int],
        ends: Sequence[int],
        axes: Sequence[int],
        steps: Sequence[int] | None = None,
    ) -> str:
        """Cut a piece out; `ends` may be larger than the dim."""
        if self.opset < 10:
            if steps is not None and any(step != 1 for step in steps):
                raise OpError("a slice with steps needs ONNX opset 10 or newer; export the model with a newer opset")
            return str(self.op("Slice", x, starts=list(starts), ends=list(ends), axes=list(axes)))
        more = [] if steps is None else [self.const(np.array(steps, np.int64))]
        numbers = [self.const(np.array(list(values), np.int64)) for values in (starts, ends, axes)]
        return str(self.op("Slice", x, *numbers, *more))

    def pad(
        self,
        x: str,
        before: Sequence[int],
        after: Sequence[int],
        value: float = 0.0,
        mode: str = "constant",
        dtype: int = 0,
    ) -> str:
        """Pad every dim; `dtype` is the type of x."""
        pads = [*before, *after]
        if self.opset < 11:
            return str(self.op("Pad", x, pads=pads, value=float(value), mode=mode))
        fill = self.const(np.array(value), dtype) if mode == "constant" else None
        return str(self.op("Pad", x, self.const(np.array(pads, np.int64)), fill, mode=mode))

    def reduce(self, kind: str, x: str, axes: Sequence[int] | None, keepdims: bool = True) -> str:
        """`kind` is Sum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp or SumSquare; axes None means all."""
        if axes is None or not (self.opset >= 18 or (kind == "Sum" and self.opset >= 13)):
            return str(
                self.op(f"Reduce{kind}", x, axes=list(axes) if axes is not None else None, keepdims=int(keepdims))
            )
        return str(self.op(f"Reduce{kind}", x, self.const(np.array(axes, np.int64)), keepdims=int(keepdims)))

    def split(self, x: str, sizes: Sequence[int], axis: int) -> tuple[str, ...]:
        """Cut into pieces of given sizes."""
        if len(sizes) == 1:
            return (str(self.op("Identity", x)),)
        if self.opset < 13:
            return tuple(self.op("Split", x, outputs=len(sizes), axis=axis, split=list(sizes)))
        return tuple(self.op("Split", x, self.const(np.array(sizes, np.int64)), outputs=len(sizes), axis=axis))

    def clip(self, x: str, low: float | None, high: float | None, dtype: int = 0) -> str:
        """Limit to a range; `dtype` is the type of x."""
        if self.opset < 11:
            return str(self.op("Clip", x, min=low, max=high))
        bounds = [None if bound is None else self.const(np.array(bound), dtype) for bound in (low, high)]
        return str(self.op("Clip", x, *bounds))

    def scalar(self, value: float, like: int) -> str:
        """A constant without dims, of the aclDataType `like`."""
        return self.const(np.array(value), like)

    def softmax(self, x: str, axis: int, rank: int, log: bool = False) -> str:
        """Softmax along one axis (before opset 13 it flattens, so the axis is moved last and back)."""
        onnx_type = "LogSoftmax" if log else "Softmax"
        axis %= rank
        if self.opset >= 13 or axis == rank - 1:
            return str(self.op(onnx_type, x, axis=axis))
        perm = [dim for dim in range(rank) if dim != axis] + [axis]
        back = [perm.index(dim) for dim in range(rank)]
        return self.transpose(str(self.op(onnx_type, self.transpose(x, perm), axis=rank - 1)), back)


def dtype_of(array: Array) -> int:
    """The aclDataType of an array."""
    return from_numpy(array.dtype.name)
