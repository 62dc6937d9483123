"""How graphs are run: the settings of this room, with its own kind of error. Their rows are in `spec/environment.toml`."""

from __future__ import annotations

from dataclasses import dataclass

from softnpu.base import config
from softnpu.base.errors import NpuError
from softnpu.flow import codes
from softnpu.flow.errors import DfException


@dataclass(frozen=True)
class FlowSettings:
    """How DataFlow graphs are run."""

    engine: str = "embedded"
    on_death: str = "restart"
    restarts: int = 3
    strict: bool = False
    memory_limit: int = 0
    workspace: bool = False
    timeline: str = ""
    metrics_port: int = 0
    metrics_token: str = ""


def load(options: dict[str, str] | None) -> FlowSettings:
    """Options before environment variables; DfException 145000 for a value that means nothing."""
    try:
        return _read(options or {})
    except NpuError as problem:
        raise DfException(f"{problem.text}: {problem.remedy}.", codes.PARAM_INVALID) from problem


def _read(options: dict[str, str]) -> FlowSettings:
    def text(key: str) -> str:
        name = _variable(key)
        return config.choice(name, options.get(f"softnpu.flow.{key}") or config.value_of(name))

    def number(key: str) -> int:
        return config.number(_variable(key), text(key) or "0")

    return FlowSettings(
        engine=text("engine"),
        on_death=text("on_death"),
        restarts=number("restarts"),
        strict=text("strict") == "1",
        memory_limit=_memory_limit(text("memory")),
        workspace=text("workspace") == "1",
        timeline=text("timeline"),
        metrics_port=number("metrics_port"),
        metrics_token=text("metrics_token"),
    )


def _variable(key: str) -> str:
    return f"SOFTNPU_FLOW_{key.upper()}"


def _memory_limit(value: str) -> int:
    """Bytes that a worker may allocate; by default what the machine has free, so that a mistake ends in MemoryError."""
    if value:
        return 0 if value == "0" else config.parse_size(_variable("memory"), value)
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0  # another system: no limit
    return 0
