"""Attention in blocks of rows: the scores of a block live in the processor's cache and nowhere else.

Forward keeps the maximum and the sum of each row; backward computes the scores of a block again from them. Tensors are
[batch, heads, rows, width]; key and value may have fewer heads, each serving a group of the query's.
"""

from __future__ import annotations

import torch
from torch import Tensor

import torch_npu._C as _C
from torch_npu.operators.attention._formula import compose
from torch_npu.operators.attention.masks import Span
from torch_npu.operators.attention.problem import Problem, Spec, is_one_block
from torch_npu.operators.common.arguments import wide
from torch_npu.operators.common.fused import Kind, apply

_KEPT = 1 << 28  # bytes of probabilities that are kept for backward; more are computed again
_LOWEST = torch.finfo(torch.float32).min


def _like_layout(x: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """An empty tensor whose dimensions lie in memory in the order of x's: going back to the layout of the call is then a view."""
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda dim: -strides[dim])
    return torch.empty_permuted((*x.shape[:-1], width), order, dtype=dtype, device=x.device)


def _largest(x: Tensor) -> Tensor:
    """Row maxima. bfloat16 that is not negative is ordered as its bits are, and those are compared ten times as fast."""
    if x.dtype != torch.bfloat16:
        return x.amax(-1, keepdim=True)
    bits = x.view(torch.int16).amax(-1, keepdim=True)
    largest = bits.view(torch.bfloat16)
    wrong = (bits.view(-1) < 0).nonzero().squeeze(1)
    if wrong.numel():
        rows = x.view(-1, x.shape[-1]).index_select(0, wrong)
        largest.view(-1).index_copy_(0, wrong, rows.float().amax(-1).to(x.dtype))
    return largest


def _probabilities(p: Problem, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Without our own kernel: the largest probability is the reciprocal of the sum, so exponentials need no further pass."""
    if p.stat == torch.float32 and _C._no_rules_of_a_chip():
        top, total = _C._softmax_of_rows(scores)
        return top, total
    top = _largest(scores).to(p.stat)
    torch.ops.aten._softmax.out(scores, -1, False, out=scores)
    total = _largest(scores).to(p.stat).reciprocal_()
    if p.hides and bool((top == -torch.inf).any()):
        nothing = top == -torch.inf
        scores.masked_fill_(nothing, 0)
        total.masked_fill_(nothing, 0)
        top.masked_fill_(nothing, _LOWEST)
    return top, total


def _normalise(p: Problem, scores: Tensor, at: Span) -> tuple[Tensor, Tensor, Tensor]:
    """Scores become probabilities in place; also the maximum and the sum of each row, lowest and 0 where all is masked."""
    top, total = _probabilities(p, scores)
    sink = p.sink_at(at)
    if sink is None:
        return scores, top, total
    higher = torch.maximum(top, sink)
    kept = total * torch.exp(top - higher)
    whole = kept + torch.exp(sink - higher)
    return scores.mul_((kept / whole).to(p.gemm)), higher, whole


def forward(
    inputs: tuple[Tensor, ...], options: tuple[Spec], keep: bool
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, ...]]:
    """Keeps maxima and sums, and the probabilities where they are few: no product has to be computed again then."""
    direct = _one_block(inputs, options[0], keep)
    if direct is not None:
        return direct
    p, q = Problem(inputs, options[0]), inputs[0]
    spans = list(p.spans(keep))
    store = _Store(p, spans) if keep else None
    alone = len(spans) == 1 and spans[0].c0 < spans[0].c1
    out, top, total = _block(p, spans[0], store) if alone else _blocks(p, spans, store)
    if p.bits is not None:
        out.div_(p.spec.keep)
    stats = p.shape[:-1]
    result = out.view(*stats, out.shape[-1])
    if result.dtype != q.dtype or not q.is_contiguous():
        result = _like_layout(q, result.shape[-1], q.dtype).copy_(result)
    small = (top.view(stats), total.view(stats))
    return (result, *small), (*small, store.memory) if store is not None and store.memory is not None else small


def _one_block(
    inputs: tuple[Tensor, ...], spec: Spec, keep: bool
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, ...]] | None:
    """The whole in one call of C++, where the scores are few and nothing is asked but a mask; None elsewhere."""
    q, k, v = inputs[:3]
    if not is_one_block(q, k, spec, keep) or not _C._no_rules_of_a_chip():
        return None
    mask = spec.band.full(q.shape[2], k.shape[2], q.device) if spec.mask is None else spec.mask[0, 0]
    out, top, total, shares = _C._attention_block(q, k, v, spec.scale, mask)
    if not q.is_contiguous():
        out = _like_layout(q, out.shape[-1], out.dtype).copy_(out)
    return (out, top, total), (top, total, shares) if keep else ()


def _block(p: Problem, at: Span, store: _Store | None) -> tuple[Tensor, Tensor, Tensor]:
    """Output, maxima and sums of a block, [heads, group, rows, ...]; the output is overwritten by the next block."""
    held = None if store is None else store.next(at)
    shares, top, total = _normalise(p, p.scores(at, held), at)
    out = p.raw("out", p.dropped(shares, at).flatten(1, 2), p.values(at))
    return out.view(*shares.shape[:3], -1), top, total


def _blocks(p: Problem, spans: list[Span], store: _Store | None) -> tuple[Tensor, Tensor, Tensor]:
    """The same for all blocks; rows that see nothing are 0 and have the lowest maximum."""
    empty = torch.zeros if p.spec.band.limits or not p.columns else torch.empty
    out = empty((p.heads, p.group, p.rows, p.v.shape[-1]), dtype=p.gemm, device=p.q.device)
    top = torch.full((p.heads, p.group, p.rows, 1), _LOWEST, dtype=p.stat, device=p.q.device)
    total = torch.zeros_like(top)
    for at in spans:
        if at.c0 >= at.c1:
            _only_sink(p, at, top, total)
            continue
        own = (slice(at.h0, at.h1), slice(None), slice(at.r0, at.r1))
        out[own], top[own], total[own] = _block(p, at, store)
    return out, top, total


class _Store:
    """Memory for the probabilities of all blocks, one after another; none where they are too many."""

    def __init__(self, p: Problem, spans: list[Span], memory: Tensor | None = None) -> None:
        self.group, self.used = p.group, 0
        if memory is None:
            count = p.group * sum((at.h1 - at.h0) * (at.r1 - at.r0) * (at.c1 - at.c0) for at in spans)
            if count * p.gemm.itemsize <= _KEPT:
                memory = torch.empty(count, dtype=p.gemm, device=p.q.device)
        self.memory = memory

    def next(self, at: Span) -> Tensor | None:
        if self.memory is None:
            return None
        shape = (at.h1 - at.h0, self.group, at.r1 - at.r0, at.c1 - at.c0)
        start, self.used = self.used, self.used + torch.Size(shape).numel()
        return self.memory[start : self.used].view(shape)


def _only_sink(p: Problem, at: Span, top: Tensor, total: Tensor) -> None:
    """Rows without a column: the sink alone is in their sums."""
    sink = p.sink_at(at)
    if sink is not None:
        top[at.h0 : at.h1, :, at.r0 : at.r1] = sink
        total[at.h0 : at.h1, :, at.r0 : at.r1] = 1


def backward(
    inputs: tuple[Tensor, ...], kept: tuple[Tensor, ...], grad: Tensor, wanted: tuple[bool, ...], options: tuple[Spec],
    attention: Tensor | None = None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """`attention` is the output that belongs to the kept sums, where they are of more keys than those given (ring attention)."""
    if len(kept) > 2 and attention is None and is_one_block(inputs[0], inputs[1], options[0], True):
        query, key, value = inputs[:3]
        grads = _C._attention_block_backward(query, key, value, kept[2], grad.to(query.dtype), options[0].scale)
        return tuple(dx if want else None for dx, want in zip(grads, wanted, strict=True))
    p = Problem(inputs, options[0])
    top, total = (statistic.to(p.stat).reshape(p.heads, p.group, p.rows, 1) for statistic in kept[:2])
    level = torch.where(total > 0, top + total.log(), torch.inf)
    dy = p.grouped(grad) if p.bits is None else p.grouped(grad.to(p.stat) / p.spec.keep)
    delta = None
    if attention is not None:
        delta = (wide(grad) * wide(attention)).sum(-1, dtype=p.stat).reshape(level.shape)
    sums, spans = _Sums(p, wanted), list(p.spans())
    store = _Store(p, spans, kept[2]) if len(kept) > 2 else None
    for at in spans:
        if at.c0 < at.c1:
            held = None if store is None else store.next(at)
            _backward_block(
                p, at, _again(p, at, None if delta is None else level) if held is None else held, dy, level, delta, sums
            )
    return sums.results(inputs)


class _Sums:
    """The gradients while they grow."""

    def __init__(self, p: Problem, wanted: tuple[bool, ...]) -> None:
        self.p, self.wanted = p, wanted
        extra = list(wanted[3:])
        pse = extra.pop(0) if p.spec.pse else False
        sink = extra.pop(0) if p.spec.sink else False
        self.q = torch.zeros_like(p.q) if wanted[0] else None
        self.k = torch.zeros_like(p.k, dtype=p.stat) if wanted[1] else None
        self.v = torch.zeros_like(p.v, dtype=p.stat) if wanted[2] else None
        self.pse = p.pse.zeros() if pse and p.pse is not None else None
        self.sink = torch.zeros(p.kv_heads, p.group, dtype=p.stat, device=p.q.device) if sink else None

    def add(self, into: Tensor, at: Span, left: Tensor, right: Tensor, alpha: float) -> None:
        """into += alpha * left^T @ right, for the columns of a block."""
        part = into[at.h0 : at.h1, at.c0 : at.c1]
        if self.p.gemm == self.p.stat and part.is_contiguous():
            part.baddbmm_(left.mT, right, alpha=alpha)
        else:
            part.add_(self.p.raw("sum", left.mT, right), alpha=alpha)

    def results(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        """In the dtypes and the memory order of the inputs."""
        grads: list[Tensor | None] = []
        for operand, total in zip(inputs[:3], (self.q, self.k, self.v), strict=True):
            grads.append(
                None
                if total is None
                else _like_layout(operand, operand.shape[-1], operand.dtype).copy_(total.view(operand.shape))
            )
        rest = list(inputs[3:])
        if self.p.spec.pse:
            pse = rest.pop(0)
            grads.append(None if self.pse is None else self.pse.tensor.reshape(pse.shape).to(pse.dtype))
        if self.p.spec.sink:
            sink = rest.pop(0)
            grads.append(None if self.sink is None else self.sink.reshape(sink.shape).to(sink.dtype))
        return tuple(grads)


def _again(p: Problem, at: Span, level: Tensor | None) -> Tensor:
    """The probabilities of a block; with the level of a longer row, those that its columns have in that row."""
    shares, top, total = _normalise(p, p.scores(at), at)
    if level is None:
        return shares
    return shares.mul_((total * torch.exp(top - level[at.h0 : at.h1, :, at.r0 : at.r1])).to(p.gemm))


def _backward_block(
    p: Problem, at: Span, shares: Tensor, dy: Tensor, level: Tensor, delta: Tensor | None, sums: _Sums
) -> None:
    heads, rows = slice(at.h0, at.h1), slice(at.r0, at.r1)
    dy_block = p.part(dy, at)
    grad = p.raw("grad", dy_block, p.values(at).mT).view(shares.shape)
    if p.bits is not None:
        grad.mul_(p.keep_at(at))
    if sums.v is not None:
        sums.add(sums.v, at, p.dropped(shares, at).flatten(1, 2), dy_block, 1.0)
    if sums.sink is not None:
        _sink_gradient(p, at, shares, grad, level, delta, sums.sink)
    if delta is None:
        torch.ops.aten._softmax_backward_data.out(grad, shares, -1, p.gemm, grad_input=grad)
    else:
        grad.sub_(delta[heads, :, rows]).mul_(shares)
    if sums.pse is not None:
        sums.pse.accumulate(at, grad, p.spec.scale if p.spec.pse_scaled else 1.0)
    left = grad.flatten(1, 2)
    if sums.q is not None:
        dq = p.raw("out", left, p.keys(at), p.spec.scale)
        sums.q[heads, :, rows] = dq.view(at.h1 - at.h0, p.group, at.r1 - at.r0, -1)
    if sums.k is not None:
        sums.add(sums.k, at, left, p.part(p.q, at), p.spec.scale)


def _sink_gradient(
    p: Problem, at: Span, shares: Tensor, grad: Tensor, level: Tensor, delta: Tensor | None, into: Tensor
) -> None:
    """The sink has a probability and no value: what the others gain, it loses."""
    heads, rows = slice(at.h0, at.h1), slice(at.r0, at.r1)
    if delta is None:
        share = (shares * grad).sum(-1, keepdim=True, dtype=p.stat)
    else:
        share = delta[heads, :, rows]
    sink = p.sink_at(at)
    assert sink is not None
    own = torch.exp(sink - level[heads, :, rows])
    first = at.h0 % p.kv_heads
    into[first : first + at.h1 - at.h0] -= (own * share).sum((-2, -1))


_KIND = Kind(compose, forward, backward)


def attention(
    q: Tensor, k: Tensor, v: Tensor, spec: Spec, pse: Tensor | None = None, sink: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Output, maximum and sum; only the output has a derivative."""
    inputs = tuple(tensor for tensor in (q, k, v, pse, sink) if tensor is not None)
    out, top, total = apply(_KIND, inputs, spec)
    return out, top, total
