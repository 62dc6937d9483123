"""Single operators: the JSON of `atc --singleop`.

A description says an operator's type, its tensors and its attributes (`description.py`); `graph.py` makes a graph of it.
Descriptions of the run time (`acl.op`) have the same form, so a model that is found and one that is made on the spot are the
same thing.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from softnpu.base.dtypes import numpy_name
from softnpu.compiler.messages import error
from softnpu.compiler.single_op.description import UNKNOWN_RANK, SingleOp, Tensor
from softnpu.compiler.single_op.words import DTYPE_NUMBERS, FORMAT_NUMBERS, ND, RESERVED, UNDEFINED
from softnpu.graph.ir import Constant, Shape

_FILE_BYTES = 16 << 20
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_RANK = 128


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(path: Path) -> list[SingleOp]:
    """The operators of a file."""
    try:
        with open(path, "rb") as file:
            data = file.read(_FILE_BYTES + 1)
    except OSError as problem:
        raise error("E10024", value=path, reason=problem.strerror) from problem
    if len(data) > _FILE_BYTES:
        raise error("E10024", value=path, reason=f"it has more than {_FILE_BYTES} bytes")
    try:
        content = json.loads(data)
        json.dumps(content, ensure_ascii=False).encode()  # JSON can write half a character, which no name may hold
    except RecursionError as problem:
        raise error("E10025", value=path, reason="it is nested too deeply") from problem
    except ValueError as problem:
        raise error("E10025", value=path, reason=problem) from problem
    rows = [content] if isinstance(content, dict) else content
    if not isinstance(rows, list) or not rows:
        raise error("E10023", name="file", value=type(content).__name__, reason="it must be a list of operators")
    described = [_operator(row, index) for index, row in enumerate(rows)]
    seen: set[str] = set()
    for index, operator in enumerate(described):
        file_name = operator.file_name(index)
        if file_name in seen:
            raise error(
                "E10023", name="name", value=operator.name, reason=f"operators before {index} make {file_name} already"
            )
        seen.add(file_name)
    return described


def _operator(row: Any, index: int) -> SingleOp:
    if not isinstance(row, dict):
        raise error("E10023", name=f"operator {index}", value=row, reason="it must be an object")
    op = row.get("op")
    if not isinstance(op, str) or not op:
        raise error("E10026", index=index)
    name = row.get("name", "")
    if not isinstance(name, str):
        raise error("E10023", name="name", value=name, reason="it must be a text")
    flag = row.get("compile_flag", 0)
    if flag not in (0, 1):
        raise error("E10023", name="compile_flag", value=flag, reason="it must be 0 or 1")
    inputs, outputs = (_tensors(op, row, key) for key in ("input_desc", "output_desc"))
    if not outputs:
        raise error("E10028", op=op, reason="output_desc is empty; an operator has one output at least")
    return SingleOp(op, inputs, outputs, _attributes(op, row), name, int(flag))


def _tensors(op: str, row: dict[str, Any], key: str) -> tuple[Tensor, ...]:
    listed = row.get(key, [])
    if not isinstance(listed, list):
        raise error("E10023", name=key, value=listed, reason="it must be a list of tensors")
    return tuple(_tensor(op, row, f"{key.partition('_')[0]} {index}") for index, row in enumerate(listed))


def _tensor(op: str, row: Any, where: str) -> Tensor:
    def fail(reason: str) -> Exception:
        return error("E10027", op=op, tensor=where, reason=reason)

    if not isinstance(row, dict):
        raise fail("it must be an object with format, shape and type")
    format_, dtype = (
        _word(row, "format", FORMAT_NUMBERS, str.upper, fail),
        _word(row, "type", DTYPE_NUMBERS, str.lower, fail),
    )
    if (format_ == RESERVED) != (dtype == UNDEFINED):
        raise fail("an absent optional input has both the format RESERVED and the type UNDEFINED")
    shape = () if dtype == UNDEFINED and "shape" not in row else _dims(row, "shape", fail)
    origin = _dims(row, "origin_shape", fail) if "origin_shape" in row else None
    origin_format = _word(row, "origin_format", FORMAT_NUMBERS, str.upper, fail) if "origin_format" in row else ND
    for key in ("name", "dynamic_input"):
        if not isinstance(row.get(key, ""), str):
            raise fail(f"{key} must be a text, not {row[key]!r}")
    const = _constant(row, dtype, shape, fail) if row.get("is_const") else None
    name, group = row.get("name", ""), row.get("dynamic_input", "")
    return Tensor(dtype, format_, shape, name, group, _ranges(row, shape, fail), origin, origin_format, const)


def _word(row: dict[str, Any], key: str, known: dict[str, int], fold: Any, fail: Any) -> int:
    spelling = row.get(key)
    if not isinstance(spelling, str):
        raise fail(f"{key} is missing" if key not in row else f"{key} must be a text, not {spelling!r}")
    if fold(spelling) not in known:
        raise fail(f"{key} {spelling!r} is not known; use one of {', '.join(list(known)[:12])} …")
    return known[fold(spelling)]


def _dims(row: dict[str, Any], key: str, fail: Any) -> Shape:
    dims = row.get(key)
    if not isinstance(dims, list) or any(type(dim) is not int or dim not in _INT64 for dim in dims):
        raise fail(f"{key} must be a list of whole numbers, not {dims!r}")
    shape = tuple(dims)
    if len(shape) > _MAX_RANK or (shape != UNKNOWN_RANK and any(dim < -1 for dim in shape)):
        raise fail(f"{key} {dims} is not possible; -1 is an unknown dim, [-2] an unknown rank")
    return shape


def _ranges(row: dict[str, Any], shape: Shape, fail: Any) -> tuple[tuple[int, int], ...]:
    """One pair per dim; the file has one for each unknown dim."""
    pairs = row.get("shape_range", [])
    valid = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(type(end) is int and end in _INT64 for end in pair)
        for pair in pairs
    )
    if not valid:
        raise fail(f"shape_range must be a list of pairs [low, high], not {pairs!r}")
    if any(low < 0 or high < -1 or (high != -1 and low > high) for low, high in pairs):
        raise fail(f"shape_range {pairs} holds an impossible pair; low is at most high, high -1 is unbounded")
    unknown = [axis for axis, dim in enumerate(shape) if dim == -1]
    if not pairs:
        return ()
    if shape == UNKNOWN_RANK or len(pairs) not in (len(unknown), len(shape)):
        raise fail(f"shape_range has {len(pairs)} pairs, the shape {list(shape)} has {len(unknown)} unknown dims")
    if len(pairs) == len(shape):
        return tuple((low, high) for low, high in pairs)
    left = iter(pairs)
    return tuple(tuple(next(left)) if dim == -1 else (dim, dim) for dim in shape)


def _constant(row: dict[str, Any], dtype: int, shape: Shape, fail: Any) -> Constant:
    values, numpy_type = row.get("const_value"), numpy_name(dtype)
    if not isinstance(values, list) or any(isinstance(value, list | dict | str) or value is None for value in values):
        raise fail(f"const_value must be a list of numbers, not {values!r}")
    if not numpy_type:
        raise fail("a constant of this type is not supported")
    if any(dim < 0 for dim in shape) or math.prod(shape) != len(values):
        raise fail(f"const_value has {len(values)} numbers, the shape {list(shape)} needs another count")
    if np.dtype(numpy_type).kind in "iu":
        limits = np.iinfo(numpy_type)
        bad = [value for value in values if value != int(value) or not limits.min <= value <= limits.max]
        if bad:
            raise fail(f"const_value {bad[0]} is no number of the type {numpy_type}")
    try:
        return Constant.of(
            np.asarray(values).astype(numpy_type).reshape(shape) if values else np.zeros(shape, numpy_type)
        )
    except (OverflowError, ValueError, TypeError) as problem:
        raise fail(f"const_value does not fit the type: {problem}") from problem


# ---- attributes ------------------------------------------------------------------------------------------------------

_SCALARS: dict[str, tuple[type, ...]] = {"bool": (bool,), "int": (int,), "float": (int, float), "string": (str,)}


def _attributes(op: str, row: dict[str, Any]) -> dict[str, Any]:
    listed = row.get("attr", [])
    if not isinstance(listed, list):
        raise error("E10023", name="attr", value=listed, reason="it must be a list of attributes")
    attributes: dict[str, Any] = {}
    for index, entry in enumerate(listed):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise error("E10029", op=op, index=index)
        attributes[name] = _attribute(op, name, entry.get("type"), entry.get("value"))
    return attributes


def _attribute(op: str, name: str, kind: Any, value: Any) -> Any:
    def fail(reason: str) -> Exception:
        return error("E10030", op=op, name=name, value=value, reason=reason)

    if not isinstance(kind, str):
        raise fail("the key type is missing")
    if kind == "data_type":
        if not isinstance(value, str) or value.lower() not in DTYPE_NUMBERS:
            raise fail("a data_type is a word such as float16")
        return DTYPE_NUMBERS[value.lower()]
    if kind in _SCALARS:
        return _scalar(kind, value, fail)
    base = kind.removeprefix("list_")
    if not kind.startswith("list_") or (base not in _SCALARS and base != "list_int"):
        raise fail(
            f"the type {kind!r} is not known; use bool, int, float, string, list_<one of them>, list_list_int or data_type"
        )
    if not isinstance(value, list):
        raise fail(f"a {kind} is a list")
    if base == "list_int":
        if not all(isinstance(inner, list) for inner in value):
            raise fail("a list_list_int is a list of lists")
        return [[_scalar("int", item, fail) for item in inner] for inner in value]
    return [_scalar(base, item, fail) for item in value]


def _scalar(kind: str, value: Any, fail: Any) -> Any:
    fits = isinstance(value, _SCALARS[kind])
    if not fits or (kind != "bool" and isinstance(value, bool)):
        raise fail(f"{value!r} is no {kind}")
    if kind == "int" and value not in _INT64:
        raise fail(f"{value} needs more than 64 bits")
    return float(value) if kind == "float" else value
