"""Tokens to the experts of all ranks of a group and back. Silent spots, read as serving engines use them: rows arrive by expert, then by
rank, then by token; ep_recv_counts are running sums in that order; expand_idx is the number of a pair among those that its rank sends
to the same expert. Not here: ranks of shared experts, tensor parallel groups, elastic groups, communication in fewer bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import needed, refuse, require
from torch_npu.operators.communication._collectives import Group, check_underived
from torch_npu.operators.communication._routes import Pairs, Plan, arrival, departure, plan_of, rows_to_send, spread

ASSIST = 128  # numbers that a row of assist_info_for_combine has room for; four are used


@dataclass(frozen=True)
class Dispatched:
    """What a rank has after a dispatch: rows by expert, their scales, where they came from, how many from each rank for each expert,
    expert_scales gone the same way; and expand_idx of its own pairs."""

    rows: Tensor
    scales: Tensor
    assist: Tensor  # [rows, 128]: rank, token, choice, 1 for a row that there is
    counts: Tensor  # [ranks, experts]
    weights: Tensor
    ordinal: Tensor

    def tokens(self, kind: int) -> Tensor:
        each = self.counts.sum(0)
        return each if kind else each.cumsum(0)


def dispatched(
    name: str, x: Tensor, expert_ids: Tensor, where: tuple[str, int, int, int], scales: Tensor | None, mask: Tensor | None,
    expert_scales: Tensor | None, quant_mode: int, y_dtype: int | None, options: dict[str, Any],
) -> Dispatched:  # fmt: skip
    require(x.dim() == 2, f"{name}: x must be [tokens, width], not {tuple(x.shape)}")
    check_underived(name, x)
    plan = plan_of(name, expert_ids, x.shape[0], *where, options)
    pairs = Pairs(name, plan, expert_ids, mask)
    counts = plan.group.all_to_all(pairs.counts).reshape(plan.ranks, plan.local)
    order = arrival(plan, counts)

    def carried(values: Tensor) -> Tensor:
        return plan.group.all_to_all(spread(values, pairs.slots, plan.ranks * plan.rows)).index_select(0, order)

    rows, row_scales = rows_to_send(name, x, pairs, scales, quant_mode, y_dtype)
    nothing = x.new_empty(0, dtype=torch.float32)
    numbers = torch.arange(pairs.ids.shape[0], device=x.device)
    rank, there = torch.full_like(numbers, plan.group.rank), torch.ones_like(numbers)
    origin = torch.stack((rank, numbers // plan.choices, numbers % plan.choices, there), 1).to(torch.int32)
    return Dispatched(
        carried(rows),
        nothing if row_scales is None else carried(row_scales),
        torch.nn.functional.pad(carried(origin), (0, ASSIST - origin.shape[1])),
        counts,
        nothing if expert_scales is None else carried(expert_scales.float().reshape(-1)),
        pairs.ordinal.to(torch.int32),
    )


def check_kind(name: str, kind: int) -> None:
    require(kind in (0, 1), f"{name}: expert_token_nums_type must be 0 (running sums) or 1 (counts), not {kind}")


def npu_moe_distribute_dispatch_v2(
    x: Tensor, expert_ids: Tensor, group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int, *,
    scales: Tensor | None = None, x_active_mask: Tensor | None = None, expert_scales: Tensor | None = None,
    quant_mode: int = 0, expert_token_nums_type: int = 1, y_dtype: int | None = None, x_dtype: int | None = None,
    scales_dtype: int | None = None, **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Rows, their scales, assist_info_for_combine (128 numbers a row: rank, token, choice and 1, then zeros), tokens of each expert,
    ep_recv_counts, tp_recv_counts, and expert_scales gone the same way. What was not asked for is empty. Choices from moe_expert_num
    on (zero and copy experts) are not sent."""
    name = "npu_moe_distribute_dispatch"
    check_kind(name, expert_token_nums_type)
    refuse(name, x_dtype=x_dtype, scales_dtype=scales_dtype)
    where = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    sent = dispatched(name, x, expert_ids, where, scales, x_active_mask, expert_scales, quant_mode, y_dtype, options)
    return sent.rows, sent.scales, sent.assist.reshape(-1), *_counted(sent, expert_token_nums_type), sent.weights


def _counted(sent: Dispatched, kind: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens of each expert, ep_recv_counts, and tp_recv_counts, which is empty."""
    sums = sent.counts.t().reshape(-1).cumsum(0).to(torch.int32)
    return sent.tokens(kind), sums, sums.new_empty(0)


def npu_moe_distribute_dispatch(
    x: Tensor, expert_ids: Tensor, group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int, *,
    scales: Tensor | None = None, x_active_mask: Tensor | None = None, expert_scales: Tensor | None = None,
    quant_mode: int = 0, expert_token_nums_type: int = 1, **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """As v2, with expand_idx as the third result."""
    name = "npu_moe_distribute_dispatch"
    check_kind(name, expert_token_nums_type)
    where = (group_ep, ep_world_size, ep_rank_id, moe_expert_num)
    sent = dispatched(name, x, expert_ids, where, scales, x_active_mask, expert_scales, quant_mode, None, options)
    return sent.rows, sent.scales, sent.ordinal, *_counted(sent, expert_token_nums_type), sent.weights


def check_combine(name: str, plan: Plan, expand_x: Tensor, expert_scales: Tensor | None = None) -> None:
    rows = plan.ranks * plan.rows
    require(
        expand_x.dim() == 2 and expand_x.shape[0] == rows,
        f"{name}: expand_x must have the {rows} rows that dispatch gave, not shape {tuple(expand_x.shape)}",
    )
    require(
        expert_scales is None or (expert_scales.dim() == 2 and expert_scales.shape[1] == plan.choices),
        f"{name}: expert_scales must be [tokens, {plan.choices}], not {tuple(expert_scales.shape) if expert_scales is not None else None}",
    )


def pair_rows(back: Tensor, pairs: Pairs) -> Tensor:
    """What came back for each pair in float32, zero for those that were not sent."""
    rows = back.index_select(0, pairs.slots.clamp(max=max(back.shape[0] - 1, 0))).float()
    return rows * pairs.sent.unsqueeze(-1)


def summed(rows: Tensor, expert_scales: Tensor, shared_expert_x: Tensor | None, dtype: torch.dtype) -> Tensor:
    total = (torch.unflatten(rows, 0, expert_scales.shape) * expert_scales.float().unsqueeze(-1)).sum(1)
    if shared_expert_x is not None:
        total = total + shared_expert_x.float().reshape(total.shape)
    return total.to(dtype)


def npu_moe_distribute_combine_v2(
    expand_x: Tensor, expert_ids: Tensor, assist_info_for_combine: Tensor | None, ep_send_counts: Tensor, expert_scales: Tensor,
    group_ep: str, ep_world_size: int, ep_rank_id: int, moe_expert_num: int, *, tp_send_counts: Tensor | None = None,
    x_active_mask: Tensor | None = None, expand_scales: Tensor | None = None, shared_expert_x: Tensor | None = None,
    ori_x: Tensor | None = None, zero_expert_num: int = 0, copy_expert_num: int = 0, **options: Any,
) -> Tensor:  # fmt: skip
    """Each token's rows times its expert_scales, summed in float32, plus shared_expert_x. A zero expert answers 0, a copy expert ori_x;
    their numbers follow moe_expert_num in this order. Where the rows belong is told by expert_ids and ep_send_counts: assist_info,
    tp_send_counts and expand_scales say the same again."""
    name = "npu_moe_distribute_combine"
    check_underived(name, expand_x, expert_scales, shared_expert_x)
    plan = plan_of(
        name, expert_ids, expert_ids.shape[0], group_ep, ep_world_size, ep_rank_id, moe_expert_num, options
    )  # fmt: skip
    check_combine(name, plan, expand_x, expert_scales)
    require(
        ep_send_counts.dim() == 1 and ep_send_counts.shape[0] == plan.experts,
        f"{name}: ep_send_counts must be the {plan.experts} ep_recv_counts of dispatch, not {tuple(ep_send_counts.shape)}",
    )
    refuse(
        name,
        **{
            option: options.get(option) for option in ("const_expert_alpha_1", "const_expert_alpha_2", "const_expert_v")
        },
    )
    pairs = Pairs(name, plan, expert_ids, x_active_mask)
    slots = departure(plan, ep_send_counts.long())
    rows = pair_rows(plan.group.all_to_all(spread(expand_x, slots, plan.ranks * plan.rows)), pairs)
    if copy_expert_num:
        tokens = needed(ori_x, f"{name}: copy experts need ori_x, the tokens themselves")
        first = moe_expert_num + zero_expert_num
        copied = ((expert_ids >= first) & (expert_ids < first + copy_expert_num)).reshape(-1, 1)
        rows = torch.where(copied, tokens.float().index_select(0, pairs.tokens), rows)
    return summed(rows, expert_scales, shared_expert_x, expand_x.dtype)


def npu_moe_distribute_combine(
    expand_x: Tensor, expert_ids: Tensor, expand_idx: Tensor, ep_send_counts: Tensor, expert_scales: Tensor, *args: Any,
    **options: Any,
) -> Tensor:  # fmt: skip
    """As v2; expand_idx follows from expert_ids and only its size is looked at."""
    require(
        expand_idx.numel() == expert_ids.numel(),
        f"npu_moe_distribute_combine: expand_idx has {expand_idx.numel()} entries for {expert_ids.numel()} choices",
    )
    return npu_moe_distribute_combine_v2(expand_x, expert_ids, None, ep_send_counts, expert_scales, *args, **options)


def npu_moe_distribute_combine_add_rms_norm(
    expand_x: Tensor, expert_ids: Tensor, expand_idx: Tensor, ep_send_counts: Tensor, expert_scales: Tensor, residual_x: Tensor,
    gamma: Tensor, *args: Any, norm_eps: float = 1e-6, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What npu_add_rms_norm gives for the combined tokens and residual_x: the norm, 1 / rms, the sum."""
    combined = npu_moe_distribute_combine_v2(
        expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales, *args, **options
    )
    normed: tuple[Tensor, Tensor, Tensor] = torch.ops.npu.npu_add_rms_norm(
        combined.reshape(residual_x.shape), residual_x, gamma, norm_eps
    )
    return normed


def _npu_distribute_barrier(
    x_ref: Tensor, group: str, world_size: int, *, time_out: Tensor | None = None, elastic_info: Tensor | None = None
) -> Tensor:
    """Waits for all ranks, then answers a copy of x_ref: what uses it comes after the barrier."""
    name = "_npu_distribute_barrier"
    refuse(name, time_out=time_out, elastic_info=elastic_info)
    met = Group(name, group, world_size).all_reduce(x_ref.new_zeros(1, dtype=torch.float32))
    return torch.where(met >= 0, x_ref, torch.zeros_like(x_ref))
