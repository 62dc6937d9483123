"""torch_npu.profiler: steps of a training as the files that Ascend's tools read.

The parts are imported when one of their names is used: programs without a profile do not pay for it.
"""

from importlib import import_module
from typing import Any

_PLACES = {
    "AiCMetrics": "experimental_config",
    "ExportType": "experimental_config",
    "HostSystem": "experimental_config",
    "ProfilerAction": "scheduler",
    "ProfilerActivity": "profiler",
    "ProfilerLevel": "experimental_config",
    "Schedule": "scheduler",
    "_ExperimentalConfig": "experimental_config",
    "analyse": "profiler",
    "profile": "profiler",
    "schedule": "scheduler",
    "supported_activities": "profiler",
    "tensorboard_trace_handler": "profiler",
}
_MODULES = ("dynamic_profile", "experimental_config", "profiler", "scheduler")
__all__ = [*_PLACES, "dynamic_profile"]  # noqa: PLE0604 (the names are texts)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"torch_npu.profiler.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'torch_npu.profiler' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"torch_npu.profiler.{_PLACES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
