"""The gated delta rule: a state [value width, key width] per head that decays, forgets what a key held, and takes in its new value.

    S = S * exp(g);  S = S + beta * (v - S k) k^T;  out = S (scale * q)

Tensors are [tokens, heads, width], sequences one after another; query and key may have fewer heads, each serving a group of value's.
Silent spots, read as the models do: without a scale it is 1/sqrt(key width), without beta 1, lengths are counts (not ends), without
them all tokens are one sequence. Computed in float32 and rounded once; a state is rounded only where it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, wide
from torch_npu.operators.common.groups import readable
from torch_npu.operators.recurrent._slots import check_indices, store_slots

_CHUNK = 64  # tokens whose mutual influence is solved as one triangular system


@dataclass(frozen=True)
class _Tokens:
    """What a step takes from each token, in the precision of the computation: query (scaled), key, value, beta, decay."""

    q: Tensor  # [tokens, value heads, key width]
    k: Tensor
    v: Tensor
    beta: Tensor  # [tokens, value heads, 1]
    log_decay: Tensor | None  # [tokens, value heads, 1 or key width]

    def at(self, rows: Tensor) -> _Tokens:
        q, k, v, beta = (tensor.index_select(0, rows) for tensor in (self.q, self.k, self.v, self.beta))
        return _Tokens(q, k, v, beta, None if self.log_decay is None else self.log_decay.index_select(0, rows))


def _tokens(
    query: Tensor, key: Tensor, value: Tensor, beta: Tensor | None, scale: float | None, g: Tensor | None,
    gk: Tensor | None, name: str,
) -> _Tokens:  # fmt: skip
    require(
        query.dim() == key.dim() == value.dim() == 3 and query.shape == key.shape and key.shape[0] == value.shape[0],
        f"{name}: query and key must be [tokens, heads, width] and value [tokens, heads, width], not "
        f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}",
    )
    tokens, heads, width = key.shape
    require(
        value.shape[1] % heads == 0,
        f"{name}: {value.shape[1]} heads of value are no multiple of {heads} of key",
        ErrCode.VALUE,
    )
    gate = (tokens, value.shape[1])
    for what, tensor, wanted in (("beta", beta, gate), ("g", g, gate), ("gk", gk, (*gate, width))):
        require(
            tensor is None or tuple(tensor.shape) == wanted,
            f"{name}: {what} must be {wanted}, not {tuple(tensor.shape) if tensor is not None else None}",
        )
    group = value.shape[1] // heads
    q, k, v = (wide(x) for x in (query, key, value))
    decay = None if g is None else wide(g).to(v.dtype).unsqueeze(-1)
    if gk is not None:
        decay = wide(gk).to(v.dtype) if decay is None else decay + wide(gk).to(v.dtype)
    strength = v.new_ones(gate) if beta is None else wide(beta).to(v.dtype)
    q = q * (width**-0.5 if scale is None else scale)
    return _Tokens(
        q.repeat_interleave(group, 1), k.repeat_interleave(group, 1), v, strength.unsqueeze(-1), decay
    )  # fmt: skip


def _step(state: Tensor, token: _Tokens) -> tuple[Tensor, Tensor]:
    """State [rows, heads, value width, key width] after a token of each row, and what it answers."""
    if token.log_decay is not None:
        state = state * token.log_decay.exp().unsqueeze(-2)
    held = (state * token.k.unsqueeze(-2)).sum(-1)
    state = state + (token.beta * (token.v - held)).unsqueeze(-1) * token.k.unsqueeze(-2)
    return state, (state * token.q.unsqueeze(-2)).sum(-1)


@dataclass(frozen=True)
class _Places:
    """Where states come from and go to: sequence of each token, its start, the slot read at a start, the slot written."""

    starts: Tensor  # [sequences], the first token
    counts: Tensor  # [sequences]
    reads: Tensor  # [sequences], slot of the state before the first token
    writes: Tensor  # [tokens], slot of the state after it, negative where it is not kept


def _lengths(actual: Tensor | None, tokens: int, device: torch.device, name: str) -> Tensor:
    if actual is None:
        return torch.full((1,), tokens, dtype=torch.int64, device=device)
    require(actual.dim() == 1, f"{name}: actual_seq_lengths must be a vector, not {tuple(actual.shape)}")
    if readable(actual):
        whole = actual.tolist()
        require(
            min(whole, default=0) >= 0 and sum(whole) == tokens,
            f"{name}: actual_seq_lengths {whole} must count the {tokens} tokens",
            ErrCode.VALUE,
        )
    return actual.to(torch.int64)


def _places(
    actual: Tensor | None, indices: Tensor | None, accepted: Tensor | None, tokens: int, device: torch.device, name: str
) -> _Places:
    counts = _lengths(actual, tokens, device, name)
    starts = counts.cumsum(0) - counts
    if indices is None:
        require(accepted is None, f"{name}: num_accepted_tokens chooses one of ssm_state_indices, which are missing")
        own = torch.arange(counts.shape[0], device=device)
        ends = counts.cumsum(0)
        return _Places(starts, counts, own, torch.searchsorted(ends, torch.arange(tokens, device=device), right=True))
    slots = check_indices(indices, tokens, name, "ssm_state_indices")
    first = starts
    if accepted is not None:
        first = starts + check_indices(accepted, counts.shape[0], name, "num_accepted_tokens") - 1
    last = max(tokens - 1, 0)
    return _Places(starts, counts, slots.index_select(0, first.clamp(0, last)), slots)


def _by_position(tokens: _Tokens, pool: Tensor, at: _Places) -> Tensor:
    """All sequences take their first token together, then their second, and so on."""
    state = pool.index_select(0, at.reads.clamp(min=0)).to(tokens.v.dtype)
    parts, order = [], []
    for position in range(int(at.counts.max()) if at.counts.numel() else 0):
        active = (at.counts > position).nonzero().squeeze(1)
        rows = at.starts.index_select(0, active) + position
        new_state, out = _step(state.index_select(0, active), tokens.at(rows))
        state = state.index_copy(0, active, new_state)
        slots = at.writes.index_select(0, rows)
        store_slots(pool, slots, new_state, slots >= 0)
        parts.append(out)
        order.append(rows)
    if not parts:
        return torch.zeros_like(tokens.v)
    return torch.cat(parts).index_select(0, torch.cat(order).argsort())


def _token_by_token(tokens: _Tokens, pool: Tensor, at: _Places) -> Tensor:
    """The same for a graph, in which lengths are not numbers yet."""
    count = tokens.v.shape[0]
    places = torch.arange(count, device=pool.device)
    member = torch.searchsorted(at.counts.cumsum(0), places, right=True).clamp(max=at.counts.shape[0] - 1)
    fresh = places == at.starts[member]
    state = torch.zeros_like(pool[:1], dtype=tokens.v.dtype)
    parts = []
    for number in range(count):
        before = pool.index_select(0, at.reads[member[number : number + 1]].clamp(min=0)).to(tokens.v.dtype)
        state, out = _step(torch.where(fresh[number], before, state), tokens.at(places[number : number + 1]))
        slot = at.writes[number : number + 1]
        store_slots(pool, slot, state, slot >= 0)
        parts.append(out)
    return torch.cat(parts) if parts else torch.zeros_like(tokens.v)


def _check_state(state: Tensor, value: Tensor, width: int, name: str, what: str) -> None:
    wanted = (value.shape[1], value.shape[2], width)
    require(
        state.dim() == 4 and tuple(state.shape[1:]) == wanted,
        f"{name}: {what} must be [states, {', '.join(map(str, wanted))}] (heads, value width, key width), not {tuple(state.shape)}",
    )


def npu_recurrent_gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, state: Tensor, *, beta: Tensor | None = None, scale: float | None = None,
    actual_seq_lengths: Tensor | None = None, ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None, g: Tensor | None = None, gk: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """state is [slots, heads, value width, key width]. ssm_state_indices names for each token the slot that keeps the state after it
    (negative: none); a sequence begins with the slot of its first token or, with num_accepted_tokens, of the last one accepted.
    Without indices a sequence has the slot of its number."""
    name = "npu_recurrent_gated_delta_rule"
    tokens = _tokens(query, key, value, beta, scale, g, gk, name)
    _check_state(state, value, key.shape[-1], name, "state")
    at = _places(actual_seq_lengths, ssm_state_indices, num_accepted_tokens, value.shape[0], state.device, name)
    require(
        ssm_state_indices is not None or at.counts.shape[0] <= state.shape[0],
        f"{name}: {at.counts.shape[0]} sequences and {state.shape[0]} states",
    )
    known = readable(at.counts) and readable(at.writes)
    out = (_by_position if known else _token_by_token)(tokens, state, at)
    return out.to(value.dtype)


def npu_recurrent_gated_delta_rule_functional(
    query: Tensor, key: Tensor, value: Tensor, state: Tensor, **options: Any
) -> tuple[Tensor, Tensor]:
    """The output, and the states of which the given ones are not touched."""
    new_state = state.clone()
    return npu_recurrent_gated_delta_rule(query, key, value, new_state, **options), new_state


def _chunks(x: Tensor, count: int) -> Tensor:
    """[tokens, heads, width] as [heads, chunks, tokens of a chunk, width], filled up with zeros."""
    return torch.unflatten(F.pad(x, (0, 0, 0, 0, 0, count * _CHUNK - x.shape[0])), 0, (count, _CHUNK)).permute(
        2, 0, 1, 3
    )


def _inverse(lower: Tensor) -> Tensor:
    """Of 1 + a strictly lower triangle: of its diagonal blocks of 1, 2, 4 and so on. A solver takes ten times as long for many small
    systems, and a product of powers is not stable."""
    size = lower.shape[-1]
    inverse = torch.ones_like(lower[..., :1]).unsqueeze(-1)  # [..., blocks, block, block]
    block = 1
    while block < size:
        pairs = torch.unflatten(torch.unflatten(lower, -1, (-1, 2 * block)), -3, (-1, 2 * block)).diagonal(
            dim1=-4, dim2=-2
        )
        below = pairs.movedim(-1, -3)[..., block:, :block]
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        left = torch.cat((first, -(second @ below @ first)), -2)
        right = torch.cat((torch.zeros_like(second), second), -2)
        inverse, block = torch.cat((left, right), -1), 2 * block
    return inverse.squeeze(-3)


def _chunked(tokens: _Tokens, state: Tensor) -> tuple[Tensor, Tensor]:
    """One sequence. Inside of a chunk the corrections of all tokens are one triangular system; the state passes between chunks."""
    length = tokens.v.shape[0]
    count = -(-length // _CHUNK)
    q, k, v, beta = (_chunks(x, count) for x in (tokens.q, tokens.k, tokens.v, tokens.beta))
    decay = torch.zeros_like(tokens.beta) if tokens.log_decay is None else tokens.log_decay
    level = _chunks(decay, count).cumsum(-2)
    later = torch.ones(_CHUNK, _CHUNK, dtype=torch.bool, device=v.device).triu(1)
    fading = (level - level.transpose(-1, -2)).masked_fill(later, -torch.inf).exp()
    system = ((k * beta) @ k.transpose(-1, -2) * fading).tril(-1)
    right = torch.cat((v * beta, k * beta * level.exp()), -1)
    new, old = (_inverse(system) @ right).split_with_sizes([v.shape[-1], k.shape[-1]], -1)
    within = (q @ k.transpose(-1, -2)) * fading
    outs = []
    for at in range(count):
        change = new[:, at] - old[:, at] @ state.transpose(-1, -2)
        far = (q[:, at] * level[:, at].exp()) @ state.transpose(-1, -2)
        outs.append(far + within[:, at] @ change)
        last = level[:, at, -1:]
        state = state * last.exp() + change.transpose(-1, -2) @ (k[:, at] * (last - level[:, at]).exp())
    return torch.cat(outs, 1)[:, :length].transpose(0, 1), state


def npu_chunk_gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, *, beta: Tensor | None = None, initial_state: Tensor | None = None,
    actual_seq_lengths: Tensor | None = None, scale: float | None = None, g: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Output and the last state of each sequence, in the dtype of initial_state; zeros of float32 where it is not given."""
    name = "npu_chunk_gated_delta_rule"
    tokens = _tokens(query, key, value, beta, scale, g, None, name)
    sequences = 1 if actual_seq_lengths is None else actual_seq_lengths.shape[0]
    if initial_state is None:
        dtype = torch.promote_types(tokens.v.dtype, torch.float32)
        initial_state = value.new_zeros(sequences, *value.shape[1:], key.shape[-1], dtype=dtype)
    _check_state(initial_state, value, key.shape[-1], name, "initial_state")
    require(
        initial_state.shape[0] == sequences,
        f"{name}: {sequences} sequences and {initial_state.shape[0]} initial states",
    )
    if actual_seq_lengths is not None and not readable(actual_seq_lengths):
        pool = initial_state.clone()
        at = _places(actual_seq_lengths, None, None, value.shape[0], value.device, name)
        return _token_by_token(tokens, pool, at).to(value.dtype), pool
    counts = [value.shape[0]]
    if actual_seq_lengths is not None:
        counts = _lengths(actual_seq_lengths, value.shape[0], value.device, name).tolist()
    ends = list(accumulate(counts, initial=0))
    outs, states = [tokens.v[:0]], []
    for number, (start, end) in enumerate(pairwise(ends)):
        before = initial_state[number].to(tokens.v.dtype)
        rows = torch.arange(start, end, device=value.device)
        out, after = _chunked(tokens.at(rows), before) if end > start else (tokens.v[:0], before)
        outs.append(out)
        states.append(after.to(initial_state.dtype))
    return torch.cat(outs).to(value.dtype), torch.stack(states) if states else initial_state.clone()
