"""What products and dispatches with a collective share. `hcom` is what `ProcessGroupHCCL.get_hccl_comm_name` answers.

The collectives are torch's functional ones, which torch.compile keeps in its graphs. There is no derivative: the product calls these
operators inside of an autograd.Function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu._C._distributed_c10d import _find_group
from torch_npu.operators.common.arguments import require, unsupported

_functional = torch.ops._c10d_functional


def _waited(pending: Tensor) -> Tensor:
    result: Tensor = _functional.wait_tensor(pending)
    return result


class Group:
    """A group found by its communicator: the name under which torch knows it, its size, this rank in it."""

    def __init__(self, name: str, hcom: str, world_size: int | None = None) -> None:
        group = _find_group(hcom)
        require(
            group is not None,
            f"{name}: there is no group with the communicator {hcom!r}; take the name from "
            "group._get_backend(torch.device('npu')).get_hccl_comm_name(rank)",
        )
        self.size, self.rank, self.id = group.size(), group.rank(), group.options.group_id
        require(
            world_size in (None, self.size),
            f"{name}: world_size is {world_size}, the group {hcom!r} has {self.size} ranks",
        )

    def all_reduce(self, x: Tensor) -> Tensor:
        return _waited(_functional.all_reduce(x, "sum", self.id))

    def all_gather(self, x: Tensor) -> Tensor:
        """The rows of all ranks one after another."""
        return _waited(_functional.all_gather_into_tensor(x.contiguous(), self.size, self.id))

    def reduce_scatter(self, x: Tensor) -> Tensor:
        """This rank's rows of the sum."""
        return _waited(_functional.reduce_scatter_tensor(x, "sum", self.size, self.id))

    def all_to_all(self, x: Tensor, received: list[int] | None = None, sent: list[int] | None = None) -> Tensor:
        """Stretches of rows, one to each rank; equal ones unless their sizes are given."""
        equal = [x.shape[0] // self.size] * self.size
        exchanged = _functional.all_to_all_single(x.contiguous(), received or equal, sent or equal, self.id)
        return _waited(exchanged)


def check_underived(name: str, *tensors: Tensor | None) -> None:
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        raise unsupported(
            f"{name} has no derivative: call it inside of a torch.autograd.Function, or use a matmul and torch.distributed.nn"
        )


def check_call(
    name: str, tensors: tuple[Tensor, ...], refused: dict[str, Any], comm_turn: int = 0, reduce_op: str = "sum"
) -> None:
    """What products have in common: no quantisation, no derivative, the sum, one turn."""
    for argument, value in refused.items():
        if isinstance(value, Tensor) or value not in (None, 0):
            raise unsupported(f"{name}: {argument} (quantised products) is not supported here; dequantise first")
    check_underived(name, *tensors)
    require(comm_turn == 0, f"{name}: comm_turn must be 0, not {comm_turn}")
    require(reduce_op == "sum", f"{name}: reduce_op must be 'sum', not {reduce_op!r}")


def multiplied(name: str, x1: Tensor, x2: Tensor, *added: Tensor | None) -> Tensor:
    require(
        x2.dim() == 2 and x1.dim() >= 2, f"{name}: x1 needs 2 or 3 dimensions and x2 2, not {x1.dim()} and {x2.dim()}"
    )
    require(x1.shape[-1] == x2.shape[0], f"{name}: {tuple(x1.shape)} and {tuple(x2.shape)} cannot be multiplied")
    result = torch.matmul(x1, x2)
    for term in added:
        if term is not None:
            result = result + term
    return result
