"""The configuration file of `acl.init` (and the dump section of `acl.mdl.set_dump`): read, checked, never trusted."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
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
_PROFILER_LISTS: dict[str, frozenset[str]] = {
    "host_sys": frozenset({"cpu", "mem", "disk", "network", "osrt"}),
    "host_sys_usage": frozenset({"cpu", "mem"}),
}
_PROFILER_FREQUENCIES = (
    "sys_hardware_mem_freq", "sys_io_sampling_freq", "sys_interconnection_freq", "dvpp_freq", "instr_profiling_freq",
    "sys_lp_freq", "host_sys_usage_freq",
)  # fmt: skip
_PROFILER_STRINGS = (
    *_PROFILER_VALUES,
    *_PROFILER_LISTS,
    *_PROFILER_FREQUENCIES,
    "output",
    "storage_limit",
    "llc_profiling",
)
_MIN_STORAGE_MB = 200
_INSTRUCTION_HZ = range(300, 30001)
_EXCEPTION_SCENES = _DUMP_VALUES["dump_scene"] - {"watcher"}
_KERNEL_DATA = frozenset({"all", "printf", "tensor", "assert", "timestamp"})
_MAX_DIGITS = 18

# A string (the closing quote may be missing: the parser will say so) or something that nests.
_NESTING = r'"[^"\\]*(?:\\.[^"\\]*)*"?|[][{}]'  # compiled when a configuration is read


def _too_deep(text: str) -> bool:
    """Whether braces or brackets nest too deep, strings left out; bounds the parser before it runs."""
    depth = {"{": 0, "[": 0}
    for token in re.finditer(_NESTING, text, re.DOTALL):
        match token[0]:
            case "{" | "[" as opening:
                depth[opening] += 1
                if depth[opening] > _MAX_DEPTH:
                    return True
            case "}":
                depth["{"] -= 1
            case "]":
                depth["["] -= 1
    return False


def _whole_number(text: Any) -> int | None:
    """The number that a string of digits stands for; None when it is none, or one beyond all sense."""
    fits = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    return int(text) if fits else None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _read_text(path: str) -> str:
    # Without O_NONBLOCK, opening a pipe would wait for its other end.
    with open(path, encoding="utf-8-sig", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())  # of the open file: a path may become another one meanwhile
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if status.st_size > _MAX_BYTES:
            raise NpuError(codes.PARSE_FILE, f"configuration file {path} is larger than 10 MB", "make it smaller")
        return file.read(_MAX_BYTES + 1)


def read_json(path: str) -> dict[str, Any]:
    """A JSON object from a file, with the documented limits and codes."""
    try:
        text = _read_text(path)
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
    if _too_deep(text):
        raise NpuError(
            codes.PARSE_FILE, f"configuration file {path} nests deeper than {_MAX_DEPTH} levels", "make it flatter"
        )
    try:
        value = json.loads(text, parse_constant=_no_constant)
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
        "dump_kernel_data",
    ):
        if key in section and not isinstance(section[key], str):
            raise NpuError(code, f"dump.{key} is {section[key]!r}, not a string", "put it in quotes")
    _check_values(section, _DUMP_VALUES, code, "dump")
    layers = section.get("dump_list", [])
    if not isinstance(layers, list) or not all(_names_layers(layer) for layer in layers):
        raise NpuError(
            code,
            "dump.dump_list is not a list of objects with names",
            'write [] or [{"model_name": "m", "layer": ["a"]}]',
        )
    scene = section.get("dump_scene")
    watches, overflow = scene == "watcher", section.get("dump_debug") == "on"
    operators = section.get("dump_op_switch") == "on"
    models = any(layers) and not watches
    if watches or overflow or operators or ("dump_list" in section and not scene):
        path = section.get("dump_path", "")
        if not path or not os.path.isdir(path):
            raise NpuError(
                code, f"dump.dump_path {path!r} is no existing directory", "create it first; dump data go there"
            )
    if overflow and (models or operators):
        raise NpuError(code, "dump_debug cannot be combined with model or operator dump", "use one of them")
    if scene in _EXCEPTION_SCENES and (models or operators):
        raise NpuError(code, f"dump_scene {scene} cannot be combined with model or operator dump", "use one of them")
    if not set(section.get("dump_kernel_data", "all").split(",")) <= _KERNEL_DATA:
        raise NpuError(
            code,
            f"dump.dump_kernel_data is {section['dump_kernel_data']!r}",
            f"write a comma list of {', '.join(sorted(_KERNEL_DATA))}",
        )
    _check_steps(section.get("dump_step", ""))
    return section


def _names_layers(entry: Any) -> bool:
    """Whether an entry of `dump_list` is an object whose known keys hold names."""
    if not isinstance(entry, dict) or not isinstance(entry.get("model_name", ""), str):
        return False
    lists = (entry.get("layer", []), entry.get("watcher_nodes", []))
    return all(isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists)


def _check_steps(text: str) -> None:
    for part in text.split("|") if text else ():
        low, dash, high = part.partition("-")
        first, last = _whole_number(low), _whole_number(high if dash else low)
        if first is None or last is None or last < first:
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
    for key in _PROFILER_STRINGS:
        if key in section and not isinstance(section[key], str):
            raise NpuError(code, f"profiler.{key} is {section[key]!r}, not a string", "put all values in quotes")
    _check_values(section, _PROFILER_VALUES, code, "profiler")
    for key, values in _PROFILER_LISTS.items():
        if key in section and not set(section[key].split(",")) <= values:
            raise NpuError(
                code, f"profiler.{key} is {section[key]!r}", f"write a comma list of {', '.join(sorted(values))}"
            )
    _check_profiler_numbers(section, code)
    return section


def _check_profiler_numbers(section: dict[str, Any], code: int) -> None:
    limit = section.get("storage_limit", f"{_MIN_STORAGE_MB}MB")
    if not limit.endswith("MB") or (_whole_number(limit[:-2]) or 0) < _MIN_STORAGE_MB:
        raise NpuError(code, f"profiler.storage_limit is {limit!r}", f'write "{_MIN_STORAGE_MB}MB" or more')
    for key in _PROFILER_FREQUENCIES:
        if key not in section:
            continue
        hertz = _whole_number(section[key])
        if not hertz or (key == "instr_profiling_freq" and hertz not in _INSTRUCTION_HZ):
            raise NpuError(
                code, f"profiler.{key} is {section[key]!r}", 'write a frequency in Hz, e.g. "50" (instr: 300 to 30000)'
            )


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
            dump=check_dump(raw.get("dump", {})),
            profiler=check_profiler(raw.get("profiler", {})),
            max_opqueue_num=_queue_length(raw.get("max_opqueue_num", "20000")),
            err_msg_per_process=_message_mode(raw.get("err_msg_mode", "0")),
            default_device=_default_device(raw.get("defaultDevice")),
            stack_sizes=_stack_sizes(raw.get("StackSize", {})),
        )

    def warn_about_missing(self) -> None:
        """Say which accepted settings have no effect in this version."""
        for name, asked in (
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
    number = _whole_number(value)
    if not number:
        raise NpuError(
            codes.INVALID_MAX_OPQUEUE_NUM_CONFIG,
            f"max_opqueue_num is {value!r}",
            'write a positive number in quotes, e.g. "20000"',
        )
    return number


def _message_mode(value: Any) -> bool:
    if value not in ("0", "1"):
        raise NpuError(codes.INVALID_PARAM, f"err_msg_mode is {value!r}", 'write "0" (per thread) or "1" (per process)')
    return bool(value == "1")


def _default_device(section: Any) -> int | None:
    if section is None:
        return None
    index = _whole_number(section.get("default_device")) if isinstance(section, dict) else None
    if index is None:
        raise NpuError(
            codes.FAILURE, f"defaultDevice is {section!r}", 'write {"defaultDevice": {"default_device": "0"}}'
        )
    return index


def _stack_sizes(section: Any) -> dict[str, Any]:
    if not isinstance(section, dict) or any(
        isinstance(v, bool) or not isinstance(v, int) or v <= 0 for v in section.values()
    ):
        raise NpuError(
            codes.INVALID_PARAM, f"StackSize is {section!r}", 'write numbers, e.g. {"aicore_stack_size": 32768}'
        )
    return section
