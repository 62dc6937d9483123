"""Products with an all-to-all before or after them: of matrices, and of the experts of a group.

Counts are [rank * local experts + expert]: rows for (or from) that rank and expert. Rows that travel lie by rank, then by expert; those
that are multiplied by expert, then by rank. `comm_mode` chooses between engines of the chip and changes no result.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, refuse, require
from torch_npu.operators.communication._collectives import Group, check_underived, multiplied

Counts = list[int]


def _check_counts(name: str, what: str, counts: Counts, cells: int) -> None:
    require(
        len(counts) == cells and min(counts, default=0) >= 0,
        f"{name}: {what} must be {cells} numbers from 0 (ranks times experts of a rank), not {list(counts)}",
        ErrCode.VALUE,
    )


def _check_rows(name: str, what: str, x: Tensor, counts: Counts) -> None:
    require(
        x.dim() == 2 and x.shape[0] == sum(counts),
        f"{name}: gmm_x of {tuple(x.shape)} must have the {sum(counts)} rows that {what} count",
    )


def _per_rank(counts: Counts, experts: int) -> Counts:
    return [sum(counts[start : start + experts]) for start in range(0, len(counts), experts)]


def _parts(x: Tensor, sizes: Counts) -> list[Tensor]:
    return [x[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


def by_expert(x: Tensor, counts: Counts, experts: int) -> Tensor:
    """Rows by rank, then by expert, as rows by expert, then by rank."""
    parts = _parts(x, counts)
    return torch.cat([part for expert in range(experts) for part in parts[expert::experts]])


def by_rank(x: Tensor, counts: Counts, experts: int) -> Tensor:
    """The other way."""
    ranks = len(counts) // experts
    parts = _parts(x, [counts[rank * experts + expert] for expert in range(experts) for rank in range(ranks)])
    return torch.cat([part for rank in range(ranks) for part in parts[rank::ranks]])


def _products(name: str, x: Tensor, weight: Tensor, counts: Counts) -> Tensor:
    """Each expert's rows times its matrix; counts are [rank, expert], rows by expert."""
    experts = weight.shape[0]
    require(
        x.shape[-1] == weight.shape[1],
        f"{name}: rows of {x.shape[-1]} cannot be multiplied by weights of {tuple(weight.shape[1:])}",
    )
    sizes = [sum(counts[expert::experts]) for expert in range(experts)]
    return torch.cat([part @ weight[expert] for expert, part in enumerate(_parts(x, sizes))])


def _weights(name: str, weight: Tensor, transposed: bool, dims: int) -> Tensor:
    require(weight.dim() == dims, f"{name}: a weight must have {dims} dimensions, not {tuple(weight.shape)}")
    return weight.transpose(-1, -2) if transposed else weight


def _shared(name: str, x: Tensor, mm_x: Tensor | None, mm_weight: Tensor | None, transposed: bool) -> Tensor:
    """The product beside the experts', empty where there is none."""
    require((mm_x is None) == (mm_weight is None), f"{name}: mm_x and mm_weight must be given together")
    if mm_x is None or mm_weight is None:
        return x.new_empty(0)
    return multiplied(name, mm_x, _weights(name, mm_weight, transposed, 2))


class _Call:
    """What both directions check and know."""

    def __init__(
        self, name: str, x: Tensor, weight: Tensor, hcom: str, size: int, send: Counts, receive: Counts, options: dict[str, Any]
    ) -> None:  # fmt: skip
        refuse(name, **{option: options.get(option) for option in ("send_counts_tensor", "recv_counts_tensor")})
        check_underived(name, x, weight)
        self.group = Group(name, hcom, size)
        self.weight = _weights(name, weight, options.get("trans_gmm_weight", False), 3)
        self.experts = weight.shape[0]
        for what, counts in (("send_counts", send), ("recv_counts", receive)):
            _check_counts(name, what, counts, size * self.experts)
        self.sent, self.received = _per_rank(send, self.experts), _per_rank(receive, self.experts)


def npu_alltoallv_gmm(
    gmm_x: Tensor, gmm_weight: Tensor, hcom: str, ep_world_size: int, send_counts: Counts, recv_counts: Counts, *,
    mm_x: Tensor | None = None, mm_weight: Tensor | None = None, trans_mm_weight: bool = False, permute_out_flag: bool = False,
    comm_mode: str | None = None, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The experts' products of what all ranks sent, mm_x @ mm_weight, and the received rows by expert where they are asked for."""
    name = "npu_alltoallv_gmm"
    call = _Call(name, gmm_x, gmm_weight, hcom, ep_world_size, send_counts, recv_counts, options)
    _check_rows(name, "send_counts", gmm_x, send_counts)
    rows = by_expert(call.group.all_to_all(gmm_x, call.received, call.sent), recv_counts, call.experts)
    products = _products(name, rows, call.weight, recv_counts)
    shared = _shared(name, gmm_x, mm_x, mm_weight, trans_mm_weight)
    return products, shared, rows if permute_out_flag else gmm_x.new_empty(0)


def npu_gmm_alltoallv(
    gmm_x: Tensor, gmm_weight: Tensor, hcom: str, ep_world_size: int, send_counts: Counts, recv_counts: Counts, *,
    mm_x: Tensor | None = None, mm_weight: Tensor | None = None, trans_mm_weight: bool = False, comm_mode: str | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The experts' products back to the ranks whose rows they are, and mm_x @ mm_weight."""
    name = "npu_gmm_alltoallv"
    call = _Call(name, gmm_x, gmm_weight, hcom, ep_world_size, send_counts, recv_counts, options)
    _check_rows(name, "send_counts", gmm_x, send_counts)
    products = by_rank(_products(name, gmm_x, call.weight, send_counts), send_counts, call.experts)
    return (
        call.group.all_to_all(products, call.received, call.sent),
        _shared(name, gmm_x, mm_x, mm_weight, trans_mm_weight),
    )


def check_axes(name: str, axes: list[int] | None, wanted: list[int]) -> None:
    require(
        axes is None or list(axes) == wanted,
        f"{name}: all2all_axes must be {wanted} (what is split, what grows), not {axes}",
        ErrCode.VALUE,
    )


def rows_to_columns(name: str, group: Group, x: Tensor) -> Tensor:
    """[rows, columns] of each rank to [rows / ranks, columns * ranks]: a rank gets its rows of all, side by side."""
    require(
        x.dim() == 2 and x.shape[0] % group.size == 0,
        f"{name}: x1 of {tuple(x.shape)} must have two dimensions and rows for {group.size} ranks",
    )
    return torch.unflatten(group.all_to_all(x), 0, (group.size, -1)).transpose(0, 1).flatten(1)


def columns_to_rows(name: str, group: Group, x: Tensor) -> Tensor:
    """[rows, columns] of each rank to [rows * ranks, columns / ranks]: a rank gets its columns of all, one below the other."""
    require(x.shape[-1] % group.size == 0, f"{name}: {x.shape[-1]} columns cannot be shared by {group.size} ranks")
    return group.all_to_all(torch.unflatten(x, -1, (group.size, -1)).movedim(-2, 0).flatten(0, 1))


def npu_all_to_all_matmul(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None = None, all2all_axes: list[int] | None = None,
    all2all_out_flag: bool = True, comm_mode: str | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x1 [rows, columns] becomes [rows / ranks, columns * ranks] before it is multiplied; that is the second result. The only axes,
    also without any given, are [-2, -1]."""
    name = "npu_all_to_all_matmul"
    check_underived(name, x1, x2)
    check_axes(name, all2all_axes, [-2, -1])
    moved = rows_to_columns(name, Group(name, hcom, world_size), x1)
    return multiplied(name, moved, x2, bias), moved if all2all_out_flag else x1.new_empty(0)


def npu_matmul_all_to_all(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None = None, all2all_axes: list[int] | None = None,
    comm_mode: str | None = None,
) -> Tensor:  # fmt: skip
    """The product [rows, columns] becomes [rows * ranks, columns / ranks]. The only axes, also without any given, are [-1, -2]."""
    name = "npu_matmul_all_to_all"
    check_underived(name, x1, x2)
    check_axes(name, all2all_axes, [-1, -2])
    require(x1.dim() == 2, f"{name}: x1 must have two dimensions, not {tuple(x1.shape)}")
    return columns_to_rows(name, Group(name, hcom, world_size), multiplied(name, x1, x2, bias))
