"""How far the index of keys is from the attention that it stands for, and the gradients that teach it.

loss = sum over rows of KL(p | softmax(scores of the index)), p the probabilities of attention, averaged over the query heads of a key
head; attention itself is not taught. Both are over the keys that a row sees. Silent spots: the loss is the sum, a vector of one of
float32; statistics of the forward calls are computed again. Layout BSND: [batch, rows, heads, width].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.attention.layouts import check_layout
from torch_npu.operators.attention.masks import Band
from torch_npu.operators.common.arguments import ErrCode, gradients, refuse, require, wide
from torch_npu.operators.sparse._core import MAX, index_scores, unseen

Four = tuple[Tensor, Tensor, Tensor, Tensor]


def _check(name: str, query: Tensor, key: Tensor, key_index: Tensor, options: dict[str, Any]) -> int:
    """Refuses what is not computed; answers the sparse mode."""
    check_layout(options.get("layout") or "BSND", ("BSND",), name)
    for what in ("pre_tokens", "next_tokens"):
        refuse(name, **{what: None if options.get(what, MAX) in (None, MAX) else options[what]})
    refuse(name, **{what: options.get(what) for what in ("actual_seq_qlen", "actual_seq_klen", "sinks")})
    mode = options.get("sparse_mode", 3)
    require(mode in (None, 0, 3), f"{name}: sparse_mode must be 0 or 3, not {mode}", ErrCode.VALUE)
    require(
        query.dim() == key.dim() == 4 and query.shape[2] % key.shape[2] == 0,
        f"{name}: query {tuple(query.shape)} and key {tuple(key.shape)} must be [batch, rows, heads, width], the heads of one a multiple",
    )
    require(
        key_index.shape[:3] == key.shape[:3],
        f"{name}: key_index {tuple(key_index.shape)} and key {tuple(key.shape)} must have the same rows and heads",
    )
    return 3 if mode is None else mode


def _target(
    query: Tensor, key: Tensor, ropes: tuple[Tensor | None, Tensor | None], scale: float, hidden: Tensor
) -> Tensor:
    """Probabilities [batch, rows, key heads, columns]; 0 where nothing is seen."""
    q, k = (wide(x if rope is None else torch.cat((x, rope), -1)) for x, rope in zip((query, key), ropes, strict=True))
    scores = torch.einsum("bsngd,btnd->bsngt", torch.unflatten(q, 2, (k.shape[2], -1)), k) * scale
    return scores.masked_fill(hidden.unsqueeze(3), -torch.inf).softmax(-1).nan_to_num(0.0).mean(3)


def _taught(
    name: str, query: Tensor, key: Tensor, index: tuple[Tensor, Tensor, Tensor], hidden: Tensor | None, scale: float,
    query_rope: Tensor | None, key_rope: Tensor | None, mode: int,
) -> Four:  # fmt: skip
    """Gradients of query_index, key_index and weights, and the loss; hidden is [batch, rows, key heads, columns]."""
    require((query_rope is None) == (key_rope is None), f"{name}: query_rope and key_rope must be given together")
    rows, columns = query.shape[1], key.shape[1]
    shape = (query.shape[0], rows, key.shape[2], columns)
    hidden = torch.zeros(shape, dtype=torch.bool, device=query.device) if hidden is None else hidden
    later = Band(None, columns - rows).full(rows, columns, query.device) if mode == 3 else None
    hidden = hidden if later is None else hidden | later[:, None]
    with torch.no_grad():
        target = _target(query, key, (query_rope, key_rope), scale, hidden)
        known = torch.xlogy(target, target).sum()

    def loss(query_index: Tensor, key_index: Tensor, weights: Tensor) -> Tensor:
        scores = index_scores(query_index, key_index, weights, 0, name).masked_fill(hidden, -torch.inf)
        shares = scores.log_softmax(-1).masked_fill(hidden, 0)
        return known - (target * shares).sum()

    grads = gradients(loss, None, *index)
    with torch.no_grad():
        return *grads, loss(*index).float().reshape(1)


def npu_sparse_lightning_indexer_grad_kl_loss(
    query: Tensor, key: Tensor, query_index: Tensor, key_index: Tensor, weights: Tensor, sparse_indices: Tensor,
    softmax_max: Tensor, softmax_sum: Tensor, scale_value: float, *, query_rope: Tensor | None = None,
    key_rope: Tensor | None = None, **options: Any,
) -> Four:  # fmt: skip
    """A row sees the keys that sparse_indices [batch, rows, key heads, count] name, negative: none."""
    name = "npu_sparse_lightning_indexer_grad_kl_loss"
    mode = _check(name, query, key, key_index, options)
    wanted = (*query.shape[:2], key.shape[2])
    require(
        sparse_indices.dim() == 4 and tuple(sparse_indices.shape[:3]) == wanted,
        f"{name}: sparse_indices must be [{', '.join(map(str, wanted))}, count], not {tuple(sparse_indices.shape)}",
    )
    hidden = unseen(sparse_indices, key.shape[1], 1).transpose(1, 2)
    return _taught(name, query, key, (query_index, key_index, weights), hidden, scale_value, query_rope, key_rope, mode)


def npu_dense_lightning_indexer_grad_kl_loss(
    query: Tensor, key: Tensor, query_index: Tensor, key_index: Tensor, weights: Tensor, softmax_max: Tensor, softmax_sum: Tensor,
    softmax_max_index: Tensor, softmax_sum_index: Tensor, scale_value: float, *, query_rope: Tensor | None = None,
    key_rope: Tensor | None = None, **options: Any,
) -> Four:  # fmt: skip
    """A row sees all keys that the mode leaves."""
    name = "npu_dense_lightning_indexer_grad_kl_loss"
    mode = _check(name, query, key, key_index, options)
    return _taught(name, query, key, (query_index, key_index, weights), None, scale_value, query_rope, key_rope, mode)
