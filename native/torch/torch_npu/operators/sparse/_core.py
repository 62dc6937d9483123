"""What attention over chosen keys shares: the scores of an index, and the mask of keys that no chosen block has."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.attention.masks import Band
from torch_npu.operators.common.arguments import ErrCode, require, wide

MAX = 9223372036854775807


def index_scores(query: Tensor, key: Tensor, weights: Tensor, mode: int, name: str) -> Tensor:
    """sum over heads of w * relu(q . k), [batch, rows, key heads, columns]; -inf for what the mode hides."""
    require(mode in (0, 3), f"{name}: sparse_mode must be 0 (all) or 3 (right-down causal), not {mode}", ErrCode.VALUE)
    batch, rows, heads, _ = query.shape
    kv_heads = key.shape[2]
    require(heads % kv_heads == 0, f"{name}: {heads} heads of query for {kv_heads} of key")
    q = torch.unflatten(wide(query), 2, (kv_heads, heads // kv_heads))
    products = torch.einsum("bskgd,btkd->bskgt", q, wide(key)).relu()
    scores = (products * wide(weights).reshape(batch, rows, kv_heads, -1, 1)).sum(3)
    hidden = Band(None, key.shape[1] - rows).full(rows, key.shape[1], query.device) if mode == 3 else None
    return scores if hidden is None else scores.masked_fill(hidden[:, None], -torch.inf)


def unseen(indices: Tensor, columns: int, block: int) -> Tensor:
    """True for keys whose block is not named, [batch, key heads, rows, columns]."""
    batch, rows, heads, _ = indices.shape
    blocks = -(-columns // block)
    named = torch.zeros(batch, rows, heads, blocks + 1, dtype=torch.bool, device=indices.device)
    places = torch.where(indices < 0, blocks, indices).to(torch.int64)
    named = named.scatter(-1, places, torch.ones_like(places, dtype=torch.bool))[..., :blocks]
    return ~named.repeat_interleave(block, -1)[..., :columns].transpose(1, 2)
