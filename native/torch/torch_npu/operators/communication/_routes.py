"""Where tokens go that are shared out to the experts of a group, and where they come back from.

Rank r has the experts r * local to (r + 1) * local - 1. Both ways carry buffers of a fixed size, global_bs * min(local, choices) rows,
so nothing has to be counted on the host and graphs can hold them; rows that no token fills are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, refuse, require, unsupported
from torch_npu.operators.common.groups import readable
from torch_npu.operators.communication._collectives import Group
from torch_npu.operators.quantisation.core import dynamic, target_of

_NONE, _DYNAMIC = 0, 2  # of quant_mode


@dataclass(frozen=True)
class Plan:
    """The sizes of a call: ranks, experts of one, choices of a token, rows from one rank to another."""

    group: Group
    ranks: int
    local: int
    choices: int
    rows: int

    @property
    def experts(self) -> int:
        return self.ranks * self.local


def plan_of(
    name: str, expert_ids: Tensor, tokens: int, group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int,
    options: dict[str, Any],
) -> Plan:  # fmt: skip
    _check_options(name, options)
    group = Group(name, group_ep, ep_world_size)
    require(ep_rank_id == group.rank, f"{name}: ep_rank_id is {ep_rank_id}, this is rank {group.rank} of {group_ep!r}")
    require(
        expert_ids.dim() == 2 and expert_ids.shape[0] == tokens,
        f"{name}: expert_ids must be [{tokens}, choices], not {tuple(expert_ids.shape)}",
    )
    require(
        moe_expert_num > 0 and moe_expert_num % group.size == 0,
        f"{name}: {moe_expert_num} experts cannot be shared by {group.size} ranks",
        ErrCode.VALUE,
    )
    global_bs = options.get("global_bs", 0) or tokens * group.size
    require(
        global_bs % group.size == 0 and global_bs // group.size >= tokens,
        f"{name}: global_bs {global_bs} must be {group.size} times the most tokens of a rank; this one has {tokens}",
        ErrCode.VALUE,
    )
    local, choices = moe_expert_num // group.size, expert_ids.shape[1]
    return Plan(group, group.size, local, choices, global_bs // group.size * min(local, choices))


def _check_options(name: str, options: dict[str, Any]) -> None:
    """What is not here is refused; tp_world_size 1 is none, and comm_alg chooses a way that changes no result."""
    for what, plain in (
        ("tp_world_size", (0, 1)),
        ("expert_shard_type", (0,)),
        ("shared_expert_rank_num", (0,)),
        ("out_dtype", (0,)),
        ("comm_quant_mode", (0,)),
        ("const_expert_num", (0,)),
    ):
        if options.get(what, 0) not in plain:
            raise unsupported(f"{name}: {what} {options[what]}; {' and '.join(map(str, plain))} can be computed")
    refuse(
        name, **{option: options.get(option) for option in ("activation_scale", "weight_scale", "group_list", "elastic_info", "performance_info")}
    )  # fmt: skip


class Pairs:
    """The pairs of token and choice of this rank: which go to an expert, and to which row of the buffer (the one past it for the rest)."""

    def __init__(self, name: str, plan: Plan, expert_ids: Tensor, mask: Tensor | None) -> None:
        ids = expert_ids.long()
        sent = (ids >= 0) & (ids < plan.experts)
        if mask is not None:
            require(
                mask.shape in (ids.shape, ids.shape[:1]),
                f"{name}: x_active_mask must be {tuple(ids.shape[:1])} or {tuple(ids.shape)}, not {tuple(mask.shape)}",
            )
            sent = sent & mask.bool().reshape(ids.shape[0], -1)
        self.sent = sent.reshape(-1)
        self.ids = torch.where(self.sent, ids.reshape(-1), plan.experts)
        counts = torch.zeros(plan.experts + 1, dtype=torch.int64, device=ids.device)
        counts = counts.index_add(0, self.ids, torch.ones_like(self.ids))
        starts = counts.cumsum(0) - counts
        order = self.ids.argsort(stable=True)
        position = torch.zeros_like(order).scatter(0, order, torch.arange(order.shape[0], device=ids.device))
        self.counts, self.ordinal = counts[:-1], position - starts[self.ids]
        rank = self.ids.div(plan.local, rounding_mode="floor").clamp(max=plan.ranks - 1)
        within = position - starts[rank * plan.local]
        if readable(expert_ids):
            require(
                int(torch.where(self.sent, within, 0).max() if within.numel() else 0) < max(plan.rows, 1),
                f"{name}: a token chooses an expert twice; the choices of a token must differ",
                ErrCode.VALUE,
            )
        self.slots = torch.where(self.sent, rank * plan.rows + within, plan.ranks * plan.rows)
        self.tokens = torch.arange(self.ids.shape[0], device=ids.device) // plan.choices


def spread(values: Tensor, slots: Tensor, rows: int) -> Tensor:
    """A buffer of so many rows; what goes to the row past them is left out."""
    return values.new_zeros(rows + 1, *values.shape[1:]).index_copy(0, slots, values)[:rows]


def arrival(plan: Plan, counts: Tensor) -> Tensor:
    """The order that brings received rows [rank, row] to [expert, rank, row]; counts are [rank, expert], empty rows come last."""
    rows = torch.arange(plan.rows, device=counts.device).expand(plan.ranks, -1).contiguous()
    expert = torch.searchsorted(counts.cumsum(1), rows, right=True)
    rank = torch.arange(plan.ranks, device=counts.device).unsqueeze(1)
    return (expert * plan.ranks + rank).reshape(-1).argsort(stable=True)


def rows_to_send(
    name: str, x: Tensor, pairs: Pairs, scales: Tensor | None, quant_mode: int, y_dtype: int | None
) -> tuple[Tensor, Tensor | None]:
    """A row for each pair; with quant_mode 2 int8 and its scale, after the factors of its expert."""
    if quant_mode not in (_NONE, _DYNAMIC):
        raise unsupported(f"{name}: quant_mode {quant_mode}; 0 (none) and 2 (a scale for each token) can be computed")
    rows = x.index_select(0, pairs.tokens)
    if quant_mode == _NONE:
        require(scales is None, f"{name}: scales are for quant_mode 2")
        return rows, None
    values = rows.float()
    if scales is not None:
        table = scales.float().reshape(-1, x.shape[-1])
        values = values * (table if table.shape[0] == 1 else table[pairs.ids.clamp(max=table.shape[0] - 1)])
    target = target_of(y_dtype, name)
    if target.dtype != torch.int8:
        raise unsupported(f"{name}: y_dtype {y_dtype}; quant_mode 2 gives int8")
    return dynamic(values, target)


def departure(plan: Plan, ends: Tensor) -> Tensor:
    """The buffer row of each row of expand_x, the one past them for rows without a token; ends are running sums by [expert, rank]."""
    total = plan.ranks * plan.rows
    cells = plan.local * plan.ranks
    counts = torch.diff(ends, prepend=torch.zeros_like(ends[:1])).reshape(plan.local, plan.ranks)
    before = (counts.cumsum(0) - counts).reshape(-1)  # rows of the same rank for the experts before
    rows = torch.arange(total, device=ends.device)
    cell = torch.searchsorted(ends, rows, right=True)
    here = cell.clamp(max=cells - 1)
    start = (ends - counts.reshape(-1))[here]
    slots = here % plan.ranks * plan.rows + rows - start + before[here]
    return torch.where(cell < cells, slots, total)
