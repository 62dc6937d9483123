"""The gradients that an optimizer works with, as few tensors as possible: buffers with combine_grad, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch_npu.utils.combine_tensors import GradBuffer, by_kind, check_combinable
from torch_npu.utils.ranks import world_size


class Grads:
    """Gradients of parameters, wherever they lie."""

    def __init__(self, params: Sequence[Tensor], combine: bool) -> None:
        self.params = list(params)
        kinds = by_kind(self.params) if combine else []
        for kind in kinds:
            check_combinable([tensor.detach() for tensor in kind])
        self.buffers = [GradBuffer(kind) for kind in kinds]

    def tensors(self) -> list[Tensor]:
        """What to compute on: the buffers, or the gradients there are."""
        for buffer in self.buffers:
            buffer.gather()
        if self.buffers:
            return [buffer.flat for buffer in self.buffers]
        return [param.grad for param in self.params if param.grad is not None]

    def complete(self) -> None:
        """Give every parameter a gradient: ranks reduce all of them, whichever of them a rank used."""
        for param in self.params:
            if param.grad is None:
                param.grad = torch.zeros_like(param)

    def clear(self) -> None:
        """Drop the gradients; those in buffers become zero."""
        for buffer in self.buffers:
            buffer.zero()
        if not self.buffers:
            for param in self.params:
                param.grad = None

    def check(self) -> None:
        """Raise where a program took a gradient out of its buffer behind our back."""
        for buffer in self.buffers:
            lost = buffer.lost()
            if lost:
                shapes = [tuple(buffer.params[index].shape) for index in lost]
                raise RuntimeError(
                    f"check_combined_tensors: gradients of parameters of shape {shapes} left their combined buffer: their .data was "
                    "replaced; write into the gradient instead (p.grad.copy_(…)), or set p.grad"
                )


class FusedGrads(Grads):
    """The gradients of a fused optimizer, which has its own buffers."""

    def __init__(self, params: Sequence[Tensor], optimizer: Any) -> None:
        super().__init__(params, combine=False)
        self._optimizer = optimizer

    def tensors(self) -> list[Tensor]:
        combined: list[Tensor] = self._optimizer.get_combined_grads()
        return combined

    def clear(self) -> None:
        self._optimizer.zero_grad()


@torch.no_grad()
def average_over_ranks_(tensors: Sequence[Tensor], pieces: int) -> None:
    """Mean of gradients over all processes, each tensor in `pieces` reductions that run side by side."""
    count = world_size()
    if count == 1:
        return
    parts = [
        part for tensor in tensors for part in (tensor.view(-1).chunk(pieces) if tensor.is_contiguous() else [tensor])
    ]
    for work in [dist.all_reduce(part, async_op=True) for part in parts]:
        work.wait()
    torch._foreach_div_(list(tensors), count)


@torch.no_grad()
def broadcast_parameters(models: Sequence[torch.nn.Module]) -> None:
    """Every process begins with the parameters and buffers of the first."""
    if world_size() > 1:
        for model in models:
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor.detach(), 0)
