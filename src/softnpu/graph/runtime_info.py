"""The attribute `softnpu` of an `.om`: what running needs beside the operators, as JSON.

It comes from a file, so every value that others index, unpack or count with is checked here, once.
"""

from __future__ import annotations

import json
from typing import Any

from softnpu.graph.inout import ModelInfo, damaged

_AIPP_TYPES = range(4)
_PICTURE, _PARAMETERS = 2, 3
_STEP_LISTS = ("inputs", "input_dtypes", "input_formats", "outputs", "output_dtypes", "output_shapes")
_INT64 = range(-(1 << 63), 1 << 63)


class _Wrong(ValueError):
    """A value that atc does not write."""


def read(text: Any, info: ModelInfo) -> None:
    """Take the attribute over into a description whose inputs, outputs and gears are known."""
    try:
        found = json.loads(text)
        _need(isinstance(found, dict), "it is no object")
        info.gear_outputs = [
            [_dims(dims) for dims in _list(gear, "gear_outputs")]
            for gear in _list(found.get("gear_outputs", []), "gears")
        ]
        info.gear_inputs = [_dims(gear) for gear in _list(found.get("gear_inputs", []), "gears")]
        info.extra = found.get("extra", {})
        _need(isinstance(info.extra, dict), "extra is no object")
        _check_names(info)
        _check_aipp(info)
        _check_gears(info)
        for step in _list(info.extra.get("steps") or [], "steps"):
            _check_step(step)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"its run-time attribute cannot be read ({error})") from error


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise _Wrong(what)


def _list(value: Any, word: str) -> list[Any]:
    _need(isinstance(value, list), f"{word} is no list")
    return list(value)


def _is_int(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _dims(value: Any) -> list[int]:
    found = _list(value, "dims")
    _need(all(_is_int(dim) and dim >= 0 for dim in found), "dims are no sizes")
    return found


def _check_names(info: ModelInfo) -> None:
    """The engine's names of the tensors; an input that it does not see has none."""
    for key, more in (("engine_inputs", (str, type(None))), ("engine_outputs", (str,))):
        names = _list(info.extra.get(key, []), key)
        _need(all(isinstance(name, more) for name in names), f"{key} holds something that is no name")


def _check_aipp(info: ModelInfo) -> None:
    entries = info.extra.get("aipp", {})
    _need(isinstance(entries, dict), "aipp is no object")
    inputs = {one.name for one in info.inputs}
    for name, entry in entries.items():
        _need(isinstance(entry, dict) and _is_int(entry.get("type", 0)), f"aipp of {name!r} has no type")
        _need(entry.get("type", 0) in _AIPP_TYPES and isinstance(entry.get("info", {}), dict), f"aipp of {name!r}")
        if entry.get("type") == _PICTURE:
            _need(entry.get("block") in inputs, f"aipp of {name!r} names no input for its parameters")
            numbers = [entry.get(key) for key in ("dtype", "format", "max_src_image_size")]
            _need(all(map(_is_int, numbers)), f"aipp of {name!r} lacks a number")
            shape = entry.get("shape")
            _need(isinstance(shape, list) and len(shape) == 4 and all(map(_is_int, shape)), f"aipp of {name!r}: shape")
    owners = [entry.get("block") for entry in entries.values() if entry.get("type") == _PICTURE]
    for name, entry in entries.items():
        _need(entry.get("type") != _PARAMETERS or name in owners, f"the AIPP parameters {name!r} belong to no input")


def _check_gears(info: ModelInfo) -> None:
    count = len(info.gears)
    if not count:
        _need(not info.gear_inputs and not info.gear_outputs, "there are shapes of gears, but no gears")
        return
    width = 2 if info.gear_kind == "hw" else len(info.gears[0])
    _need(width > 0 and all(len(gear) == width for gear in info.gears), "the gears have different lengths")
    _need(all(number < 1 << 31 for gear in info.gears for number in gear), "a gear is too large")
    _need(len(info.gear_inputs) == count, "the shapes of the gears do not fit the inputs")
    _need(len(info.gear_outputs) == count, "the shapes of the gears do not fit the outputs")
    _need(all(len(gear) == len(info.outputs) for gear in info.gear_outputs), "a gear lacks the shape of an output")
    largest = info.extra.get("largest_gear", 0)
    _need(_is_int(largest) and 0 <= largest < count, "the largest gear does not exist")
    names = info.extra.get("engine_inputs", [])
    kinds = info.extra.get("aipp", {})
    pairs = zip(info.inputs, names, strict=False)
    seen = [one for one, name in pairs if name is not None and kinds.get(one.name, {}).get("type") != _PARAMETERS]
    wanted = sum(len(one.dims) for one in seen)
    _need(all(len(gear) >= wanted for gear in info.gear_inputs), "a gear lacks dims of an input")


def _check_step(step: Any) -> None:
    """A turn of the engine, or one operator that runs beside it."""
    _need(isinstance(step, dict), "a step is no object")
    if "program" in step:
        _need(_is_int(step["program"]), "a step names no program")
        names = [*_list(step.get("inputs"), "inputs"), *_list(step.get("outputs"), "outputs")]
        _need(all(isinstance(name, str) for name in names), "a step takes or gives something without a name")
        return
    _need(isinstance(step.get("type"), str) and isinstance(step.get("name"), str), "a step has no type or name")
    _need(isinstance(step.get("attrs"), dict), "a step has no attributes")
    lists = {key: _list(step.get(key), key) for key in _STEP_LISTS}
    _need(all(isinstance(name, str) for name in lists["outputs"]), "a step gives something without a name")
    for one in lists["inputs"]:
        _need(isinstance(one, str | dict | None), "a step takes something without a name")
    _need(
        len(lists["inputs"]) == len(lists["input_dtypes"]) == len(lists["input_formats"])
        and len(lists["outputs"]) == len(lists["output_dtypes"]) == len(lists["output_shapes"]),
        "the lists of a step have different lengths",
    )
