"""Rows of a pool of states, one slot for each sequence: reading and writing those of a call."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require
from torch_npu.operators.common.groups import readable


def store_slots(pool: Tensor, slots: Tensor, rows: Tensor, valid: Tensor) -> None:
    """pool[slots] = rows where they are valid. Where the numbers cannot be read (a graph) one after another, so that a row which is
    not written cannot undo one that is."""
    rows = rows.to(pool.dtype)
    if readable(valid) and readable(slots):
        keep = valid.nonzero().squeeze(1)
        pool.index_copy_(0, slots.index_select(0, keep), rows.index_select(0, keep))
        return
    for number in range(slots.shape[0]):
        slot = torch.where(valid[number], slots[number], 0).reshape(1)
        kept = torch.where(valid[number], rows[number], pool.index_select(0, slot)[0])
        pool.index_copy_(0, slot, kept.unsqueeze(0))


def check_indices(indices: Tensor, count: int, name: str, what: str) -> Tensor:
    """int64 of a vector with so many entries."""
    require(
        indices.dim() == 1 and indices.shape[0] == count,
        f"{name}: {what} must be a vector of {count} entries, not {tuple(indices.shape)}",
    )
    return indices.to(torch.int64)
