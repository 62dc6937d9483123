"""The calls of npu_fusion_attention: dropout, the forward call, gradients from what it returned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.attention._arguments import Call, Piece, pieces
from torch_npu.operators.attention._dropout import draw, make_bits, mask_bytes
from torch_npu.operators.attention.core import attention, backward
from torch_npu.operators.attention.layouts import cut, joined, to_heads
from torch_npu.operators.common.arguments import require
from torch_npu.operators.common.fused import plain

_COPIES = 8  # the kernel writes each maximum and sum that often


def _with_bits(call: Call, parts: list[Piece], bits: Tensor) -> list[Piece]:
    """Each piece with its share of the keep bits; a piece begins at a multiple of 128 of them."""
    sizes = [mask_bytes(piece.scores) for piece in parts]
    require(
        bits.dtype == torch.uint8 and bits.numel() >= sum(sizes),
        f"{call.name}: dropout_mask must be uint8 with {sum(sizes)} bytes, not {bits.dtype} with {bits.numel()}",
    )
    shares = bits.reshape(-1)[: sum(sizes)].split_with_sizes(sizes)
    return [replace(piece, spec=replace(piece.spec, bits=share)) for piece, share in zip(parts, shares, strict=True)]


def _drop(call: Call, parts: list[Piece], again: bool) -> tuple[list[Piece], int, int, int]:
    """The pieces with their keep bits, seed, offset and bytes of the mask; `again`: seed and offset are those of a forward call."""
    if call.keep == 1:
        return parts, 0, 0, 0
    size = sum(mask_bytes(piece.scores) for piece in parts)
    if call.dropout_mask is not None:
        return _with_bits(call, parts, call.dropout_mask), call.seed, call.offset, size
    seed, offset = call.seed, call.offset
    device = call.query.device
    if not plain(call.query, call.key, call.value):
        kept = torch.rand(size, 8, device=device) < call.keep
        weights = 1 << torch.arange(8, device=device)
        return _with_bits(call, parts, (kept * weights).sum(-1).to(torch.uint8)), 0, 0, size
    if not again and not seed and not offset:
        seed, offset = draw(device)
    return _with_bits(call, parts, make_bits(size, call.keep, seed, offset, device)), seed, offset, size


def _stats(call: Call, statistics: list[Tensor], rows: int) -> Tensor:
    """[batch, heads, rows] of the pieces as [batch, heads, rows, 8], of TND as [rows, heads, 8]."""
    if call.packed:
        whole = joined(statistics, 2, rows, lambda rest: torch.zeros(1, call.heads, rest, device=call.query.device))
        return whole[0].t()[..., None].expand(-1, -1, _COPIES).contiguous()
    whole = statistics[0] if len(statistics) == 1 else torch.cat(statistics)
    return whole[..., None].expand(-1, -1, -1, _COPIES).contiguous()


def run(call: Call) -> tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]:
    """The forward call."""
    call.check()
    parts, seed, offset, size = _drop(call, list(pieces(call)), False)
    results = [attention(piece.q, piece.k, piece.v, piece.spec, piece.pse, call.sink) for piece in parts]
    rows, width = call.operands.q.shape[2], call.operands.v.shape[-1]
    outs, tops, totals = ([result[index] for result in results] for index in range(3))
    if call.packed:
        out = joined(outs, 2, rows, lambda rest: call.query.new_zeros(1, call.heads, rest, width))
    else:
        out = outs[0] if len(outs) == 1 else torch.cat(outs)
    reserved = call.query.new_empty(0)
    return call.back(out), _stats(call, tops, rows), _stats(call, totals, rows), reserved, seed, offset, size


@dataclass(frozen=True)
class Gradients:
    q: Tensor
    k: Tensor
    v: Tensor
    pse: Tensor
    query_rope: Tensor
    key_rope: Tensor
    sink: Tensor


def _kept(call: Call, statistic: Tensor | None, what: str) -> Tensor:
    """[batch, heads, rows] of a maximum or a sum that the forward call returned."""
    require(statistic is not None, f"{call.name}: {what} of the forward call is needed")
    assert statistic is not None
    first = statistic[..., 0]
    wanted = call.operands.q.shape[:3]
    turned = first.t()[None] if call.packed and first.dim() == 2 else first
    require(
        turned.shape == wanted, f"{call.name}: {what} of shape {tuple(statistic.shape)} does not fit {tuple(wanted)}"
    )
    return turned


def _pieces_of(call: Call, x: Tensor) -> list[Tensor]:
    if call.packed:
        return cut(x, call.sizes[0], 2)
    return list(torch.split(x, 1)) if call.mask is not None and call.sparse.by_batch else [x]


def gradients(
    call: Call, dy: Tensor, top: Tensor | None, total: Tensor | None, attention_in: Tensor | None
) -> Gradients:
    """Gradients from the maxima and sums; with attention_in they may be those of a longer sequence, of which this is a part."""
    with torch.no_grad():
        call.check()
        parts, *_ = _drop(call, list(pieces(call)), True)
        tops, totals = (
            _pieces_of(call, _kept(call, statistic, what))
            for statistic, what in ((top, "softmax_max"), (total, "softmax_sum"))
        )
        grads = _pieces_of(call, to_heads(dy, call.layout, call.heads, f"{call.name}: dy"))
        outs: list[Tensor] | list[None] = [None] * len(parts)
        if attention_in is not None:
            outs = _pieces_of(call, to_heads(attention_in, call.layout, call.heads, f"{call.name}: attention_in"))
        grads_of_parts = []
        for piece, high, whole, grad, out in zip(parts, tops, totals, grads, outs, strict=True):
            extra = [x for x in (piece.pse, call.sink) if x is not None]
            inputs = (piece.q, piece.k, piece.v, *extra)
            grads_of_parts.append(backward(inputs, (high, whole), grad, (True,) * len(inputs), (piece.spec,), out))
        return _gathered(call, parts, grads_of_parts)


def _gathered(call: Call, parts: list[Piece], grads_of_parts: list[tuple[Tensor | None, ...]]) -> Gradients:
    """Gradients of the pieces as gradients of the arguments."""
    whole = []
    for index, operand in enumerate((call.operands.q, call.operands.k, call.operands.v)):
        each = [grad for grads in grads_of_parts if (grad := grads[index]) is not None]
        if call.packed:
            whole.append(
                joined(
                    each,
                    2,
                    operand.shape[2],
                    lambda rest, operand=operand: operand.new_zeros(1, operand.shape[1], rest, operand.shape[3]),
                )
            )
        else:
            whole.append(each[0] if len(each) == 1 else torch.cat(each))
    dq, dk, dv = whole
    empty = call.query.new_empty(0)
    dpse = _pse_gradient(call, parts, grads_of_parts) if call.pse is not None else empty
    dsink: Any = sum(grads[-1] for grads in grads_of_parts) if call.sink is not None else empty
    if call.query_rope is None:
        return Gradients(call.back(dq), call.back(dk), call.back(dv), dpse, empty, empty, dsink)
    width = dq.shape[-1] - _width(call.query_rope, call)
    return Gradients(
        call.back(dq[..., :width]), call.back(dk[..., :width]), call.back(dv), dpse,
        call.back(dq[..., width:]), call.back(dk[..., width:]), dsink,
    )  # fmt: skip


def _width(rope: Tensor, call: Call) -> int:
    return rope.shape[-1] // call.heads if call.layout in ("BSH", "SBH") else rope.shape[-1]


def _pse_gradient(call: Call, parts: list[Piece], grads_of_parts: list[tuple[Tensor | None, ...]]) -> Tensor:
    """Summed over what pse was broadcast to; slopes get none, as they are no input of the derivative."""
    assert call.pse is not None
    dpse = torch.zeros_like(call.pse)
    if call.pse_type in (2, 3):
        return dpse
    for at, (piece, grads) in enumerate(zip(parts, grads_of_parts, strict=True)):
        grad = grads[3]
        assert grad is not None and piece.pse is not None
        own = dpse[at : at + 1] if len(parts) > 1 and dpse.shape[0] > 1 else dpse
        target = own[:, :, : piece.q.shape[2], : piece.k.shape[2]]
        target += grad.sum_to_size(target.shape)
    return dpse
