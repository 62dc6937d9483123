"""Schemas of operators: those of aten as torch's own table has them (its C++ types are lost in the dispatcher), and custom ones."""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path

import torch

_FUNC = re.compile(r"^- func: (\S+?)\(")
defined: set[str] = (
    set()
)  # custom operators that adapters with bodies in Python brought: they stay declared, and are not torch_npu's


@cache
def _native() -> dict[str, str]:
    """Every operator of native_functions.yaml by its full name."""
    import torchgen

    table = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    schemas = {}
    for line in table.read_text("utf-8").splitlines():
        match = _FUNC.match(line)
        if match:
            schemas[match[1]] = line.removeprefix("- func: ").strip()
    return schemas


def aten(name: str) -> tuple[str, str, bool]:
    """Full name, schema and whether torch has it: always, or it raises ValueError."""
    native = _native()
    if name in native:
        return name, native[name], True
    generated = _generated(name)
    if generated:
        return name, generated, True
    close = difflib.get_close_matches(name, native, 1, 0.8)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ValueError(f"torch {torch.__version__.partition('+')[0]} has no operator aten::{name}{hint}")


def _generated(name: str) -> str:
    """Operators that torch derives from others (out= forms) are in the dispatcher only."""
    base, _, overload = name.partition(".")
    try:
        schema = str(torch._C._get_schema(f"aten::{base}", overload))
    except RuntimeError:
        return ""
    return schema.removeprefix("aten::")


def custom(func: str) -> tuple[str, str, bool]:
    """Full name, schema and whether torch.ops.npu has the operator; ValueError for what is no schema or another one."""
    if "..." in func:
        raise ValueError(f"{func!r} leaves arguments out; write the whole schema")
    try:
        parsed = torch._C.parse_schema(func)
    except RuntimeError as error:
        raise ValueError(f"{func!r} is no schema: {str(error).strip().splitlines()[0]}") from error
    if "::" in parsed.name:
        raise ValueError(f"{parsed.name!r} names a namespace; custom operators are in npu")
    name = f"{parsed.name}.{parsed.overload_name}" if parsed.overload_name else parsed.name
    try:
        there = torch._C._get_schema(f"npu::{parsed.name}", parsed.overload_name)
    except RuntimeError:
        return name, func, False
    _compare(name, parsed, there)
    return name, func, name not in defined


def _compare(name: str, parsed: torch.FunctionSchema, there: torch.FunctionSchema) -> None:
    def types(schema: torch.FunctionSchema) -> list[str]:
        return [f"{argument.type} {argument.name}" for argument in schema.arguments] + [
            str(result.type) for result in schema.returns
        ]

    ours, theirs = types(parsed), types(there)
    count = len(parsed.arguments)
    optional = all(argument.has_default_value() for argument in there.arguments[count:])
    same = ours[:count] == theirs[:count] and optional and ours[count:] == theirs[len(there.arguments) :]
    if not same:
        raise ValueError(f"torch.ops.npu has {name} with another schema: {there}; take another name")
