"""torch's base class of DTensor tests, on npu; other names are those of torch's module."""

from __future__ import annotations

from typing import Any

from torch.testing._internal.distributed._tensor import common_dtensor as _torch_dtensor

from torch_npu import npu
from torch_npu.testing.common_distributed import with_comms as with_comms


class NPUDTensorTestBase(_torch_dtensor.DTensorTestBase):
    """One process per device, at most torch's number of them, joined by hccl."""

    @property
    def device_type(self) -> str:
        return "npu"

    @property
    def backend(self) -> str:
        return "hccl"

    def init_pg(self, eager_init: bool, backend: str | None = None) -> None:
        npu.set_device(self.rank)
        super().init_pg(eager_init, backend)


def __getattr__(name: str) -> Any:
    return getattr(_torch_dtensor, name)
