"""Routing of tokens to experts: rows sorted by expert, counted, cut to a capacity, and summed back."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, needed, require, unsupported, wide
from torch_npu.operators.quantisation.core import dynamic, static, target_of

_DROPLESS, _CAPACITY = 0, 1


def npu_moe_compute_expert_tokens(sorted_expert_for_source_row: Tensor, num_expert: int) -> Tensor:
    """How many rows belong to each expert and those before it."""
    experts = torch.arange(num_expert, device=sorted_expert_for_source_row.device, dtype=torch.long)
    rows = sorted_expert_for_source_row.reshape(-1).long()
    return torch.searchsorted(rows, experts, right=True).to(sorted_expert_for_source_row.dtype)


def npu_moe_init_routing(
    x: Tensor, row_idx: Tensor, expert_idx: Tensor, active_num: int
) -> tuple[Tensor, Tensor, Tensor]:
    """row_idx numbers the pairs of row and choice, all rows of the first choice first; the second result says where each pair went."""
    require(
        row_idx.shape == expert_idx.shape and expert_idx.dim() == 2 and expert_idx.shape[0] == x.shape[0],
        f"npu_moe_init_routing: row_idx {tuple(row_idx.shape)} and expert_idx {tuple(expert_idx.shape)} for {x.shape[0]} rows",
    )
    rows, choices = expert_idx.shape
    experts, order = expert_idx.reshape(-1).sort(stable=True)
    pairs = row_idx.reshape(-1)[order].long()
    places = torch.arange(rows * choices, device=x.device, dtype=torch.int32)
    where = torch.zeros_like(places).scatter(0, pairs, places)
    active = min(active_num, rows) * choices
    return x[pairs[:active] % rows], where, experts.to(torch.int32)


def _tokens_per_expert(experts: Tensor, count: int, kind: int, begin: int, name: str) -> Tensor:
    """Ends (0), counts (1), or pairs of expert (from `begin` on) and count (2), those without rows left out and zeros at the end."""
    counts = torch.zeros(count + 1, dtype=torch.long, device=experts.device)
    counts = counts.index_add(0, experts.clamp(0, count), torch.ones_like(experts))[:count]
    if kind == 1:
        return counts
    if kind == 0:
        return counts.cumsum(0)
    require(kind == 2, f"{name}: the kind of expert_tokens must be 0, 1 or 2, not {kind}")
    order = (counts == 0).long().sort(stable=True).indices
    pairs = torch.stack((order + begin, counts[order]), -1)
    return pairs * (pairs[:, 1:] > 0)


def _capacity(experts: Tensor, order: Tensor, count: int, capacity: int) -> tuple[Tensor, Tensor]:
    """Where each sorted pair goes in [experts, capacity], -1 where it is dropped, and which pair fills each place (or -1)."""
    starts = torch.searchsorted(experts, torch.arange(count + 1, device=experts.device))
    slot = torch.arange(len(experts), device=experts.device) - starts[experts.clamp(0, count)]
    good = (slot < capacity) & (experts < count)
    target = torch.where(good, experts * capacity + slot, torch.full_like(slot, -1))
    filling = torch.full((count * capacity + 1,), -1, dtype=torch.long, device=experts.device)
    filling = filling.scatter(0, torch.where(good, target, torch.full_like(target, count * capacity)), order)
    return target, filling[:-1]


def _quantised_rows(
    rows: Tensor, experts: Tensor, scale: Tensor | None, offset: Tensor | None, mode: int, name: str
) -> tuple[Tensor, Tensor]:
    target = target_of(torch.int8, name)
    if mode == 0:
        factor = needed(scale, f"{name}: a static quantisation (quant_mode 0) needs scale")
        return static(rows, factor, offset, target), rows.new_empty(0, dtype=torch.float32)
    values = rows.float()
    if scale is not None:
        table = scale.float().reshape(-1, rows.shape[-1])
        values = values * (table if table.shape[0] == 1 else table[experts.clamp(0, table.shape[0] - 1)])
    return dynamic(values, target)


def npu_moe_init_routing_v2(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = -1,
    expert_capacity: int = -1,
    expert_num: int = -1,
    drop_pad_mode: int = 0,
    expert_tokens_num_type: int = 0,
    expert_tokens_num_flag: bool = False,
    quant_mode: int = -1,
    active_expert_range: list[int] = [],  # noqa: B006 (the registry always passes it)
    row_idx_type: int = 0,
    x_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows, where they went, tokens of each expert, scales of the rows. Pairs are numbered row by row. Kind 0 of the second result says
    where a pair went, kind 1 which pair came; -1 stands for none. Rows past those of the active experts are zero."""
    name = "npu_moe_init_routing_v2"
    if x_dtype is not None:
        raise unsupported(f"{name}: x_dtype {x_dtype}; x has a dtype of its own")
    require(
        quant_mode in (-1, 0, 1), f"{name}: quant_mode must be -1 (none), 0 (static) or 1 (dynamic), not {quant_mode}"
    )
    require(row_idx_type in (0, 1), f"{name}: row_idx_type must be 0 or 1, not {row_idx_type}")
    require(expert_num > 0, f"{name}: expert_num must be given", ErrCode.VALUE)
    begin, end = active_expert_range if len(active_expert_range) else (0, expert_num)
    require(0 <= begin < end <= expert_num, f"{name}: experts {begin} to {end} of {expert_num}", ErrCode.VALUE)
    count, choices = end - begin, expert_idx.shape[1]
    flat = expert_idx.reshape(-1).long() - begin
    flat = torch.where((flat >= 0) & (flat < count), flat, torch.full_like(flat, count))
    experts, order = flat.sort(stable=True)
    target, source = _placed(experts, order, count, x.shape[0], (drop_pad_mode, expert_capacity, active_num), name)
    where = torch.zeros_like(target).scatter(0, order, target) if row_idx_type == 0 else source
    expanded, row_scales = _expanded(x, flat, source, choices, (scale, offset), quant_mode, name)
    if drop_pad_mode == _CAPACITY:
        expanded = expanded.reshape(count, expert_capacity, -1)
    tokens = _tokens_per_expert(experts, count, expert_tokens_num_type, begin, name)
    return expanded, where.to(torch.int32), tokens if expert_tokens_num_flag else tokens.new_empty(0), row_scales


def _placed(
    experts: Tensor, order: Tensor, count: int, rows: int, how: tuple[int, int, int], name: str
) -> tuple[Tensor, Tensor]:
    """Where each sorted pair goes and which pair each row of the result is; -1 for none."""
    mode, capacity, active_num = how
    if mode == _CAPACITY:
        require(0 < capacity <= rows, f"{name}: expert_capacity {capacity} with {rows} rows", ErrCode.VALUE)
        return _capacity(experts, order, count, capacity)
    require(mode == _DROPLESS, f"{name}: drop_pad_mode must be 0 or 1, not {mode}")
    active = active_num if 0 < active_num < len(order) else len(order)
    places = torch.arange(len(order), device=order.device)
    live = (experts < count) & (places < active)
    nothing = torch.full_like(places, -1)
    return torch.where(live, places, nothing), torch.where(live, order, nothing)[:active]


def _expanded(
    x: Tensor,
    experts: Tensor,
    source: Tensor,
    choices: int,
    tables: tuple[Tensor | None, Tensor | None],
    mode: int,
    name: str,
) -> tuple[Tensor, Tensor]:
    """The rows that `source` names (pairs, -1 for a row of zeros) and their scales: those found, or those that came with the tokens."""
    there, pairs = source >= 0, source.clamp(min=0)
    taken = x[pairs // choices] * there.unsqueeze(-1).to(x.dtype)
    if mode == -1:
        if tables[0] is None:
            return taken, x.new_empty(0, dtype=torch.float32)
        return taken, tables[0].reshape(-1)[pairs // choices] * there.to(tables[0].dtype)
    y, scales = _quantised_rows(taken, experts[pairs], *tables, mode, name)
    return y * there.unsqueeze(-1).to(y.dtype), scales


def npu_moe_init_routing_quant(
    x: Tensor,
    expert_idx: Tensor,
    *,
    scale: Tensor | None = None,
    offset: Tensor | None = None,
    active_num: int = 1024,
    expert_capacity: int = 0,
    expert_num: int = 256,
    drop_pad_mode: int = 0,
    expert_tokens_num_mode: int = 0,
    expert_tokens_before_capacity_flag: bool = False,
    quant_mode: int = 1,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As npu_moe_init_routing_v2; tokens of each expert are asked for by 1 (ends) or 2 (counts), and counted before any is dropped for
    want of capacity by a flag of their own. What is not asked for is empty."""
    name = "npu_moe_init_routing_quant"
    require(quant_mode in (0, 1), f"{name}: quant_mode must be 0 (static) or 1 (dynamic), not {quant_mode}")
    require(
        expert_tokens_num_mode in (0, 1, 2),
        f"{name}: expert_tokens_num_mode must be from 0 to 2, not {expert_tokens_num_mode}",
    )
    rows, where, tokens, row_scales = npu_moe_init_routing_v2(
        x,
        expert_idx,
        scale=scale,
        offset=offset,
        active_num=active_num,
        expert_capacity=expert_capacity,
        expert_num=expert_num,
        drop_pad_mode=drop_pad_mode,
        expert_tokens_num_type=expert_tokens_num_mode - 1 if expert_tokens_num_mode else 0,
        expert_tokens_num_flag=expert_tokens_num_mode > 0,
        quant_mode=quant_mode,
    )
    counts = _tokens_per_expert(expert_idx.reshape(-1).long(), expert_num, 1, 0, name).to(torch.int32)
    before = counts if expert_tokens_before_capacity_flag else counts.new_empty(0)
    return rows, where, tokens.to(torch.int32), before, row_scales


def npu_moe_finalize_routing(
    expanded_permuted_rows: Tensor,
    skip1: Tensor | None,
    skip2: Tensor | None,
    bias: Tensor | None,
    scales: Tensor | None,
    expanded_src_to_dst_row: Tensor,
    export_for_source_row: Tensor | None,
    drop_pad_mode: int | None = 0,
    k: int | None = 1,
) -> Tensor:
    """Modes 0 and 1 number the pairs of row and choice choice by choice, 2 and 3 row by row; in 1 and 3 the rows are [experts, capacity]
    and -1 names a pair that was dropped. `k` is told by the scales where they are there."""
    name, mode = "npu_moe_finalize_routing", drop_pad_mode or 0
    require(mode in (0, 1, 2, 3), f"{name}: drop_pad_mode must be from 0 to 3, not {mode}")
    choices = (k or 1) if scales is None else scales.shape[1]
    width = expanded_permuted_rows.shape[-1]
    table = wide(expanded_permuted_rows.reshape(-1, width))
    pairs = expanded_src_to_dst_row.reshape(-1).long()
    require(len(pairs) % choices == 0, f"{name}: {len(pairs)} pairs with {choices} choices for each row", ErrCode.VALUE)
    sources = pairs.reshape(choices, -1).t() if mode in (0, 1) else pairs.reshape(-1, choices)
    rows = table[sources.clamp(min=0)] * (sources >= 0).unsqueeze(-1).to(table.dtype)
    if bias is not None:
        experts = needed(export_for_source_row, f"{name}: a bias needs export_for_source_row, the expert of each pair")
        added = wide(bias)[experts.reshape(-1, choices).long()]
        rows = rows + added * (sources >= 0).unsqueeze(-1).to(added.dtype)
    if scales is not None:
        rows = rows * wide(scales).unsqueeze(-1)
    result = rows.sum(1)
    for skip in (skip1, skip2):
        if skip is not None:
            result = result + wide(skip)
    return result.to(expanded_permuted_rows.dtype)


def npu_moe_re_routing(
    tokens: Tensor,
    expert_token_num_per_rank: Tensor,
    *,
    per_token_scales: Tensor | None = None,
    expert_token_num_type: int = 1,
    idx_type: int = 0,
    tokens_dtype: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From rank by rank to expert by expert. Kind 0 of the index says which row came, kind 1 where a row went."""
    name = "npu_moe_re_routing"
    if tokens_dtype is not None:
        raise unsupported(f"{name}: tokens_dtype {tokens_dtype}; tokens have a dtype of their own")
    require(
        expert_token_num_type == 1, f"{name}: expert_token_num_type must be 1 (counts), not {expert_token_num_type}"
    )
    require(idx_type in (0, 1), f"{name}: idx_type must be 0 or 1, not {idx_type}")
    ranks, experts = expert_token_num_per_rank.shape
    ends = expert_token_num_per_rank.reshape(-1).long().cumsum(0)
    places = torch.arange(tokens.shape[0], device=tokens.device)
    block = torch.searchsorted(ends, places, right=True)
    # rows that no count covers stay behind all others
    key = torch.where(block < ranks * experts, block % experts, torch.full_like(block, experts))
    order = key.sort(stable=True).indices
    index = order if idx_type == 0 else torch.zeros_like(order).scatter(0, order, places)
    scales = tokens.new_empty(0, dtype=torch.float32) if per_token_scales is None else per_token_scales[order]
    return (
        tokens[order],
        scales,
        index.to(torch.int32),
        expert_token_num_per_rank.sum(0).to(expert_token_num_per_rank.dtype),
    )


def npu_moe_update_expert(
    expert_ids: Tensor,
    eplb_table: Tensor,
    *,
    expert_scales: Tensor | None = None,
    pruning_threshold: Tensor | None = None,
    active_mask: Tensor | None = None,
    local_rank_id: int = -1,
    world_size: int = -1,
    balance_mode: int = 0,
) -> tuple[Tensor, Tensor]:
    """A row of the table is the number of copies of an expert, then their places. Mode 0 shares the copies out among the ranks, mode 1
    among the tokens. A choice stays active where its scale reaches the threshold times the sum of the row."""
    name = "npu_moe_update_expert"
    require(balance_mode in (0, 1), f"{name}: balance_mode must be 0 (by rank) or 1 (by token), not {balance_mode}")
    rows = eplb_table[expert_ids.long()]
    copies = rows[..., 0].long().clamp(min=1)
    if balance_mode == 0:
        require(
            0 <= local_rank_id < world_size,
            f"{name}: local_rank_id {local_rank_id} of world_size {world_size}",
            ErrCode.VALUE,
        )
        share = (world_size + copies - 1) // copies
        chosen = torch.full_like(copies, local_rank_id) // share
    else:
        chosen = torch.arange(expert_ids.shape[0], device=expert_ids.device).reshape(-1, 1) % copies
    places = torch.gather(rows, -1, chosen.unsqueeze(-1) + 1).squeeze(-1)
    active = torch.ones_like(expert_ids, dtype=torch.bool)
    if pruning_threshold is not None:
        weight = needed(expert_scales, f"{name}: pruning_threshold needs expert_scales").float()
        active = weight >= pruning_threshold.float() * weight.sum(-1, keepdim=True)
    if active_mask is not None:
        active = active & active_mask.bool().reshape(-1, 1)
    return places.to(expert_ids.dtype), active
