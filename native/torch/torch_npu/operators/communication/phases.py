"""Dispatch and combine in two phases each, so that a program can compute between them.

The exchange is over when the first phase returns: work here is. What passes from the first phase to the second is opaque to a program,
so its layout is this module's: comm_cmd_info of a dispatch has rank, token, choice and 1 of each row, then the bits of the rows' scales,
then the tokens of each expert; that of a combine is empty. comm_type and comm_alg choose a way that changes no result.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require
from torch_npu.operators.communication._collectives import check_underived
from torch_npu.operators.communication._routes import Pairs, Plan, plan_of, spread
from torch_npu.operators.communication.experts import ASSIST, check_combine, check_kind, dispatched, pair_rows, summed

_ORIGIN = 4  # numbers that say where a row came from


def npu_moe_distribute_dispatch_setup(
    x: Tensor, expert_ids: Tensor, group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int, *,
    scales: Tensor | None = None, x_active_mask: Tensor | None = None, quant_mode: int = 0, y_dtype: int | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The rows that arrived, expand_idx, comm_cmd_info."""
    name = "npu_moe_distribute_dispatch_setup"
    where = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    sent = dispatched(name, x, expert_ids, where, scales, x_active_mask, None, quant_mode, y_dtype, options)
    info = (
        sent.assist[:, :_ORIGIN].reshape(-1),
        sent.scales.view(torch.int32),
        sent.counts.sum(0).to(torch.int32),
    )
    return sent.rows, sent.ordinal, torch.cat(info)


def npu_moe_distribute_dispatch_teardown(
    x: Tensor, y: Tensor, expert_ids: Tensor, comm_cmd_info: Tensor, group_ep: str, ep_world_size: int, ep_rank_id: int,
    moe_expert_num: int, *, quant_mode: int = 0, expert_token_nums_type: int = 1, **options: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Rows, their scales, assist_info_for_combine, tokens of each expert, as npu_moe_distribute_dispatch_v2 has them."""
    name = "npu_moe_distribute_dispatch_teardown"
    check_kind(name, expert_token_nums_type)
    plan = plan_of(name, expert_ids, x.shape[0], group_ep, ep_world_size, ep_rank_id, moe_expert_num, options)
    check_combine(name, plan, y)
    rows = y.shape[0]
    sizes = [rows * _ORIGIN, rows if quant_mode else 0, plan.local]
    require(
        comm_cmd_info.dim() == 1 and comm_cmd_info.shape[0] == sum(sizes),
        f"{name}: comm_cmd_info of {tuple(comm_cmd_info.shape)} is not what the setup with these arguments gave ({sum(sizes)})",
    )
    origin, scales, tokens = comm_cmd_info.split_with_sizes(sizes)
    assist = torch.nn.functional.pad(origin.reshape(rows, _ORIGIN), (0, ASSIST - _ORIGIN)).reshape(-1)
    counts = tokens.long()
    return (
        y.clone(),
        scales.clone().view(torch.float32),
        assist,
        counts if expert_token_nums_type else counts.cumsum(0),
    )


def _slots(plan: Plan, assist: Tensor) -> Tensor:
    """The buffer row of each row: those of a rank one after another, the one past the buffer for rows without a token."""
    rank, there = assist[:, 0].long(), assist[:, 3] > 0
    ranks = torch.arange(plan.ranks, device=assist.device)
    mine = (rank.unsqueeze(1) == ranks) & there.unsqueeze(1)
    position = (mine.long().cumsum(0) - 1).gather(1, rank.clamp(0, plan.ranks - 1).unsqueeze(1)).squeeze(1)
    return torch.where(there, rank * plan.rows + position, plan.ranks * plan.rows)


def npu_moe_distribute_combine_setup(
    expand_x: Tensor, expert_ids: Tensor, assist_info_for_combine: Tensor, group_ep: str, ep_world_size: int, ep_rank_id: int,
    moe_expert_num: int, **options: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The rows that came back, and an empty comm_cmd_info."""
    name = "npu_moe_distribute_combine_setup"
    check_underived(name, expand_x)
    plan = plan_of(
        name, expert_ids, expert_ids.shape[0], group_ep, ep_world_size, ep_rank_id, moe_expert_num, options
    )  # fmt: skip
    check_combine(name, plan, expand_x)
    rows = plan.ranks * plan.rows
    require(
        assist_info_for_combine.numel() == rows * ASSIST,
        f"{name}: assist_info_for_combine has {assist_info_for_combine.numel()} numbers; that of dispatch has {rows * ASSIST}",
    )
    slots = _slots(plan, assist_info_for_combine.reshape(rows, ASSIST))
    return plan.group.all_to_all(spread(expand_x, slots, rows)), expert_ids.new_empty(0, dtype=torch.int32)


def npu_moe_distribute_combine_teardown(
    expand_x: Tensor, quant_expand_x: Tensor, expert_ids: Tensor, expand_idx: Tensor, expert_scales: Tensor, comm_cmd_info: Tensor,
    group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int, *, x_active_mask: Tensor | None = None,
    shared_expert_x: Tensor | None = None, **options: Any,
) -> Tensor:  # fmt: skip
    """Each token's rows times its expert_scales, plus shared_expert_x. expand_idx follows from expert_ids; its size is looked at."""
    name = "npu_moe_distribute_combine_teardown"
    require(
        expand_idx.numel() == expert_ids.numel(),
        f"{name}: expand_idx has {expand_idx.numel()} entries for {expert_ids.numel()} choices",
    )
    plan = plan_of(
        name, expert_ids, expert_ids.shape[0], group_ep, ep_world_size, ep_rank_id, moe_expert_num, options
    )  # fmt: skip
    check_combine(name, plan, quant_expand_x, expert_scales)
    pairs = Pairs(name, plan, expert_ids, x_active_mask)
    return summed(pair_rows(quant_expand_x, pairs), expert_scales, shared_expert_x, expand_x.dtype)
