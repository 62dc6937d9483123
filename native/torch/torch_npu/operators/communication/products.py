"""Matrix products with a collective before or after them; those of experts and the quantised ones are in `experts`,
`all_to_all` and `quantised`. `comm_mode` chooses between engines of the chip and changes no result."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torch_npu.operators.common.arguments import require
from torch_npu.operators.communication._collectives import Group, check_call, multiplied


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
    check_call(name, (x1, x2), quantised, comm_turn, reduce_op)
    return Group(name, hcom).all_reduce(multiplied(name, x1, x2, bias, x3))


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
    check_call(name, (self, x2), quantised, comm_turn)
    require(
        gather_index in (0, 1),
        f"{name}: gather_index is 0 for the first factor or 1 for the second, not {gather_index}",
    )
    whole = Group(name, hcom, world_size).all_gather((self, x2)[gather_index])
    product = multiplied(name, whole, x2, bias) if gather_index == 0 else multiplied(name, self, whole, bias)
    return product, whole if gather_output else self.new_empty(0)


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
    check_call(name, (self, x2), quantised, comm_turn, reduce_op)
    group = Group(name, hcom, world_size)
    product = multiplied(name, self, x2, bias)
    require(
        product.shape[0] % group.size == 0, f"{name}: {product.shape[0]} rows cannot be scattered to {group.size} ranks"
    )
    return group.reduce_scatter(product)
