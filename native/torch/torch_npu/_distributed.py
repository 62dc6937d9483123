"""Joins `torch.distributed` with npu: the backends hccl and lccl, the names that programs use, and what is refused."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as _core

from softnpu.runtime.process import process
from torch_npu import _C
from torch_npu._errors import ErrCode, dist_error
from torch_npu.distributed import _groups, _rendezvous

_NAMES = {
    "ProcessGroupHCCL": _C._distributed_c10d.ProcessGroupHCCL,
    "is_hccl_available": _groups.is_hccl_available,
    "reinit_process_group": _groups.reinit_process_group,
}


def _register() -> None:
    """hccl first: the first that is registered for a device is its default."""
    for name in ("hccl", "lccl"):
        if not dist.is_backend_available(name):
            dist.Backend.register_backend(name, _groups.create, extended_api=True, devices=["npu"])
    # For "cpu:gloo,npu:hccl" torch looks whether the first of its plugins is asked for, in capitals, and never finds it: the group would
    # be without a default backend and warn when it is destroyed.
    plugins = dist.Backend._plugins
    dist.Backend._plugins = {"hccl": plugins["HCCL"], **plugins}


def _refuse_threads(original: Callable[..., None]) -> Callable[..., None]:
    """DataParallel copies a module to the devices of one process, in threads; torch does that for cuda alone, even for one device."""

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if torch._utils._get_available_device_type() == "npu":
            raise RuntimeError(
                "torch.nn.DataParallel is not supported on npu: use torch.nn.parallel.DistributedDataParallel with one process per "
                "device (torchrun, or torch.multiprocessing.spawn, and init_process_group('hccl'))"
                + dist_error(ErrCode.NOT_SUPPORT)
            )
        original(self, *args, **kwargs)

    return __init__


def _with_default(original: Callable[..., None]) -> Callable[..., None]:
    """Without a backend and a device: Gloo for tensors of the host, hccl for those of npu. torch takes the accelerator's alone."""

    @wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        if backend is None and kwargs.get("device_id") is None and torch._C._get_accelerator().type == "npu":
            backend = "cpu:gloo,npu:hccl"
        original(backend, *args, **kwargs)

    return init_process_group


def _leave() -> None:
    """Groups that a program leaves behind end before the interpreter does: Gloo's threads would outlive it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def install() -> None:
    """Once, when torch_npu is imported."""
    _register()
    for name, value in _NAMES.items():
        setattr(dist, name, value)
        setattr(_core, name, value)
    core: Any = _core
    dist.init_process_group = core.init_process_group = _with_default(core.init_process_group)
    core.rendezvous = _rendezvous.with_causes(core.rendezvous)
    sys.modules["torch_npu._C._distributed_c10d"] = _C._distributed_c10d
    _C._distributed_c10d._allow_wide_reductions(any("950" in one.soc.name for one in process().devices))
    torch.nn.DataParallel.__init__ = _refuse_threads(torch.nn.DataParallel.__init__)
    atexit.register(_leave)
