"""The configuration file of `acl.init` (and the dump section of `acl.mdl.set_dump`): read, checked, never trusted."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log

_MAX_BYTES = 10 * 1024 * 1024
_MAX_DEPTH = 10
_ON_OFF = frozenset({"on", "off"})
_DUMP_VALUES: dict[str, frozenset[str]] = {
    "dump_mode": frozenset({"input", "output", "all"}),
    "dump_level": frozenset({"op", "kernel", "all"}),
    "dump_op_switch": _ON_OFF,
    "dump_debug": _ON_OFF,
    "dump_data": frozenset({"tensor", "stats"}),
    "dump_scene": frozenset(
        {"lite_exception", "aic_err_brief_dump", "aic_err_norm_dump", "aic_err_detail_dump", "watcher"}
    ),
}
_METRICS = frozenset(
    [
        "PipeUtilization",
        "ArithmeticUtilization",
        "Memory",
        "MemoryL0",
        "MemoryUB",
        "ResourceConflictRatio",
        "L2Cache",
        "PipelineExecuteUtilization",
        "MemoryAccess",
    ]
)
_PROFILER_VALUES: dict[str, frozenset[str]] = {
    "switch": _ON_OFF,
    "aic_metrics": _METRICS,
    "aiv_metrics": _METRICS,
    **dict.fromkeys(("ascendcl", "runtime_api", "hccl", "msproftx", "l2", "aicpu", "task_memory"), _ON_OFF),
    **dict.fromkeys(("task_time", "task_trace"), _ON_OFF | {"l0", "l1", "l2", "l3"}),
    "ge_api": frozenset({"off", "l0", "l1"}),
}


def _depth(text: str) -> int:
    """How deep braces or brackets nest, strings left out; bounds the parser before it runs."""
    deepest = braces = brackets = 0
    quoted = skip = False
    for char in text:
        if skip:
            skip = False
        elif quoted:
            skip = char == "\\"
            quoted = char != '"'
        elif char == '"':
            quoted = True
        elif char in "{}":
            braces += 1 if char == "{" else -1
        elif char in "[]":
            brackets += 1 if char == "[" else -1
        deepest = max(deepest, braces, brackets)
    return deepest


def read_json(path: str) -> dict[str, Any]:
    """A JSON object from a file, with the documented limits and codes."""
    try:
        if os.path.getsize(path) > _MAX_BYTES:
            raise NpuError(codes.PARSE_FILE, f"configuration file {path} is larger than 10 MB", "make it smaller")
        with open(path, encoding="utf-8") as file:
            text = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise NpuError(
                codes.PARSE_FILE, f"configuration file {path} is not UTF-8 text: {error}", "write it as a JSON object"
            ) from error
        reason = getattr(error, "strerror", None) or error
        raise NpuError(
            codes.INVALID_FILE,
            f"configuration file {path!r} cannot be read: {reason}",
            "check the path; it is relative to the working directory",
        ) from error
    if _depth(text) > _MAX_DEPTH:
        raise NpuError(
            codes.PARSE_FILE, f"configuration file {path} nests deeper than {_MAX_DEPTH} levels", "make it flatter"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NpuError(
            codes.PARSE_FILE, f"configuration file {path} is not valid JSON: {error}", "mend it, or leave only {} in it"
        ) from error
    if not isinstance(value, dict):
        raise NpuError(
            codes.PARSE_FILE,
            f"configuration file {path} holds a {type(value).__name__}, not an object",
            "put {} around the settings",
        )
    return value


def _check_values(section: dict[str, Any], allowed: dict[str, frozenset[str]], code: int, name: str) -> None:
    for key, values in allowed.items():
        if key in section and section[key] not in values:
            raise NpuError(code, f"{name}.{key} is {section[key]!r}", f"use one of {', '.join(sorted(values))}")


def check_dump(section: Any) -> dict[str, Any]:
    """The `dump` section; raises the dump code for what it cannot mean."""
    code = codes.INVALID_DUMP_CONFIG
    if not isinstance(section, dict):
        raise NpuError(code, f"the dump section is a {type(section).__name__}, not an object", 'write {"dump": {…}}')
    for key in (
        "dump_mode",
        "dump_level",
        "dump_op_switch",
        "dump_debug",
        "dump_data",
        "dump_scene",
        "dump_path",
        "dump_step",
    ):
        if key in section and not isinstance(section[key], str):
            raise NpuError(code, f"dump.{key} is {section[key]!r}, not a string", "put it in quotes")
    _check_values(section, _DUMP_VALUES, code, "dump")
    layers = section.get("dump_list", [])
    if not isinstance(layers, list) or not all(isinstance(one, dict) for one in layers):
        raise NpuError(code, "dump.dump_list is not a list of objects", 'write [] or [{"model_name": …}]')
    scene = section.get("dump_scene")
    writes = "dump_list" in section or section.get("dump_debug") == "on" or scene == "watcher"
    if writes and not scene:
        path = section.get("dump_path", "")
        if not path or not os.path.isdir(path):
            raise NpuError(
                code, f"dump.dump_path {path!r} is no existing directory", "create it first; dump data go there"
            )
    if section.get("dump_debug") == "on" and (layers or section.get("dump_op_switch") == "on"):
        raise NpuError(code, "dump_debug cannot be combined with model or operator dump", "use one of them")
    _check_steps(section.get("dump_step", ""))
    return section


def _check_steps(text: str) -> None:
    for part in text.split("|") if text else ():
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and (not high.isdigit() or int(high) < int(low))):
            raise NpuError(
                codes.INVALID_DUMP_CONFIG,
                f"dump.dump_step {text!r} is not understood at {part!r}",
                "write parts such as 0|3-5|10",
            )


def check_profiler(section: Any) -> dict[str, Any]:
    """The `profiler` section; raises the profiling code for what it cannot mean."""
    code = codes.INVALID_PROFILING_CONFIG
    if not isinstance(section, dict):
        raise NpuError(
            code, f"the profiler section is a {type(section).__name__}, not an object", 'write {"profiler": {…}}'
        )
    if any(key in section and not isinstance(section[key], str) for key in _PROFILER_VALUES):
        raise NpuError(code, "a value of the profiler section is not a string", "put all values in quotes")
    _check_values(section, _PROFILER_VALUES, code, "profiler")
    return section


@dataclass(frozen=True)
class InitConfig:
    """What `acl.init` was told."""

    dump: dict[str, Any] = field(default_factory=dict)
    profiler: dict[str, Any] = field(default_factory=dict)
    max_opqueue_num: int = 20000
    err_msg_per_process: bool = False
    default_device: int | None = None
    stack_sizes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | None) -> InitConfig:
        """Read and check a file; no path, an empty one and `{}` all mean defaults."""
        raw = read_json(path) if path else {}
        return cls(
            dump=check_dump(raw["dump"]) if raw.get("dump") else {},
            profiler=check_profiler(raw["profiler"]) if raw.get("profiler") else {},
            max_opqueue_num=_queue_length(raw.get("max_opqueue_num", "20000")),
            err_msg_per_process=_message_mode(raw.get("err_msg_mode", "0")),
            default_device=_default_device(raw.get("defaultDevice")),
            stack_sizes=_stack_sizes(raw.get("StackSize", {})),
        )

    def warn_about_missing(self) -> None:
        """Say which accepted settings have no effect in this version."""
        for name, asked in (
            ("dump", bool(self.dump)),
            ("profiler", self.profiler.get("switch") == "on"),
            ("StackSize", bool(self.stack_sizes)),
        ):
            if asked:
                log().write(
                    WARNING,
                    f"the {name} section of the configuration is read, but this version of softnpu does not act on it",
                    "ASCENDCL",
                    "init",
                )


def _queue_length(value: Any) -> int:
    text = value if isinstance(value, str) else ""
    if not (text.isascii() and text.isdigit()) or int(text) == 0:
        raise NpuError(
            codes.INVALID_MAX_OPQUEUE_NUM_CONFIG,
            f"max_opqueue_num is {value!r}",
            'write a positive number in quotes, e.g. "20000"',
        )
    return int(text)


def _message_mode(value: Any) -> bool:
    if value not in ("0", "1"):
        raise NpuError(codes.INVALID_PARAM, f"err_msg_mode is {value!r}", 'write "0" (per thread) or "1" (per process)')
    return bool(value == "1")


def _default_device(section: Any) -> int | None:
    if section is None:
        return None
    text = section.get("default_device") if isinstance(section, dict) else None
    if not isinstance(text, str) or not (text.isascii() and text.isdigit()):
        raise NpuError(
            codes.FAILURE, f"defaultDevice is {section!r}", 'write {"defaultDevice": {"default_device": "0"}}'
        )
    return int(text)


def _stack_sizes(section: Any) -> dict[str, Any]:
    if not isinstance(section, dict) or any(
        isinstance(v, bool) or not isinstance(v, int) or v <= 0 for v in section.values()
    ):
        raise NpuError(
            codes.INVALID_PARAM, f"StackSize is {section!r}", 'write numbers, e.g. {"aicore_stack_size": 32768}'
        )
    return section
