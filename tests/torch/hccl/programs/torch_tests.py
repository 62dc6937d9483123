"""A test file of a user: DTensor and FSDP tests of torch's own kind, in processes joined by hccl."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401
from torch.distributed.tensor import Shard, distribute_tensor
from torch_npu.testing._internal import common_fsdp
from torch_npu.testing._internal.common_dtensor import NPUDTensorTestBase, with_comms
from torch_npu.testing.common_distributed import skipIfUnsupportMultiNPU
from torch_npu.testing.common_utils import run_tests


class TestJoined(NPUDTensorTestBase):
    @property
    def world_size(self) -> int:
        return 2

    @skipIfUnsupportMultiNPU(2)
    @with_comms
    def test_sharded(self) -> None:
        whole = torch.arange(8.0)
        shard = distribute_tensor(whole.npu(), self.build_device_mesh(), [Shard(0)])
        assert shard.to_local().device.index == self.rank and shard.to_local().numel() == 4
        assert torch.equal(shard.full_tensor().cpu(), whole)
        assert dist.get_backend() == "hccl" and common_fsdp.DEVICE_TYPE == "npu"

    @with_comms(backend="mpi")
    def test_without_its_backend(self) -> None:
        self.fail("must not run")


if __name__ == "__main__":
    run_tests()
