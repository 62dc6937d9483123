"""torch_npu: the npu device in PyTorch, over the devices of softnpu. `import torch_npu` makes `x.npu()` work.

What the import changes in torch, in which order and why in this one, is the list in `_patches/order.py`.
"""

from __future__ import annotations

import sys

from torch_npu import _environment

with _environment.without_autoload():  # torch would import this package again
    import torch

__version__ = torch.__version__.partition("+")[0]
__all__: list[str] = []

# Asked in chip mode only, which refuses a second one: the question may start CUDA. It is cpu where torch was built for CUDA but there
# is no GPU. From the next import on the answer is npu.
_other_accelerator = torch._C._get_accelerator().type if _environment.chip_mode() else "cpu"

from torch_npu import _C  # noqa: E402, F401 (a name of the package)
from torch_npu._runtime import connection as _connection  # noqa: E402

_connection.connect()
torch.utils.backend_registration.rename_privateuse1_backend("npu")

from torch_npu import adapt, formats, npu, operators, optim, utils  # noqa: E402, F401 (names of the package)
from torch_npu._patches import order as _order  # noqa: E402

_order.install(sys.modules[__name__], _other_accelerator)


def _autoload() -> None:
    """The entry point of `torch.backends`: importing this module has done it."""
