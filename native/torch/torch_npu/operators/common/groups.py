"""Rows (or columns) of one tensor that belong to groups: where each begins, and work done group by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, needed, require, unsupported

ENDS, COUNTS, PAIRS = 0, 1, 2


def readable(values: Tensor | list[int]) -> bool:
    """Whether the numbers are there: those of fake, traced and batched tensors are not."""
    if not isinstance(values, Tensor):
        return True
    plain = type(values) in (Tensor, torch.nn.Parameter) and values.device.type != "meta"
    return plain and not torch._C._functorch.is_batchedtensor(values)


@dataclass(frozen=True)
class GroupList:
    """Ends (0), counts (1), or pairs of a group's number and count (2), for `groups` groups."""

    values: Tensor | list[int]
    kind: int
    groups: int
    name: str

    def __post_init__(self) -> None:
        require(self.kind in (ENDS, COUNTS, PAIRS), f"{self.name}: group_list_type must be 0, 1 or 2, not {self.kind}")
        if isinstance(self.values, Tensor):
            wanted = (self.groups, 2) if self.kind == PAIRS else (self.groups,)
            require(
                tuple(self.values.shape) == wanted,
                f"{self.name}: group_list is {tuple(self.values.shape)}; for {self.groups} groups it must be {wanted}",
            )
        else:
            require(
                len(self.values) == self.groups,
                f"{self.name}: group_list has {len(self.values)} elements for {self.groups} groups",
            )

    def segments(self, size: int) -> list[tuple[int, int, int]]:
        """Group, start and end of each stretch, in order."""
        numbers: list[Any] = self.values.tolist() if isinstance(self.values, Tensor) else list(self.values)
        if self.kind == PAIRS:
            order, counts = [int(pair[0]) for pair in numbers], [int(pair[1]) for pair in numbers]
        else:
            order, counts = list(range(len(numbers))), [int(count) for count in numbers]
        if self.kind == ENDS:
            counts = [end - start for start, end in pairwise([0, *counts])]
        require(
            min(counts, default=0) >= 0 and sum(counts) <= size,
            f"{self.name}: groups of {counts} in a dimension of {size}",
            ErrCode.VALUE,
        )
        ends = [sum(counts[: number + 1]) for number in range(len(counts))]
        return [(group, end - count, end) for group, count, end in zip(order, counts, ends, strict=True)]

    def member(self, size: int, device: torch.device) -> Tensor:
        """The group of each place, `groups` where there is none; for numbers that cannot be read."""
        values = torch.as_tensor(self.values, device=device)
        order = values[:, 0].long() if self.kind == PAIRS else torch.arange(self.groups, device=device)
        ends = values.long() if self.kind == ENDS else (values[:, 1] if self.kind == PAIRS else values).long().cumsum(0)
        places = torch.searchsorted(ends, torch.arange(size, device=device), right=True)
        return torch.cat((order, order.new_full((1,), self.groups)))[places]


def by_rows(rows: int, groups: GroupList, body: Callable[[int, int, int], Tensor]) -> Tensor:
    """body(group, start, end) is the result of these rows; rows that no group has are zero. Where the group list cannot be read every
    group does all rows and its own are taken: the price of a graph whose shapes are known."""
    if readable(groups.values):
        segments = groups.segments(rows)
        require(len(segments) > 0, f"{groups.name}: no groups")
        parts = [body(*segment) for segment in segments]
        rest = rows - segments[-1][2]
        if rest:
            parts.append(parts[0].new_zeros(rest, *parts[0].shape[1:]))
        return torch.cat(parts)
    member = None
    result: Tensor | None = None
    for group in range(groups.groups):
        whole = body(group, 0, rows)
        if member is None:
            member = groups.member(rows, whole.device).reshape(-1, *([1] * (whole.dim() - 1)))
        result = torch.where(member == group, whole, torch.zeros_like(whole) if result is None else result)
    return needed(result, f"{groups.name}: no groups")


def by_columns(x: Tensor, weight: Tensor, groups: GroupList) -> list[Tensor]:
    """x[:, group] @ weight[group] for each group: the inner dimension is what is split."""
    if groups.kind == PAIRS:
        raise unsupported(f"{groups.name}: pairs (group_list_type 2) for a split inner dimension; give ends or counts")
    if readable(groups.values):
        return [x[:, start:end] @ weight[start:end] for _, start, end in groups.segments(x.shape[1])]
    member = groups.member(x.shape[1], x.device)
    return [(x * (member == group).to(x.dtype)) @ weight for group in range(groups.groups)]
