"""Matrix products with a collective before or after them. `hcom` is what `ProcessGroupHCCL.get_hccl_comm_name` answers.

The collectives are torch's functional ones, which torch.compile keeps in its graphs. `comm_mode` chooses between engines of the chip and
changes no result. There is no derivative: the product calls these inside of an autograd.Function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu._C._distributed_c10d import _find_group
from torch_npu.operators._common import require, unsupported

_functional = torch.ops._c10d_functional


def _group(name: str, hcom: str, world_size: int | None = None) -> tuple[str, int]:
    """The name under which torch knows the group, and its size."""
    group = _find_group(hcom)
    require(
        group is not None,
        f"{name}: there is no group with the communicator {hcom!r}; take the name from "
        "group._get_backend(torch.device('npu')).get_hccl_comm_name(rank)",
    )
    size = group.size()
    require(world_size in (None, size), f"{name}: world_size is {world_size}, the group {hcom!r} has {size} ranks")
    return group.options.group_id, size


def _check(
    name: str, tensors: tuple[Tensor, ...], refused: dict[str, Any], comm_turn: int, reduce_op: str = "sum"
) -> None:
    """What all three have in common: no quantisation, no derivative, the sum, one turn."""
    for argument, value in refused.items():
        if isinstance(value, Tensor) or value not in (None, 0):
            raise unsupported(f"{name}: {argument} (quantised products) is not supported here; dequantise first")
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
        raise unsupported(
            f"{name} has no derivative: call it inside of a torch.autograd.Function, or use a matmul and torch.distributed.nn"
        )
    require(comm_turn == 0, f"{name}: comm_turn must be 0, not {comm_turn}")
    require(reduce_op == "sum", f"{name}: reduce_op must be 'sum', not {reduce_op!r}")


def _product(name: str, x1: Tensor, x2: Tensor, *added: Tensor | None) -> Tensor:
    require(
        x2.dim() == 2 and x1.dim() >= 2, f"{name}: x1 needs 2 or 3 dimensions and x2 2, not {x1.dim()} and {x2.dim()}"
    )
    require(x1.shape[-1] == x2.shape[0], f"{name}: {tuple(x1.shape)} and {tuple(x2.shape)} cannot be multiplied")
    found = torch.matmul(x1, x2)
    for one in added:
        if one is not None:
            found = found + one
    return found


def npu_mm_all_reduce_base(
    x1: Tensor,
    x2: Tensor,
    hcom: str,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    x3: Tensor | None = None,
    comm_turn: int = 0,
    comm_mode: str | None = None,
    **quantised: Any,
) -> Tensor:
    """The sum over the ranks of x1 @ x2 + bias + x3."""
    name = "npu_mm_all_reduce_base"
    _check(name, (x1, x2), quantised, comm_turn, reduce_op)
    group, _ = _group(name, hcom)
    return _functional.wait_tensor(_functional.all_reduce(_product(name, x1, x2, bias, x3), "sum", group))


def npu_all_gather_base_mm(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    bias: Tensor | None = None,
    gather_index: int = 0,
    gather_output: bool = True,
    comm_turn: int = 0,
    comm_mode: str | None = None,
    **quantised: Any,
) -> tuple[Tensor, Tensor]:
    """The product of the gathered rows of one factor with the other, and those rows (nothing without `gather_output`)."""
    name = "npu_all_gather_base_mm"
    _check(name, (self, x2), quantised, comm_turn)
    require(
        gather_index in (0, 1),
        f"{name}: gather_index is 0 for the first factor or 1 for the second, not {gather_index}",
    )
    group, size = _group(name, hcom, world_size)
    part = (self, x2)[gather_index].contiguous()
    whole = _functional.wait_tensor(_functional.all_gather_into_tensor(part, size, group))
    found = _product(name, whole, x2, bias) if gather_index == 0 else _product(name, self, whole, bias)
    return found, whole if gather_output else self.new_empty(0)


def npu_mm_reduce_scatter_base(
    self: Tensor,
    x2: Tensor,
    hcom: str,
    world_size: int,
    *,
    reduce_op: str = "sum",
    bias: Tensor | None = None,
    comm_turn: int = 0,
    comm_mode: str | None = None,
    **quantised: Any,
) -> Tensor:
    """This rank's rows of the sum over the ranks of x1 @ x2 + bias."""
    name = "npu_mm_reduce_scatter_base"
    _check(name, (self, x2), quantised, comm_turn, reduce_op)
    group, size = _group(name, hcom, world_size)
    found = _product(name, self, x2, bias)
    require(found.shape[0] % size == 0, f"{name}: {found.shape[0]} rows cannot be scattered to {size} ranks")
    return _functional.wait_tensor(_functional.reduce_scatter_tensor(found, "sum", size, group))
