"""`torch.distributed`: nccl means hccl, cuda meshes are npu meshes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from torch_npu.contrib._after_import import after_import
from torch_npu.contrib._transfer_values import npu_of, translated

_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def backend_of(name: Any) -> Any:
    """`nccl` and `cpu:gloo,cuda:nccl` with npu's words."""
    if not isinstance(name, str):
        return name
    parts = (part.strip().split(":") for part in name.split(","))
    words = {"nccl": "hccl", "cuda": "npu"}
    return ",".join(":".join(words.get(word.lower(), word) for word in part) for part in parts)


def _with_backend(original: Callable[..., Any], position: int) -> Callable[..., Any]:
    """Translate the backend, by keyword or in its place, and a `device_id`."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > position:
            args = (*args[:position], backend_of(args[position]), *args[position + 1 :])
        if "backend" in kwargs:
            kwargs["backend"] = backend_of(kwargs["backend"])
        if kwargs.get("device_id") is not None:
            kwargs["device_id"] = npu_of(kwargs["device_id"])
        return original(*args, **kwargs)

    return call


def _fsdp(module: ModuleType) -> None:
    kind: Any = vars(module)["FullyShardedDataParallel"]
    kind.__init__ = translated(kind.__init__)


def install() -> list[str]:
    """Do it where torch was built with distributed, and tell the names."""
    if not torch.distributed.is_available():
        return []
    names: Any = torch.distributed
    core: Any = torch.distributed.distributed_c10d
    for name, position in (("init_process_group", 0), ("new_group", 2)):
        value = _with_backend(getattr(names, name), position)
        setattr(names, name, value)
        setattr(core, name, value)
    names.is_nccl_available = core.is_nccl_available = lambda: "hccl" in getattr(names.Backend, "backend_list", ())
    hccl = getattr(names, "ProcessGroupHCCL", None)
    if hccl is not None:
        names.ProcessGroupNCCL = core.ProcessGroupNCCL = hccl
    mesh: Any = torch.distributed.device_mesh
    mesh.init_device_mesh = names.init_device_mesh = translated(mesh.init_device_mesh)
    mesh.DeviceMesh.__init__ = translated(mesh.DeviceMesh.__init__)
    after_import(_FSDP, _fsdp)
    names = ("init_process_group", "new_group", "is_nccl_available", "init_device_mesh", "DeviceMesh")
    return [f"torch.distributed.{name}" for name in names]
