"""`torch.autograd.profiler.profile` that knows npu, figures under their older names, and the profilers in `torch.npu`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch.autograd import profiler_util

from softnpu.base.log import INFO, log
from torch_npu.npu import mstx, profiling
from torch_npu.profiler._autograd import profile

_FIGURES = (
    "device_time",
    "device_time_total",
    "self_device_time_total",
    "device_memory_usage",
    "self_device_memory_usage",
)
_TEXTS = ("device_time_str", "device_time_total_str", "self_device_time_total_str")


def _alias(name: str) -> property:
    return property(lambda self: getattr(self, name), doc=f"`{name}` for npu.")


def _name_figures() -> None:
    """Figures of events under their names of torch 1.8.1, and as a metric of stacks."""
    for kind in (profiler_util.FunctionEvent, profiler_util.FunctionEventAvg):
        for name in (*_FIGURES, *_TEXTS):
            setattr(kind, name.replace("device", "npu"), _alias(name))
    events: Any = profiler_util.EventList
    known = events.supported_export_stacks_metrics
    events.supported_export_stacks_metrics = lambda self: [*known(self), "self_npu_time_total"]


def install(package: ModuleType) -> None:
    """Take the place of torch's; the profilers of the devices go into `torch.npu`."""
    module: Any = torch.autograd.profiler
    profile.__module__ = module.__name__
    module.profile = profile
    _name_figures()
    if log().enabled(INFO, "ASCENDCL"):
        from torch_npu._watch.operator_log import OpInfo  # needs more imports than programs without it should pay for

        OpInfo().start()
    for name in profiling.__all__:
        setattr(package.npu, name, getattr(profiling, name))
    package.npu.mstx = mstx
