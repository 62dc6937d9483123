"""The compile configuration of a FuncProcessPoint: what a function project says about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from softnpu.flow import jsonfile
from softnpu.flow.jsonfile import Item, show
from softnpu.flow.plan import Function

_MOST_PORTS = 65535
_MOST_BUFFERS = 64
_MOST_BLOCK = 2 * 2**20
_RESOURCES = {"cpu": "num_cpus", "memory": "memory", "num_npus": "num_npus"}  # in the file → as pyflow calls it
_PAGES = ("normal", "huge")


@dataclass(frozen=True)
class Buffers:
    """One row of `buf_cfg`."""

    total_size: int
    blk_size: int
    max_buf_size: int
    page_type: str


@dataclass(frozen=True)
class FunctionConfig:
    """The file, checked. `workspace`, `cmakelist_path`, `compiler` and `target_bin` belong to a C++ project."""

    input_num: int
    output_num: int
    functions: tuple[Function, ...]
    workspace: str = ""
    target_bin: str = ""
    cmakelist_path: str = ""
    compiler: str = ""
    resources: dict[str, int] = field(default_factory=dict)
    heavy_load: bool = False
    visible_device: bool = False
    built_in: bool = False
    buffers: tuple[Buffers, ...] = ()


def function_config(path: str) -> FunctionConfig:
    """Read and check a file; DfException 145000 names the key that is wrong."""
    item = jsonfile.read(path)
    inputs, outputs = item.number("input_num", 0, _MOST_PORTS), item.number("output_num", 0, _MOST_PORTS)
    target = item.get("target_bin", str, "")
    if target and not (target.startswith("lib") and target.endswith(".so")):
        item.fail("target_bin", f"is {show(target)}; write the name of a library, lib*.so")
    return FunctionConfig(
        inputs,
        outputs,
        _functions(item, inputs, outputs),
        workspace=item.get("workspace", str, ""),
        target_bin=target,
        cmakelist_path=item.get("cmakelist_path", str, ""),
        compiler=item.get("compiler", str, ""),
        resources=_resources(item),
        heavy_load=item.get("heavy_load", bool, False),
        visible_device=item.get("visible_device_enable", bool, False),
        built_in=item.get("built_in_flow_func", bool, False),
        buffers=_buffers(item),
    )


def _functions(item: Item, inputs: int, outputs: int) -> tuple[Function, ...]:
    parts = item.objects("func_list")
    if not parts:
        item.fail("func_list", "is missing or empty; list at least one function")
    functions = tuple(_function(part, inputs, outputs, len(parts) == 1) for part in parts)
    if len({each.name for each in functions}) != len(functions):
        item.fail("func_list", "has a function name twice; give every function its own")
    used = [index for each in functions for index in each.inputs]
    if len(set(used)) != len(used):
        item.fail("func_list", "gives an input to two functions; every input belongs to one")
    if len(used) != inputs:
        left = sorted(set(range(inputs)) - set(used))
        item.fail(
            "func_list",
            f"leaves out input {', '.join(map(str, left[:8]))} of {inputs}; every input belongs to one function",
        )
    return functions


def _function(item: Item, inputs: int, outputs: int, only: bool) -> Function:
    name = item.get("func_name", str)
    if not name:
        item.fail("func_name", "is empty; write the name of a function")
    if not only and not item.has("inputs_index"):
        item.fail("inputs_index", "is missing; with several functions each says which inputs it waits for")
    return Function(
        name,
        _indexes(item, "inputs_index", inputs),
        _indexes(item, "outputs_index", outputs),
        item.get("stream_input", bool, False),
    )


def _indexes(item: Item, key: str, count: int) -> tuple[int, ...]:
    """Numbers of ports; all of them where nothing is said."""
    if not item.has(key):
        return tuple(range(count))
    indexes = item.numbers(key)
    for index in indexes:
        if not 0 <= index < count:
            item.fail(key, f"has {index}; there are {count}, counted from 0")
    if len(set(indexes)) != len(indexes):
        item.fail(key, f"is {show(indexes)}; list every number once")
    return tuple(indexes)


def _resources(item: Item) -> dict[str, int]:
    result: dict[str, int] = {}
    for part in item.objects("running_resources_info"):
        kind = part.get("type", str)
        if kind not in _RESOURCES:
            part.fail("type", f"is {show(kind)}; use {', '.join(_RESOURCES)}")
        result[_RESOURCES[kind]] = part.number("num", 0, 2**31 - 1)
    return result


def _buffers(item: Item) -> tuple[Buffers, ...]:
    result: list[Buffers] = []
    for part in item.objects("buf_cfg", _MOST_BUFFERS):
        row = Buffers(
            part.number("total_size", 1, 2**40),
            part.number("blk_size", 1, _MOST_BLOCK),
            part.number("max_buf_size", 1, 2**40),
            part.get("page_type", str, _PAGES[0]),
        )
        if row.blk_size & (row.blk_size - 1):
            part.fail("blk_size", f"is {row.blk_size}; use a power of two up to {_MOST_BLOCK}")
        if row.page_type not in _PAGES:
            part.fail("page_type", f"is {show(row.page_type)}; use {' or '.join(_PAGES)}")
        if any(row.max_buf_size <= each.max_buf_size for each in result if each.page_type == row.page_type):
            part.fail("max_buf_size", f"is {row.max_buf_size}, not larger than the one before; sort the rows by it")
        result.append(row)
    return tuple(result)
