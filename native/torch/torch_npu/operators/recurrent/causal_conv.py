"""The causal convolution over time of linear attention: each channel by itself, with the last inputs of a sequence kept in a pool.

Tensors have time before channels: x [tokens, channels] (sequences one after another) or [batch, steps, channels], weight
[taps, channels], conv_states [slots, kept >= taps - 1, channels].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require, unsupported, wide
from torch_npu.operators.common.groups import readable
from torch_npu.operators.recurrent._slots import check_indices, store_slots

_ACTIVATIONS = {None: None, "None": None, "none": None, "silu": F.silu, "swish": F.silu}
_BY_BLOCKS = (
    "num_computed_tokens",
    "block_idx_first_scheduled_token",
    "block_idx_last_scheduled_token",
    "initial_state_idx",
)


@dataclass(frozen=True)
class _Sequences:
    """For each sequence where it begins, how long it is, its slot, whether it is computed; for each token its sequence and position."""

    starts: Tensor
    lengths: Tensor
    slots: Tensor
    valid: Tensor
    member: Tensor
    position: Tensor


def _sequences(
    x: Tensor, query_start_loc: Tensor | None, cache_indices: Tensor | None, pad: int, name: str
) -> _Sequences:
    tokens = x.shape[:-1].numel()
    if query_start_loc is None:
        require(x.dim() == 3, f"{name}: x of {tuple(x.shape)} needs query_start_loc, or to be [batch, steps, channels]")
        bounds = (
            torch.arange(0, tokens + 1, x.shape[1], device=x.device) if tokens else x.new_zeros(1, dtype=torch.int64)
        )
    else:
        require(x.dim() == 2, f"{name}: with query_start_loc x is [tokens, channels], not {tuple(x.shape)}")
        require(
            query_start_loc.dim() == 1 and query_start_loc.shape[0] > 1,
            f"{name}: query_start_loc must have an entry more than there are sequences, not {tuple(query_start_loc.shape)}",
        )
        bounds = query_start_loc.to(torch.int64)
    starts, count = bounds[:-1], bounds.shape[0] - 1
    if cache_indices is None:
        slots = torch.arange(count, device=x.device)
    else:
        slots = check_indices(cache_indices, count, name, "cache_indices")
    positions = torch.arange(tokens, device=x.device)
    member = torch.searchsorted(bounds[1:].contiguous(), positions, right=True).clamp(max=max(count - 1, 0))
    return _Sequences(starts, bounds[1:] - starts, slots, slots != pad, member, positions - starts[member])


def _history(
    own: Tensor, at: _Sequences, taps: int, mode: Tensor | None, run_mode: int, offset: Tensor | None, name: str
) -> Tensor:
    """[sequences, taps - 1, channels] before the first token: from the pool, or zeros where a sequence begins."""
    history = own[:, : taps - 1]
    if offset is not None:
        rows = torch.arange(taps - 1, device=own.device)
        positions = (offset.unsqueeze(1) + rows).unsqueeze(-1).expand(-1, -1, own.shape[-1])
        history = own.gather(1, positions)
    if mode is None:
        used = at.valid if run_mode else torch.zeros_like(at.valid)
    else:
        used = check_indices(mode, at.slots.shape[0], name, "initial_state_mode") != 0
    return torch.where((used & at.valid).reshape(-1, 1, 1), history, 0)


def _at(x: Tensor, history: Tensor, at: _Sequences, sequence: Tensor, position: Tensor) -> Tensor:
    """The input of a sequence at a position, which is negative in its history. x is [tokens, channels]."""
    past = history.shape[1]
    here = x.index_select(0, (at.starts[sequence] + position).clamp(0, max(x.shape[0] - 1, 0)))
    before = history[sequence, (position + past).clamp(0, past - 1)]
    return torch.where((position >= 0).unsqueeze(-1), here, before)


def _kept(x: Tensor, history: Tensor, own: Tensor, at: _Sequences, drafts: bool, name: str) -> Tensor:
    """The new rows of the slots: the last taps - 1 inputs; with drafts all of them, after the taps - 2 inputs before them."""
    past, every = history.shape[1], torch.arange(at.slots.shape[0], device=x.device)
    if not drafts:
        rows = [_at(x, history, at, every, at.lengths - past + row) for row in range(past)]
        return torch.cat((torch.stack(rows, 1).to(own.dtype), own[:, past:]), 1)
    if readable(at.lengths):
        most = int(at.lengths.max()) + past - 1
        require(
            own.shape[1] >= most, f"{name}: conv_states keep {own.shape[1]} rows; taps - 2 and all drafts are {most}"
        )
    rows = []
    for row in range(own.shape[1]):
        position = row - (past - 1)
        rows_at = _at(x, history, at, every, torch.full_like(at.lengths, position)).to(own.dtype)
        rows.append(torch.where((position < at.lengths).unsqueeze(-1), rows_at, own[:, row]))
    return torch.stack(rows, 1)


def _check(x: Tensor, weight: Tensor, states: Tensor, bias: Tensor | None, options: dict[str, Any], name: str) -> None:
    channels = x.shape[-1]
    require(
        x.dim() in (2, 3) and weight.dim() == 2 and weight.shape[1] == channels and weight.shape[0] >= 2,
        f"{name}: weight must be [taps, {channels}] with two taps or more for x of {tuple(x.shape)}, not {tuple(weight.shape)}",
    )
    require(
        states.dim() == 3 and states.shape[2] == channels and states.shape[1] >= weight.shape[0] - 1,
        f"{name}: conv_states must be [slots, at least {weight.shape[0] - 1}, {channels}], not {tuple(states.shape)}",
    )
    require(bias is None or bias.shape == (channels,), f"{name}: bias must have {channels} entries")
    for what in _BY_BLOCKS:
        if options.get(what) is not None:
            raise unsupported(f"{name}: {what}: states in the blocks of a prefix cache are not computed; leave it out")
    mode = options.get("conv_mode", "default")
    if mode not in (None, "default"):
        raise unsupported(f"{name}: conv_mode {mode!r}; 'default' is there")
    require(
        options.get("run_mode", 0) in (None, 0, 1), f"{name}: run_mode must be 0 or 1, not {options.get('run_mode')}"
    )
    activation = options.get("activation", "None")
    require(
        activation in _ACTIVATIONS, f"{name}: activation must be None, silu or swish, not {activation!r}", ErrCode.VALUE
    )
    residual = options.get("residual_connection", 0)
    require(residual in (None, 0, 1), f"{name}: residual_connection must be 0 or 1, not {residual}")
    if residual and _ACTIVATIONS[activation] is not None:
        raise unsupported(f"{name}: residual_connection with activation {activation!r}; add x to the result instead")


def npu_fused_causal_conv1d(
    x: Tensor, weight: Tensor, conv_states: Tensor, *, query_start_loc: Tensor | None = None,
    cache_indices: Tensor | None = None, initial_state_mode: Tensor | None = None, bias: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None, pad_slot_id: int | None = -1, **options: Any,
) -> Tensor:  # fmt: skip
    """Silent spots, read as serving engines do: cache_indices name the slots (without them a sequence has that of its number,
    pad_slot_id: zeros come out and nothing is kept); initial_state_mode is per sequence, 0 begins with zeros, others with the slot;
    without it run_mode 0 (prefill) begins with zeros and 1 (decode) with the slot. The first taps - 1 rows of a slot count. With
    num_accepted_tokens they begin that many less one later, and the slot then ends in all inputs of the call. max_query_len and
    block_size say how work is cut and change no result."""
    name = "npu_fused_causal_conv1d"
    _check(x, weight, conv_states, bias, options, name)
    at = _sequences(x, query_start_loc, cache_indices, -1 if pad_slot_id is None else pad_slot_id, name)
    taps, flat = weight.shape[0], x.reshape(-1, x.shape[-1])
    offset = None
    if num_accepted_tokens is not None:
        offset = check_indices(num_accepted_tokens, at.slots.shape[0], name, "num_accepted_tokens") - 1
        offset = offset.clamp(0, conv_states.shape[1] - taps + 1)
    own = conv_states.index_select(0, torch.where(at.valid, at.slots, 0))
    history = _history(own, at, taps, initial_state_mode, options.get("run_mode") or 0, offset, name).to(x.dtype)
    total = wide(flat) * wide(weight[-1])
    for tap in range(taps - 1):
        total = total + wide(_at(flat, history, at, at.member, at.position - (taps - 1) + tap)) * wide(weight[tap])
    if bias is not None:
        total = total + wide(bias)
    activation = _ACTIVATIONS[options.get("activation", "None")]
    total = total if activation is None else activation(total)
    if options.get("residual_connection"):
        total = total + wide(flat)
    total = torch.where(at.valid[at.member].unsqueeze(-1), total, 0)
    with torch.no_grad():
        store_slots(conv_states, at.slots, _kept(flat, history, own, at, offset is not None, name), at.valid)
    return total.to(x.dtype).reshape(x.shape)


def npu_fused_causal_conv1d_v2(x: Tensor, weight: Tensor, conv_states: Tensor, **options: Any) -> None:
    """The result takes the place of x."""
    x.copy_(npu_fused_causal_conv1d(x, weight, conv_states, **options))
