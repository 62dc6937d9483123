"""torch's operator database for npu. Importing it makes torch's OpInfo skip on npu what `_npu_testing_utils` lists."""

from __future__ import annotations

from typing import Any

from torch_npu.testing import _npu_testing_utils

_npu_testing_utils.install()

from torch.testing._internal import common_methods_invocations as _torch_database  # noqa: E402

op_db = [op for op in _torch_database.op_db if op.name not in _npu_testing_utils.SKIP_LIST]


def __getattr__(name: str) -> Any:
    """Other names of torch's module: OpInfo, SampleInput, unary_ufuncs and so on."""
    return getattr(_torch_database, name)
