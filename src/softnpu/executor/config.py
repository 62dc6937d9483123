"""Configuration objects of loading and of running: options by number, with the types that the binding takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from softnpu.base.errors import NpuError, codes
from softnpu.base.log import WARNING, log

PRIORITY, LOAD_TYPE, PATH, MEM_ADDR, MEM_SIZE, WEIGHT_ADDR, WEIGHT_SIZE, WORK_ADDR, WORK_SIZE = range(9)
FROM_FILE, FROM_FILE_WITH_MEM, FROM_MEM, FROM_MEM_WITH_MEM, FROM_FILE_WITH_Q, FROM_MEM_WITH_Q = range(1, 7)
_STRINGS = frozenset({2, 14})
_ATTRS = range(29)
_M64 = (1 << 64) - 1
_MAX_PRIORITY = 7


def _no_effect(kind: str, attr: int) -> None:
    log().write(
        WARNING, f"option {attr} of a {kind} configuration is kept and has no effect here", "ASCENDCL", "set_config_opt"
    )


@dataclass
class LoadConfig:
    """How `load_with_config` loads."""

    values: dict[int, Any] = field(default_factory=dict)

    def set(self, attr: int, value: Any) -> None:
        """Set an option; TypeError for a value of the wrong type."""
        if attr not in _ATTRS:
            raise NpuError(
                codes.INVALID_PARAM,
                f"option {attr} of a load configuration is not known",
                "use a value of aclmdlConfigAttr (0 to 28)",
            )
        if attr == PATH:
            if not isinstance(value, str):
                raise TypeError
            self.values[attr] = value
            return
        if attr in _STRINGS and isinstance(value, str):
            self.values[attr] = value
            return
        if not isinstance(value, int):
            raise TypeError
        if attr == PRIORITY and not 0 <= value <= _MAX_PRIORITY:
            raise NpuError(
                codes.INVALID_PARAM, f"priority {value} is outside of 0 to {_MAX_PRIORITY}", "0 is the highest priority"
            )
        if attr == LOAD_TYPE and value not in range(1, 7):
            raise NpuError(
                codes.INVALID_PARAM,
                f"load type {value} is not known",
                "use 1 (file), 2 (file with memory), 3 (memory), 4 (memory with memory)",
            )
        if attr == PRIORITY or attr > WORK_SIZE:
            _no_effect("load", attr)
        self.values[attr] = value & _M64

    def resolve(self) -> tuple[str, str, tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Kind of source, path, model memory, work memory and weight memory."""
        kind = self.values.get(LOAD_TYPE)
        if kind is None:
            raise NpuError(
                codes.INVALID_PARAM, "the load type was not set", "call acl.mdl.set_config_opt(handle, 1, type) first"
            )
        if kind in (FROM_FILE_WITH_Q, FROM_MEM_WITH_Q):
            raise NpuError(
                codes.API_NOT_SUPPORT,
                "models driven by queues are not supported",
                "load the model from a file or from memory",
            )
        work = weight = (0, 0)
        if kind in (FROM_FILE_WITH_MEM, FROM_MEM_WITH_MEM):
            work = (self.values.get(WORK_ADDR, 0), self.values.get(WORK_SIZE, 0))
            weight = (self.values.get(WEIGHT_ADDR, 0), self.values.get(WEIGHT_SIZE, 0))
        if kind in (FROM_FILE, FROM_FILE_WITH_MEM):
            if PATH not in self.values:
                raise NpuError(
                    codes.INVALID_PARAM,
                    "the path of the model was not set",
                    "call acl.mdl.set_config_opt(handle, 2, path)",
                )
            return "file", self.values[PATH], (0, 0), work, weight
        memory = (self.values.get(MEM_ADDR, 0), self.values.get(MEM_SIZE, 0))
        if not all(memory):
            raise NpuError(
                codes.INVALID_PARAM, "address or size of the model in memory was not set", "set options 3 and 4"
            )
        return "memory", "", memory, work, weight


@dataclass
class ExecConfig:
    """How `execute_v2` runs."""

    values: dict[int, int] = field(default_factory=dict)

    def set(self, attr: int, value: Any) -> None:
        """Set an option; TypeError for a value of the wrong type."""
        if attr not in range(4):
            raise NpuError(
                codes.INVALID_PARAM,
                f"option {attr} of a run configuration is not known",
                "use a value of aclmdlExecConfigAttr (0 to 3)",
            )
        if not isinstance(value, int):
            raise TypeError
        if attr in (0, 1) and value < -1:
            raise NpuError(
                codes.INVALID_PARAM,
                f"a timeout of {value} ms is not possible",
                "use -1 to wait for ever, or a positive number",
            )
        if attr:
            _no_effect("run", attr)
        self.values[attr] = value

    @property
    def timeout(self) -> float | None:
        """Seconds to wait for the run, None for ever."""
        value = self.values.get(0, -1)
        return None if value in (-1, 0) else value / 1000
