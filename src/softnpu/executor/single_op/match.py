"""How a single operator is recognised: by type, attributes, and type, format and dims of its tensors."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Any, TypeGuard

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.base.errors import NpuError, codes
from softnpu.base.tensor import TensorDesc
from softnpu.compiler.single_op.description import SingleOp, Tensor, operator_of
from softnpu.compiler.single_op.words import ND, RESERVED, UNDEFINED, format_word
from softnpu.graph.ir import Constant

Signature = tuple[Hashable, ...]
_IMPLIED = {"Cast": frozenset({"dst_type", "truncate"})}  # attributes that follow from the tensors
_ONE: tuple[list[int], ...] = ([], [1])  # a number alone, described in two ways
_SINGLE = struct.Struct("<f")


class OpAttr:
    """Attributes of an operator as a program sets them."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self._frozen: Hashable = None

    def set(self, name: str, value: Any) -> None:
        """Set one; a second time replaces it."""
        if not name:
            raise NpuError(
                codes.INVALID_PARAM, "an attribute needs a name", "pass the attribute's name of the operator list"
            )
        self.values[name] = value
        self._frozen = None

    def frozen(self) -> Hashable:
        """The content as something that can be looked up."""
        if self._frozen is None:
            self._frozen = tuple(sorted((key, type(value).__name__, repr(value)) for key, value in self.values.items()))
        return self._frozen


def signature(
    op_type: str, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], attr: OpAttr | None
) -> Signature:
    """What two requests must share to get the same model."""
    return (
        op_type,
        attr.frozen() if attr is not None else (),
        *(_facts(desc) for desc in inputs),
        "to",
        *(_facts(desc) for desc in outputs),
    )


def _facts(desc: TensorDesc) -> Hashable:
    storage = tuple(desc.storage_dims) if desc.storage_dims is not None else None
    return (
        desc.data_type,
        desc.format,
        tuple(desc.dims),
        desc.storage_format,
        storage,
        desc.constant,
        desc.dynamic_input,
    )


def describe(
    op_type: str, inputs: Sequence[TensorDesc], outputs: Sequence[TensorDesc], attr: OpAttr | None
) -> SingleOp:
    """The request in the form of a single-operator file."""
    if not op_type:
        raise NpuError(codes.INVALID_PARAM, "the operator type is empty", "pass a type such as 'Add'")
    return SingleOp(
        op_type, tuple(map(tensor, inputs)), tuple(map(tensor, outputs)), dict(attr.values) if attr is not None else {}
    )


def renamed(op: SingleOp, op_type: str) -> SingleOp:
    """The same tensors and attributes under another type."""
    return op if op_type == op.op else SingleOp(op_type, op.inputs, op.outputs, op.attrs)


def tensor(desc: TensorDesc) -> Tensor:
    """A description of the program as a tensor of a single operator."""
    if desc.data_type == UNDEFINED:
        return Tensor(UNDEFINED, RESERVED, ())
    shape = tuple(desc.dims)
    form = ND if desc.format < 0 else desc.format
    stored = form if desc.storage_format is None or desc.storage_format < 0 else desc.storage_format
    dims = shape if desc.storage_dims is None else tuple(desc.storage_dims)
    origin = (shape, form) if stored != form or dims != shape else (None, ND)
    ranges = tuple((low, high) for low, high in desc.shape_range)
    return Tensor(
        desc.data_type, stored, dims, "", desc.dynamic_input, ranges, origin[0], origin[1], _constant(desc, dims)
    )


def _constant(desc: TensorDesc, dims: tuple[int, ...]) -> Constant | None:
    if desc.constant is None:
        return None
    name = numpy_name(desc.data_type)
    count = int(np.prod(dims, dtype=np.int64)) if all(dim >= 0 for dim in dims) else -1
    if not name or count * np.dtype(name or "u1").itemsize > len(desc.constant) or count < 0:
        raise NpuError(
            codes.INVALID_PARAM,
            f"the constant of {len(desc.constant)} bytes does not fill {list(dims)} of {format_word(desc.format)} data",
            "pass all its elements to acl.set_tensor_const",
        )
    return Constant(desc.data_type, dims, desc.constant[: count * np.dtype(name).itemsize])


# ---- keys of models --------------------------------------------------------------------------------------------------


def is_key(key: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a model's attribute is the key of a single operator; files are not trusted."""
    if not isinstance(key, dict) or not isinstance(key.get("op"), str) or not isinstance(key.get("attrs"), dict):
        return False
    for side in ("inputs", "outputs"):
        rows = key.get(side)
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) in (3, 4) and isinstance(row[2], list) for row in rows
        ):
            return False
        if not all(isinstance(dim, int) for row in rows for dim in (row[0], row[1], *row[2])):
            return False
    return isinstance(key.get("ranges"), list)


def real_inputs(key: dict[str, Any]) -> list[int]:
    """Positions of the inputs that a run takes: not constant, not absent."""
    return [index for index, row in enumerate(key["inputs"]) if len(row) == 3 and row[0] != UNDEFINED]


def best(keys: list[dict[str, Any]], asked: SingleOp) -> int | None:
    """Which of these models fits; one with fixed dims goes before one with open dims, a later one before an earlier."""
    wanted = asked.key()
    fitting = [index for index, key in enumerate(keys) if _fits(key, wanted)]
    return max(fitting, key=lambda index: (not _open(keys[index]), index)) if fitting else None


def _open(key: dict[str, Any]) -> bool:
    return any(dim < 0 for row in (*key["inputs"], *key["outputs"]) for dim in row[2])


def _fits(key: dict[str, Any], wanted: dict[str, Any]) -> bool:
    for side in ("inputs", "outputs"):
        have, want = _present(key[side]), _present(wanted[side])
        ranges = key["ranges"] if side == "inputs" else []
        if len(have) != len(want):
            return False
        if not all(
            _tensor_fits(mine, other, ranges[at] if at < len(ranges) else [])
            for at, (mine, other) in enumerate(zip(have, want, strict=True))
        ):
            return False
    return _plain(key["op"], key["attrs"]) == _plain(wanted["op"], wanted["attrs"])


def _present(rows: list[Any]) -> list[Any]:
    """Without the absent inputs at the end."""
    last = max((index for index, row in enumerate(rows) if row[0] != UNDEFINED), default=-1)
    return rows[: last + 1]


def _tensor_fits(have: list[Any], want: list[Any], ranges: list[Any]) -> bool:
    if have[0] != want[0] or have[0] == UNDEFINED:
        return bool(have[0] == want[0])
    if have[1] != want[1] or have[3:] != want[3:]:
        return False
    if have[2] == [-2]:
        return True
    if len(have[2]) != len(want[2]):
        return have[2] in _ONE and want[2] in _ONE
    for at, (mine, other) in enumerate(zip(have[2], want[2], strict=True)):
        low, high = ranges[at] if at < len(ranges) else (0, -1)
        if mine == -1 and other != -1 and not (low <= other and (high < 0 or other <= high)):
            return False
        if mine not in (-1, other):
            return False
    return True


def _plain(op_type: str, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes as they are compared: floats in single precision, without defaults and what the tensors say anyway."""
    operator = operator_of(op_type)
    defaults = operator.schema.attrs if operator is not None else {}
    implied = _IMPLIED.get(op_type, frozenset())
    plain = {key: _single(value) for key, value in attrs.items() if key not in implied}
    return {key: value for key, value in plain.items() if key not in defaults or _single(defaults[key]) != value}


def _single(value: Any) -> Any:
    if isinstance(value, float):
        return _SINGLE.unpack(_SINGLE.pack(value))[0] if abs(value) < 3e38 else value
    if isinstance(value, list | tuple):
        return [_single(item) for item in value]
    return value


def in_words(key: dict[str, Any]) -> str:
    """Tensors of a key as they are written in messages: `float32 ND [8, 16], … -> …`."""
    sides = []
    for side in ("inputs", "outputs"):
        sides.append(
            ", ".join(f"{numpy_name(row[0]) or row[0]} {format_word(row[1])} {row[2]}" for row in key[side])
            or "nothing"
        )
    return " -> ".join(sides)
