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

from torch_npu._environment import chip_mode  # noqa: E402

# Asked in chip mode only, which refuses a second one: the question may start CUDA. It is cpu where torch was built for CUDA but there
# is no GPU. From the next import on the answer is npu.
_other_accelerator = torch._C._get_accelerator().type if chip_mode() else "cpu"

from torch_npu import _C, _start  # noqa: E402, F401

_start.connect()
torch.utils.rename_privateuse1_backend("npu")

from torch_npu import (  # noqa: E402, F401
    _compat,
    _distributed,
    _dlpack,
    _dtypes,
    _inductor,
    _modules,
    _names,
    _onnx_names,
    _operators,
    _patches,
    _reductions,
    _serialization,
    _types,
    adapt,
    formats,
    npu,
    operators,
    optim,
    utils,
)

_patches.refuse_other_accelerator(_other_accelerator)
torch._register_device_module("npu", npu)
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True,
    for_module=True,
    for_storage=True,
    unsupported_dtype=[torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8],
)
_compat.install()
_types.install(npu)
_dtypes.install(sys.modules[__name__])
_dlpack.install()
_reductions.install()
_serialization.install()
_patches.install()
_inductor.install()
_modules.install()
operators.register()
_operators.expose(sys.modules[__name__])
formats.install(sys.modules[__name__])
_names.install(sys.modules[__name__])
_distributed.install()
_onnx_names.install()

from torch_npu.contrib import _old_names  # noqa: E402

_old_names.install()
_patches.transfer_if_asked()


def _autoload() -> None:
    """The entry point of `torch.backends`: importing this module has done it."""
