"""What the processes of one job must agree on: a step that one of them skips, all skip."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def world_size() -> int:
    """How many processes train together; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def sum_over_ranks_(count: Tensor) -> Tensor:
    """Add a count up over all processes, in place. It goes through the host where the job has no backend for npu."""
    if world_size() > 1:
        carrier = count if "hccl" in str(dist.get_backend_config()) else count.cpu()
        dist.all_reduce(carrier)
        if carrier is not count:
            count.copy_(carrier)
    return count


def any_rank(here: bool, device: torch.device | str = "npu") -> bool:
    """Whether it is so in any process."""
    if world_size() == 1:
        return here
    return bool(sum_over_ranks_(torch.tensor(float(here), device=device)))
