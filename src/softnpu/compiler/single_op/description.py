"""The description of a single operator: its type, its tensors, its attributes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from softnpu import ops
from softnpu.compiler.single_op.words import ND, UNDEFINED, UNDEFINED_IN_NAMES
from softnpu.graph.ir import Constant, Shape

UNKNOWN_RANK = (-2,)
_NAME_LIMIT = 128
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def operator_of(op_type: str) -> ops.Operator | None:
    """The operator of a type that a file or a program names; words that no type can be are none."""
    return ops.find(op_type) if op_type[:1].isalpha() else None


@dataclass(frozen=True)
class Tensor:
    """An input or output of a single operator. `absent` is an optional input that is left out."""

    dtype: int
    format: int
    shape: Shape  # (-2,) for an unknown rank
    name: str = ""
    dynamic_input: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    origin_shape: Shape | None = None
    origin_format: int = ND
    const: Constant | None = None

    @property
    def absent(self) -> bool:
        """Whether it stands for an input that is not there."""
        return self.dtype == UNDEFINED

    def key(self) -> list[Any]:
        """What two tensors must have in common to be the same: type, format, dims, content of a constant."""
        return [
            self.dtype,
            self.format,
            list(self.shape),
            *([self.const.array().tolist()] if self.const is not None else []),
        ]


@dataclass(frozen=True)
class SingleOp:
    """One operator with its tensors and attributes."""

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    compile_flag: int = 0

    def file_name(self, index: int) -> str:
        """The name of the `.om`: the given name, else number, type and tensors."""
        if self.name and _NAME.fullmatch(self.name):
            return f"{self.name[:_NAME_LIMIT]}.om"
        words = [str(index), self.op]
        for tensor in (*self.inputs, *self.outputs):
            dtype = UNDEFINED_IN_NAMES if tensor.absent else tensor.dtype
            words += [str(dtype), str(tensor.format), *(str(dim) for dim in tensor.shape)]
        return f"{'_'.join(words)[:_NAME_LIMIT]}.om"

    def key(self) -> dict[str, Any]:
        """By what a program finds the model at run time; plain JSON values."""
        return {
            "op": self.op,
            "inputs": [tensor.key() for tensor in self.inputs],
            "outputs": [tensor.key() for tensor in self.outputs],
            "ranges": [[list(pair) for pair in tensor.ranges] for tensor in self.inputs],
            "attrs": {key: self.attrs[key] for key in sorted(self.attrs)},
        }
