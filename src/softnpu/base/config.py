"""The one door to environment variables. What they are is in `spec/environment.toml`; here they are read and checked."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softnpu.base.errors import NpuError, codes
from softnpu.spec._generated.environment import VARIABLES

_MAX_DIGITS = 18


class Variable(NamedTuple):
    """What the row of a variable says to code; the rest of it is the page."""

    default: str  # the value that holds when it is unset or empty
    choices: tuple[str, ...]
    range: tuple[int, ...]  # the least and the greatest number, or nothing


def _row(name: str) -> Variable:
    return Variable(*VARIABLES[name])


def _env(name: str) -> str:
    return os.environ.get(name, "").strip()


def value_of(name: str) -> str:
    """The value of a variable, that of its row when it is unset or empty."""
    return _env(name) or _row(name).default


_complained: set[tuple[str, str]] = set()


def _is_number(text: str) -> bool:
    """Whether a text is a whole number of sensible length, in plain digits."""
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _bad(name: str, value: str, expected: str) -> NpuError:
    """The error for a bad variable; also said once on stderr, since programs tend to ignore the ret of acl.init."""
    text = f"environment variable {name}={value!r} is not usable: {expected} is expected"
    if (name, value) not in _complained:
        _complained.add((name, value))
        sys.stderr.write(f"softnpu: {text}\n")
    return NpuError(codes.INVALID_PARAM, text, f"export {name} with such a value, or unset it", "EE2002")


def device_kinds() -> tuple[str, ...]:
    """The kinds of the devices of this machine, in order of physical id."""
    value, row = value_of("SOFTNPU_DEVICES"), _row("SOFTNPU_DEVICES")
    low, high = row.range
    expected = f"a count from {low} to {high} or a list such as host:4"
    if _is_number(value):
        kinds = ["host"] * min(int(value), high + 1)
    else:
        kinds = []
        for part in value.split(","):
            kind, _, count = part.strip().partition(":")
            if kind not in row.choices or not _is_number(count or "1"):
                raise _bad("SOFTNPU_DEVICES", value, expected)
            kinds += [kind] * min(int(count or "1"), high + 1)
    if not low <= len(kinds) <= high:
        raise _bad("SOFTNPU_DEVICES", value, expected)
    return tuple(kinds)


def visible_devices(count: int) -> tuple[int, ...]:
    """Physical ids in the order in which the program sees them (`ASCEND_RT_VISIBLE_DEVICES`)."""
    value = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return tuple(range(count))
    seen: list[int] = []
    for part in value.split(","):
        text = part.strip()
        if not _is_number(text) or int(text) >= count or int(text) in seen:
            break
        seen.append(int(text))
    return tuple(seen)


def byte_size(name: str) -> int | None:
    """A size variable such as `8G`, or None when it is not set."""
    value = _env(name)
    return parse_size(name, value) if value else None


def parse_size(name: str, value: str) -> int:
    """Bytes of a text such as `8G`; NpuError for what is no size."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    text = value.upper().removesuffix("IB").removesuffix("B")
    digits = text.rstrip("KMGT")
    if not _is_number(digits) or text[len(digits) :] not in units or int(digits) == 0:
        raise _bad(name, value, "a positive size such as 8G or 512M")
    return int(digits) * units[text[len(digits) :]]


@dataclass(frozen=True)
class Settings:
    """What the runtime takes from the environment; read once when a process object is made."""

    kinds: tuple[str, ...] = field(default_factory=device_kinds)
    soc: str = field(default_factory=lambda: value_of("SOFTNPU_SOC"))
    memory: int | None = field(default_factory=lambda: byte_size("SOFTNPU_MEMORY"))
    overcommit: bool = field(default_factory=lambda: _env("SOFTNPU_OVERCOMMIT") == "1")
    run_mode: int = field(default_factory=lambda: _run_mode())
    checks: frozenset[str] = field(default_factory=lambda: _checks())

    @property
    def visible(self) -> tuple[int, ...]:
        """Physical ids that the program may use, in its order."""
        return visible_devices(len(self.kinds))


def _run_mode() -> int:
    value = value_of("SOFTNPU_RUN_MODE")
    if value not in _row("SOFTNPU_RUN_MODE").choices:
        raise _bad("SOFTNPU_RUN_MODE", value, "host or device")
    return 1 if value == "host" else 0


def _checks() -> frozenset[str]:
    value = _env("SOFTNPU_CHECK")
    parts = {part.strip() for part in value.split(",") if part.strip()}
    if not parts <= set(_row("SOFTNPU_CHECK").choices):
        raise _bad("SOFTNPU_CHECK", value, "a comma list of leaks, trace, strict")
    return frozenset(parts | {"leaks", "trace"} if "strict" in parts else parts)


@functools.cache
def compute_threads() -> int:
    """How many threads computing may use."""
    value = _env("SOFTNPU_THREADS")
    if not value:
        return len(os.sched_getaffinity(0))
    return number("SOFTNPU_THREADS", value)


def engine() -> str:
    """The engine that the user asks for, `auto` to let it be measured."""
    return choice("SOFTNPU_ENGINE", value_of("SOFTNPU_ENGINE"))


def choice(name: str, value: str) -> str:
    """A value that its row allows; NpuError for another."""
    choices = _row(name).choices
    if choices and value not in choices:
        raise _bad(name, value, f"one of {', '.join(choices)}")
    return value


def number(name: str, value: str) -> int:
    """A number in the range of its row; NpuError for anything else."""
    low, high = _row(name).range
    if not _is_number(value) or not low <= int(value) <= high:
        raise _bad(name, value, f"a number from {low} to {high}")
    return int(value)


def allow_new_opsets() -> None:
    """Let onnxruntime take opsets that are newer than its last release; it reads this variable when it opens a model."""
    os.environ.setdefault("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")


def child_environment() -> dict[str, str]:
    """The environment of a process of ours that finds this very softnpu."""
    package = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, _env("PYTHONPATH")]).rstrip(os.pathsep)}


def whole_environment() -> dict[str, str]:
    """All variables, for a process that is to be like this one."""
    return dict(os.environ)


def take_environment(variables: dict[str, str]) -> None:
    """Have these variables and no others."""
    os.environ.clear()
    os.environ.update(variables)


def cache_dir() -> Path:
    """Where measurements are remembered between runs."""
    home = _env("XDG_CACHE_HOME")
    return Path(_env("SOFTNPU_CACHE_DIR") or Path(home or Path(os.path.expanduser("~")) / ".cache") / "softnpu")


def graph_dumps() -> tuple[int, int, Path]:
    """DUMP_GE_GRAPH (0 none, 1 all, 2 without weights, 3 only the structure), DUMP_GRAPH_LEVEL and the folder."""
    content, level = _number_or_default("DUMP_GE_GRAPH"), _number_or_default("DUMP_GRAPH_LEVEL")
    return content, level, Path(_env("DUMP_GRAPH_PATH") or _env("ASCEND_WORK_PATH") or ".")


def work_path() -> Path | None:
    """ASCEND_WORK_PATH, where tools put their files."""
    value = _env("ASCEND_WORK_PATH")
    return Path(value) if value else None


def runtime_dir() -> Path:
    """The per-user directory in which processes publish what others may see."""
    explicit = _env("SOFTNPU_RUNTIME_DIR")
    if explicit:
        return Path(explicit)
    session = _env("XDG_RUNTIME_DIR")
    if session and os.access(session, os.W_OK):
        return Path(session) / "softnpu"
    return Path(_env("TMPDIR") or "/tmp") / f"softnpu-{os.getuid()}"


@dataclass(frozen=True)
class LogSettings:
    """Log variables; bad numbers fall back to the default, since the log cannot complain about itself."""

    level: int = field(default_factory=lambda: _number_or_default("ASCEND_GLOBAL_LOG_LEVEL"))
    modules: dict[str, int] = field(default_factory=lambda: _module_levels())
    events: bool = field(default_factory=lambda: _env("ASCEND_GLOBAL_EVENT_ENABLE") != "0")
    to_stdout: bool = field(default_factory=lambda: _to_stdout())
    directory: Path = field(default_factory=lambda: _log_directory())
    files: int = field(default_factory=lambda: _number_or_default("ASCEND_HOST_LOG_FILE_NUM"))
    sync: bool = field(default_factory=lambda: _env("ASCEND_LOG_SYNC_SAVE") == "1")


def _number_or_default(name: str) -> int:
    """A number in the range of its row, its default (0 where it has none) for everything else."""
    value, row = _env(name), _row(name)
    low, high = row.range
    return int(value) if _is_number(value) and low <= int(value) <= high else int(row.default or 0)


def _module_levels() -> dict[str, int]:
    levels = {}
    for part in _env("ASCEND_MODULE_LOG_LEVEL").split(":"):
        module, _, level = part.partition("=")
        if module.strip() and level.strip() in ("0", "1", "2", "3", "4"):
            levels[module.strip().upper()] = int(level)
    return levels


def _to_stdout() -> bool:
    names = ("ASCEND_LOG_PRINT_TO_STDOUT", "ASCEND_SLOG_PRINT_TO_STDOUT", "SLOG_PRINT_TO_STDOUT")
    return next((_env(name) == "1" for name in names if _env(name)), False)


def _log_directory() -> Path:
    if path := _env("ASCEND_PROCESS_LOG_PATH"):
        return Path(path)
    if path := _env("ASCEND_WORK_PATH"):
        return Path(path) / "log"
    return Path(os.path.expanduser("~")) / "ascend" / "log"


def resource_config() -> str:
    """The description of machines and devices that a deployment is checked against; empty: none."""
    return _env("RESOURCE_CONFIG_PATH")


def ray_address(options: dict[str, str] | None = None) -> str:
    """The Ray cluster to join; empty: start one here."""
    return (options or {}).get("softnpu.flow.ray_address") or _env("RAY_ADDRESS")
