"""What a profile may be asked for beside times: levels, metrics, kinds of files."""

from __future__ import annotations

from enum import Enum
from typing import Any

from torch_npu.profiler._say import warn


class ProfilerLevel:
    """How much tables say: Level0 names and times of kernels, from Level1 on also shapes and statistics."""

    Level_none, Level0, Level1, Level2 = "Level_none", "Level0", "Level1", "Level2"


class AiCMetrics:
    """Counters of the AI cores. Nothing here counts them."""

    PipeUtilization, ArithmeticUtilization, Memory = ("PipeUtilization", "ArithmeticUtilization", "Memory")
    MemoryL0, MemoryUB, ResourceConflictRatio = ("MemoryL0", "MemoryUB", "ResourceConflictRatio")
    L2Cache, MemoryAccess, AiCoreNone = "L2Cache", "MemoryAccess", "AiCoreNone"


class ExportType:
    """Files of text, a database, or both (in a list)."""

    Text, Db = "text", "db"


class HostSystem(Enum):
    """Samplers of the host."""

    CPU, MEM, DISK, NETWORK, OSRT, NUMA = ("cpu", "mem", "disk", "network", "osrt", "numa")


_LEVELS = ("Level_none", "Level0", "Level1", "Level2")
_METRICS = tuple(value for name, value in vars(AiCMetrics).items() if not name.startswith("_"))
_NOT_HERE = {
    "l2_cache": "data of the L2 cache",
    "op_attr": "attributes of operators",
    "record_op_args": "values of arguments",
    "gc_detect_threshold": "times of Python's garbage collection",
    "host_sys": "load of the host",
    "sys_io": "data of network cards",
    "sys_interconnection": "data of the links between devices",
}


class _ExperimentalConfig:
    """Options; a value that makes no sense is said and replaced by the default, one that is not supported is said."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.PipeUtilization,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        mstx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | list[str] | None = None,
        host_sys: list[HostSystem] | None = None,
        mstx_domain_include: list[str] | None = None,
        mstx_domain_exclude: list[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ) -> None:
        arguments = locals()
        for name, what in _NOT_HERE.items():
            if arguments[name]:
                warn(f"{name} is not supported by softnpu: there are no {what} here, the profile goes on without them")
        self.profiler_level = _one_of("profiler_level", profiler_level, _LEVELS, ProfilerLevel.Level0)
        self.aic_metrics = self._metrics(_one_of("aic_metrics", aic_metrics, _METRICS, AiCMetrics.PipeUtilization))
        self.export_type = _export_types(export_type)
        self.mstx = bool(mstx or msprof_tx)
        self.msprof_tx, self.data_simplification = msprof_tx, data_simplification
        self.mstx_domain_include, self.mstx_domain_exclude = (mstx_domain_include or [], mstx_domain_exclude or [])
        if mstx_domain_include and mstx_domain_exclude:
            warn("mstx_domain_include and mstx_domain_exclude exclude each other: mstx_domain_exclude is left away")
            self.mstx_domain_exclude = []

    def _metrics(self, wanted: str) -> str:
        if wanted == AiCMetrics.AiCoreNone:
            return wanted
        if self.profiler_level in (ProfilerLevel.Level0, ProfilerLevel.Level_none):
            if wanted != AiCMetrics.PipeUtilization:  # the default, which nobody asked for
                warn(f"aic_metrics {wanted} needs Level1 or Level2: reset to AiCoreNone")
        else:
            warn(f"aic_metrics {wanted} is not supported by softnpu: kernel_details has no columns of counters")
        return AiCMetrics.AiCoreNone

    def wants_domain(self, domain: str) -> bool:
        """Whether marks of a domain are kept."""
        if not self.mstx or domain in self.mstx_domain_exclude:
            return False
        return not self.mstx_domain_include or domain in self.mstx_domain_include

    def as_json(self) -> dict[str, Any]:
        """As `profiler_info` has it."""
        return {
            "_profiler_level": self.profiler_level,
            "_aic_metrics": "ACL_AICORE_NONE",
            "_l2_cache": False,
            "_msprof_tx": self.mstx,
            "_mstx": self.mstx,
            "_data_simplification": self.data_simplification,
            "_export_type": self.export_type,
            "mstx_domain_include": self.mstx_domain_include,
            "mstx_domain_exclude": self.mstx_domain_exclude,
        }


def _one_of(name: str, value: Any, choices: tuple[str, ...], default: str) -> str:
    if value in choices:
        return str(value)
    warn(f"{name} should be one of {', '.join(choices)} but got {value!r}: {default} is taken")
    return default


def _export_types(value: str | list[str] | None) -> list[str]:
    if value is None:
        return [ExportType.Text]
    wanted = [value] if isinstance(value, str) else list(value)
    known = [kind for kind in dict.fromkeys(wanted) if kind in (ExportType.Text, ExportType.Db)]
    if not known or len(known) != len(set(wanted)):
        warn(f"export_type should be text, db or a list of them but got {value!r}: {known or ['text']} is taken")
    return known or [ExportType.Text]
