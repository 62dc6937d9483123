"""apex.parallel: LARC, and torch's own modules under the names of apex."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from apex.parallel.LARC import LARC

SyncBatchNorm = torch.nn.SyncBatchNorm


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch's, with the buckets and the averaging of gradients that it has; options of apex that ask for something else are refused."""

    def __init__(
        self,
        module: torch.nn.Module,
        message_size: int = 10000000,
        delay_allreduce: bool = False,
        gradient_average: bool = True,
        **other: Any,
    ) -> None:
        wanted = sorted(name for name, value in other.items() if value)
        if wanted or not gradient_average:
            raise ValueError(
                f"apex.parallel.DistributedDataParallel: {wanted or 'gradient_average=False'} not supported; "
                "use torch.nn.parallel.DistributedDataParallel"
            )
        index = next(module.parameters()).device.index
        size = 1 << 30 if delay_allreduce else message_size * 4  # all at the end: one bucket
        super().__init__(module, device_ids=None if index is None else [index], bucket_cap_mb=max(1, size >> 20))


class Reducer:
    """Averages over ranks when it is told to: parameters at the start come from rank 0, `reduce()` averages gradients (or, of a list of
    tensors, the tensors)."""

    def __init__(self, module_or_grads_list: torch.nn.Module | list[Tensor]) -> None:
        if isinstance(module_or_grads_list, torch.nn.Module):
            self.module = module_or_grads_list
            for parameter in self.module.parameters():
                dist.broadcast(parameter.data, 0)
        else:
            self.grads = list(module_or_grads_list)

    @torch.no_grad()
    def reduce(self) -> None:
        """Average over all ranks, one collective per dtype."""
        if hasattr(self, "module"):
            tensors = [parameter.grad for parameter in self.module.parameters() if parameter.grad is not None]
        else:
            tensors = self.grads
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
            same = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.flatten() for tensor in same])
            dist.all_reduce(flat)
            flat.div_(dist.get_world_size())
            for tensor, value in zip(same, flat.split([tensor.numel() for tensor in same]), strict=True):
                tensor.copy_(value.view_as(tensor))


def convert_syncbn_model(
    module: torch.nn.Module, process_group: Any = None, channel_last: bool = False
) -> torch.nn.Module:
    """Batch norms become synchronised ones; the order of memory is the tensor's own matter."""
    if channel_last:
        raise ValueError("convert_syncbn_model: channel_last=True is not supported; pass tensors in that order instead")
    converted: torch.nn.Module = torch.nn.SyncBatchNorm.convert_sync_batchnorm(module, process_group)
    return converted


def create_syncbn_process_group(group_size: int) -> Any:
    """The group of `group_size` neighbouring ranks that this one is in; None (all of them) for 0."""
    world = dist.get_world_size()
    if group_size == 0 or group_size >= world:
        return None
    if world % group_size:
        raise ValueError(f"create_syncbn_process_group: {world} ranks cannot be cut into groups of {group_size}")
    mine = None
    for first in range(0, world, group_size):
        group = dist.new_group(list(range(first, first + group_size)))
        if first <= dist.get_rank() < first + group_size:
            mine = group
    return mine


__all__ = [
    "LARC",
    "DistributedDataParallel",
    "Reducer",
    "SyncBatchNorm",
    "convert_syncbn_model",
    "create_syncbn_process_group",
]
