"""The attribute `softnpu` of an `.om`: what running needs beside the operators, as JSON.

It comes from a file, so every value that others index, unpack or count with is checked here, once.
"""

from __future__ import annotations

import json
from typing import Any

from softnpu.graph.inout import AippEntry, ModelInfo, RunInfo, damaged

_AIPP_TYPES = range(4)
_STATIC, _PICTURE, _PARAMETERS = 1, 2, 3
_OF_PICTURES = ("block", "feature", "dtype", "format", "shape", "max_src_image_size")
_STEP_LISTS = ("inputs", "input_dtypes", "input_formats", "outputs", "output_dtypes", "output_shapes")
_INT64 = range(-(1 << 63), 1 << 63)


class _Wrong(ValueError):
    """A value that atc does not write."""


def read(text: Any, info: ModelInfo) -> None:
    """Take the attribute over into a description whose inputs, outputs and gears are known."""
    try:
        content = json.loads(text)
        _need(isinstance(content, dict), "it is no object")
        info.gear_outputs = [
            [_dims(dims) for dims in _list(gear, "gear_outputs")]
            for gear in _list(content.get("gear_outputs", []), "gears")
        ]
        info.gear_inputs = [_dims(gear) for gear in _list(content.get("gear_inputs", []), "gears")]
        extra = content.get("extra", {})
        _need(isinstance(extra, dict), "extra is no object")
        info.run = RunInfo(
            _aipp(extra.get("aipp", {}), {tensor.name for tensor in info.inputs}),
            _names(extra, "engine_inputs", (str, type(None))),
            bool(extra.get("exact_casts")),
            bool(extra.get("status_check")),
            _names(extra, "engine_outputs", (str,)),
            extra.get("largest_gear", 0),
            extra.get("single_op"),
            _list(extra.get("steps") or [], "steps"),
        )
        _check_gears(info)
        for step in info.run.steps:
            _check_step(step)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(f"its run-time attribute cannot be read ({error})") from error


def write(info: ModelInfo) -> str:
    """The attribute as text; what is not set is left out."""
    run = info.run
    extra: dict[str, Any] = {}
    if run.aipp:
        extra["aipp"] = {name: _aipp_json(entry) for name, entry in run.aipp.items()}
    extra["engine_inputs"] = run.engine_inputs
    extra |= {key: 1 for key in ("exact_casts", "status_check") if getattr(run, key)}
    extra["engine_outputs"] = run.engine_outputs
    if info.gears:
        extra["largest_gear"] = run.largest_gear
    if run.single_op is not None:
        extra["single_op"] = run.single_op
    extra["steps"] = run.steps
    content = {
        "gear_kind": info.gear_kind,
        "gear_outputs": info.gear_outputs,
        "gear_inputs": info.gear_inputs,
        "extra": extra,
    }
    return json.dumps(content, separators=(",", ":"))


def _aipp_json(entry: AippEntry) -> dict[str, Any]:
    content: dict[str, Any] = {"type": entry.type}
    if entry.type == _STATIC:
        content["info"] = entry.info
    elif entry.type == _PICTURE:
        content |= {key: getattr(entry, key) for key in _OF_PICTURES}
    return content


def _need(fits: bool, what: str) -> None:
    if not fits:
        raise _Wrong(what)


def _list(value: Any, what: str) -> list[Any]:
    _need(isinstance(value, list), f"{what} is no list")
    return list(value)


def _is_int(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _dims(value: Any) -> list[int]:
    dims = _list(value, "dims")
    _need(all(_is_int(dim) and dim >= 0 for dim in dims), "dims are no sizes")
    return dims


def _names(extra: dict[str, Any], key: str, types: tuple[type, ...]) -> list[Any]:
    """The engine's names of the tensors; an input that it does not see has none."""
    names = _list(extra.get(key, []), key)
    _need(all(isinstance(name, types) for name in names), f"{key} holds something that is no name")
    return names


def _aipp(entries: Any, inputs: set[str]) -> dict[str, AippEntry]:
    """What is said of the AIPP of each input."""
    _need(isinstance(entries, dict), "aipp is no object")
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
    return {
        name: AippEntry(
            entry.get("type", 0),
            entry.get("info", {}),
            **({key: entry[key] for key in _OF_PICTURES if key in entry} if entry.get("type") == _PICTURE else {}),
        )
        for name, entry in entries.items()
    }


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
    run = info.run
    _need(_is_int(run.largest_gear) and 0 <= run.largest_gear < count, "the largest gear does not exist")
    pairs = zip(info.inputs, run.engine_inputs, strict=False)
    seen = [tensor for tensor, name in pairs if name is not None and run.aipp_type(tensor.name) != _PARAMETERS]
    wanted = sum(len(tensor.dims) for tensor in seen)
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
    for source in lists["inputs"]:
        _need(isinstance(source, str | dict | None), "a step takes something without a name")
    _need(
        len(lists["inputs"]) == len(lists["input_dtypes"]) == len(lists["input_formats"])
        and len(lists["outputs"]) == len(lists["output_dtypes"]) == len(lists["output_shapes"]),
        "the lists of a step have different lengths",
    )
