"""Joins `torch.distributed` with npu: the backends hccl and lccl, the names that programs use, and what is refused."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as _core

from torch_npu import _C
from torch_npu._errors import ErrCode, dist_error
from torch_npu._runtime.devices import process
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
        module = args[0] if args else kwargs.get("module")
        on_npu = isinstance(module, torch.nn.Module) and any(each.device.type == "npu" for each in module.parameters())
        if (
            on_npu or torch._utils._get_available_device_type() == "npu"
        ):  # beside a GPU, modules of cuda are none of ours
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


def _with_hccl(original: Callable[..., None]) -> Callable[..., None]:
    """torch sets the timeout of the backends that it knows, and warns where there is none of them."""

    @wraps(original)
    def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        whole = group if group is not None else dist.group.WORLD
        devices = () if whole is None or whole is dist.GroupMember.NON_GROUP_MEMBER else whole._device_types
        if torch.device("npu") in devices:
            _groups.hccl_of(whole)._set_default_timeout(timeout)
            if list(devices) == [torch.device("npu")]:
                return
        original(timeout, group)

    return _set_pg_timeout


def _with_type(original: Callable[..., Any]) -> Callable[..., Any]:
    """Pipelines of torch 2.12 name the devices whose random state is kept, but not their type, which is cuda then."""

    @wraps(original)
    def fork_rng(devices: Any = None, *args: Any, **kwargs: Any) -> Any:
        devices = None if devices is None else list(devices)
        if (
            devices
            and not args
            and all(isinstance(device, torch.device) and device.type == "npu" for device in devices)
        ):
            kwargs.setdefault("device_type", "npu")
        return original(devices, *args, **kwargs)

    return fork_rng


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
    core._set_pg_timeout = _with_hccl(core._set_pg_timeout)
    core.rendezvous = _rendezvous.with_causes(core.rendezvous)
    sys.modules["torch_npu._C._distributed_c10d"] = _C._distributed_c10d
    _C._distributed_c10d._allow_wide_reductions(any("950" in device.soc.name for device in process().devices))
    torch.random.fork_rng = _with_type(torch.random.fork_rng)
    parallel: Any = torch.nn.DataParallel
    parallel.__init__ = _refuse_threads(parallel.__init__)
    atexit.register(_leave)
