"""torch_npu: the npu device in PyTorch, over the devices of softnpu. `import torch_npu` makes `x.npu()` work."""

from __future__ import annotations

import os

_autoload_setting = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch would import this package again

import torch  # noqa: E402

if _autoload_setting is None:
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
else:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _autoload_setting

from torch_npu import _C, _start  # noqa: E402, F401

_start.connect()
torch.utils.rename_privateuse1_backend("npu")

from torch_npu import npu  # noqa: E402

torch._register_device_module("npu", npu)
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True,
    for_module=True,
    for_storage=True,
    unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8],
)


def _autoload() -> None:
    """The entry point of `torch.backends`: importing this module has done it."""
