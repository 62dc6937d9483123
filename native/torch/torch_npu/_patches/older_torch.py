"""What torch 2.13 does and torch 2.11 and 2.12 do not: given to them here, so that the rest of the package knows one torch."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch._C._autograd import DeviceType

_PINNING = ("is_pinned", "pin_memory")


def _of_the_accelerator(original: Any) -> Any:
    """Pinned memory is that of the accelerator in use; a storage took cuda's where no device was named."""

    @wraps(original)
    def method(self: Any, device: Any = None) -> Any:
        return original(self, device)

    return method


def _with_npu(original: Any) -> Any:
    """Memory of a device counts as shared, as cuda's does: it travels between processes without `share_memory_`."""

    @wraps(original)
    def is_shared(self: torch.UntypedStorage) -> bool:
        return self.device.type == "npu" or original(self)

    return is_shared


def install() -> None:
    """Amend an older torch; nothing is to do from 2.13 on."""
    if torch.__version__ >= (2, 13):  # type: ignore[operator]  # torch compares versions with tuples
        return
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        for name in _PINNING:
            setattr(kind, name, _of_the_accelerator(getattr(kind, name)))
    untyped: Any = torch.UntypedStorage
    untyped.is_shared = _with_npu(untyped.is_shared)
    enumerations: list[Any] = [torch.profiler.ProfilerActivity, DeviceType]
    for kinds in enumerations:
        kinds.NPU = kinds.PrivateUse1
