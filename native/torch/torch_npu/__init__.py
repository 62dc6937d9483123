"""torch_npu: the npu device in PyTorch, over the devices of softnpu. `import torch_npu` makes `x.npu()` work."""

from __future__ import annotations

import os
import sys

_autoload_setting = os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"  # torch would import this package again

import torch  # noqa: E402

if _autoload_setting is None:
    del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
else:
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = _autoload_setting

__version__ = torch.__version__.partition("+")[0]
__all__: list[str] = []

_other_accelerator = torch._C._get_accelerator().type  # from the next import on it is npu

from torch_npu import _C, _start  # noqa: E402, F401

_start.connect()
torch.utils.rename_privateuse1_backend("npu")

from torch_npu import (  # noqa: E402
    _dlpack,
    _dtypes,
    _inductor,
    _operators,
    _patches,
    _reductions,
    _serialization,
    _types,
    formats,
    npu,
)

_patches.refuse_other_accelerator(_other_accelerator)
torch._register_device_module("npu", npu)
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True,
    for_module=True,
    for_storage=True,
    unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8],
)
_types.install(npu)
_dtypes.install(sys.modules[__name__])
_dlpack.install()
_reductions.install()
_serialization.install()
_patches.install()
_inductor.install()
_operators.expose(sys.modules[__name__])
formats.install(sys.modules[__name__])
_patches.transfer_if_asked()


def _autoload() -> None:
    """The entry point of `torch.backends`: importing this module has done it."""
