"""The files that say more about precision: `--keep_dtype`, `--modify_mixlist` and `--customize_dtypes`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softnpu.compiler.errors import AtcError

_MAX_BYTES = 1 << 20
_TYPE = "OpType::"
_LISTS = ("white", "black", "gray")
_DTYPES = {
    "float": 0, "float32": 0, "fp32": 0, "float16": 1, "fp16": 1, "int8": 2, "int32": 3, "uint8": 4, "int16": 6, "uint16": 7,
    "uint32": 8, "int64": 9, "uint64": 10, "double": 11, "float64": 11, "bool": 12, "bfloat16": 27, "bf16": 27,
}  # fmt: skip
_CUSTOM = re.compile(
    r"(?:OpType::(?P<type>[^:]+):|(?P<name>.+)::)InputDtype:(?P<inputs>[^:]*),OutputDtype:(?P<outputs>[^:]*)"
)

# The part of the chips' lists that is known: what gains most from float16, and what loses most.
CUBE = frozenset(
    [
        "Conv2D",
        "Conv3D",
        "DepthwiseConv2D",
        "Conv2DTranspose",
        "Conv3DTranspose",
        "Deconvolution",
        "Conv2DBackpropInput",
        "MatMul",
        "MatMulV2",
        "BatchMatMul",
        "BatchMatMulV2",
        "FullyConnection",
        "GEMM",
    ]
)
WHITE = CUBE
BLACK = frozenset(
    [
        "Log",
        "Log1p",
        "Pow",
        "Expm1",
        "ReduceSum",
        "ReduceSumD",
        "ReduceMeanD",
        "LogSoftmaxV2",
        "SoftmaxCrossEntropyLoss",
        "SoftmaxCrossEntropyWithLogits",
        "SparseSoftmaxCrossEntropyWithLogits",
        "L2Loss",
    ]
)


@dataclass(frozen=True)
class MixLists:
    """Operator types of mixed precision: white go to the lower type, black keep theirs, all others follow their inputs."""

    white: frozenset[str] = WHITE
    black: frozenset[str] = BLACK


@dataclass(frozen=True)
class Keep:
    """Nodes that keep their type: by name, or by operator type."""

    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Custom:
    """Types that the user gives the inputs and outputs of nodes: by name, or by operator type."""

    names: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)
    types: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)


def invalid(option: str, value: Any, reason: str, solution: str = "") -> AtcError:
    """E10001."""
    return AtcError(
        "E10001",
        f"Value [{value}] for parameter [--{option}] is invalid. Reason: {reason}",
        "the value, or the content of the file, is not what the option may hold",
        solution or f"correct it, or leave --{option} out",
    )


def _read(option: str, path: Path) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise invalid(option, path, f"the file is larger than {_MAX_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise invalid(option, path, f"the file cannot be read: {error.strerror}", "check the path") from error
    except UnicodeDecodeError as error:
        raise invalid(option, path, "the file is not text in UTF-8") from error


def read_keep_dtype(path: Path) -> Keep:
    """One node name, or `OpType::X`, a line."""
    names, types = set(), set()
    for line in _read("keep_dtype", path).splitlines():
        entry = line.strip()
        if entry.startswith(_TYPE):
            types.add(entry.removeprefix(_TYPE).strip())
        elif entry:
            names.add(entry)
    if "" in types:
        raise invalid("keep_dtype", path, f"a line {_TYPE} has no operator type behind it")
    return Keep(frozenset(names), frozenset(types))


def read_customize_dtypes(path: Path) -> Custom:
    """`Name::InputDtype:float16,float16,OutputDtype:float16` or `OpType::Conv2D:InputDtype:…,OutputDtype:…` a line."""
    names: dict[str, tuple[list[int], list[int]]] = {}
    types: dict[str, tuple[list[int], list[int]]] = {}
    for number, line in enumerate(_read("customize_dtypes", path).splitlines(), 1):
        text = "".join(line.split())
        if not text:
            continue
        match = _CUSTOM.fullmatch(text)
        if match is None:
            raise invalid(
                "customize_dtypes",
                path,
                f"line {number} is {line.strip()!r}",
                "write Name::InputDtype:float16,OutputDtype:float16",
            )
        target, key = (types, match["type"]) if match["type"] else (names, match["name"])
        if key in target:
            raise invalid("customize_dtypes", path, f"line {number} names {key} again")
        target[key] = (_dtypes(path, number, match["inputs"]), _dtypes(path, number, match["outputs"]))
    return Custom(names, types)


def _dtypes(path: Path, number: int, text: str) -> list[int]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name.lower() not in _DTYPES]
    if unknown:
        raise invalid("customize_dtypes", path, f"line {number} has the unknown type {unknown[0]!r}")
    return [_DTYPES[name.lower()] for name in names]


def read_modify_mixlist(path: Path, mixed: bool, base: MixLists | None = None) -> MixLists:
    """The lists with the user's changes; `mixed` says whether the precision mode uses them at all."""
    option = "modify_mixlist"
    if not mixed:
        raise invalid(
            option, path, "it can only be used with a mixed precision mode", "add --precision_mode=allow_mix_precision"
        )
    try:
        content = json.loads(_read(option, path))
    except (ValueError, RecursionError) as error:
        raise invalid(option, path, f"the file is no JSON ({error})") from error
    added, removed = _changes(option, path, content)
    seen: dict[str, str] = {}
    for colour, kinds in added.items():
        for kind in kinds:
            if seen.setdefault(kind, colour) != colour:
                raise invalid(
                    option,
                    path,
                    f"{kind} is added to the {seen[kind]} list and to the {colour} list; it may be in one only",
                )
    lists = base or MixLists()
    white = (lists.white - removed["white"] - added["black"] - added["gray"]) | added["white"]
    black = (lists.black - removed["black"] - added["white"] - added["gray"]) | added["black"]
    return MixLists(white, black)


def _changes(option: str, path: Path, content: Any) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """(added, removed) per list."""
    form = '{"black-list": {"to-add": ["X"], "to-remove": ["Y"]}, "white-list": {…}, "gray-list": {…}}'
    if not isinstance(content, dict) or not set(content) <= {f"{colour}-list" for colour in _LISTS}:
        raise invalid(option, path, f"the file must hold {form}")
    added: dict[str, frozenset[str]] = {}
    removed: dict[str, frozenset[str]] = {}
    for colour in _LISTS:
        part = content.get(f"{colour}-list", {})
        if not isinstance(part, dict) or not set(part) <= {"to-add", "to-remove"}:
            raise invalid(option, path, f"{colour}-list may hold to-add and to-remove")
        for key, into in (("to-add", added), ("to-remove", removed)):
            kinds = part.get(key, [])
            if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
                raise invalid(option, path, f"{key} of {colour}-list must be a list of operator types")
            into[colour] = frozenset(kinds)
    return added, removed
