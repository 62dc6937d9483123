"""The operands of an attention call as blocks see them, and the scores of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_npu.operators.attention._dropout import expand_bits
from torch_npu.operators.attention.masks import NO_BAND, Band, Corner, Plane, Span

_BLOCK = 1 << 21  # scores of a block of a large problem; with several heads in it, threads share them
_ALONE = 1 << 22  # scores of a problem that is one block where nothing is kept
_WHOLE = 1 << 25  # scores of a problem that is one block
_BAND_ROWS = 256  # rows of a block where a band leaves columns out: fewer rows leave out more
_LEAST_ROWS = 64  # rows below which a product is slow


@dataclass(frozen=True)
class Spec:
    """What a call asks for besides its differentiable inputs, which are query, key, value and, where named here, pse and sink."""

    scale: float = 1.0
    band: Band = NO_BAND
    mask: Tensor | None = None  # [b, n, rows, columns] of bool, 1 or full in its first two dimensions, true = masked
    pse: bool = False
    pse_scaled: bool = True  # pse is added before scaling
    slope: Tensor | None = None  # [b, n]: the bias -slope * distance, made in the blocks
    slope_start: int = 0
    slope_root: bool = False
    sink: bool = False
    bits: Tensor | None = None  # packed keep bits
    keep: float = 1.0


def _gemm_dtype(dtype: torch.dtype) -> torch.dtype:
    """bfloat16 is multiplied as it is where the processor can, float16 never: the CPU's kernel is ten times as slow as float32's."""
    if dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return dtype
    return dtype if dtype == torch.float64 else torch.float32


def _stat_dtype(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype == torch.float64 else torch.float32


def is_one_block(q: Tensor, k: Tensor, spec: Spec, keep: bool) -> bool:
    """Whether a problem is a block, and one without biases, sinks and dropout, that the CPU multiplies in the dtype it has."""
    if spec.pse or spec.sink or spec.slope is not None or spec.bits is not None:
        return False
    if q.dtype == torch.float64 or _gemm_dtype(q.dtype) != q.dtype:
        return False
    if spec.mask is not None and (spec.mask.shape[:2] != (1, 1) or spec.band.limits):
        return False
    batch, heads, rows, _ = q.shape
    scores = batch * heads * rows * k.shape[2]
    return 0 < scores <= (_WHOLE if keep else _ALONE) and not (
        spec.band.limits and _is_narrow(rows * heads // k.shape[1])
    )


def _is_narrow(rows: int) -> bool:
    """Whether blocks of few rows, of the columns that a band leaves, are worth their calls."""
    return rows >= 4 * _BAND_ROWS


class Problem:
    """The operands of a call as [key heads, group, rows, width] and [key heads, rows, width], and the way through its blocks."""

    def __init__(self, inputs: tuple[Tensor, ...], spec: Spec) -> None:
        q, k, v = inputs[:3]
        rest = list(inputs[3:])
        pse = rest.pop(0) if spec.pse else None
        sink = rest.pop(0) if spec.sink else None
        self.spec, self.shape = spec, q.shape
        self.batch, heads, self.rows, width = q.shape
        self.kv_heads, self.columns = k.shape[1], k.shape[2]
        self.group = heads // self.kv_heads
        self.heads = self.batch * self.kv_heads
        self.gemm = _gemm_dtype(q.dtype)
        self.stat = _stat_dtype(q.dtype)
        self.q = self.grouped(q)
        self.k = k.to(self.gemm).reshape(self.heads, self.columns, width)
        self.v = v.to(self.gemm).reshape(self.heads, self.columns, v.shape[-1])
        self.pse = None if pse is None else Plane.of(pse.to(self.gemm), self.kv_heads, self.group)
        self.mask = None if spec.mask is None else Plane.of(spec.mask, self.kv_heads, self.group)
        self.sink = None if sink is None else sink.to(self.stat).reshape(1, self.kv_heads, self.group, 1)
        self.bits = None if spec.bits is None else self._bit_plane(spec.bits)
        self._buffers: dict[str, Tensor] = {}
        self._corners: dict[tuple[int, int, bool, int], Tensor] = {}
        self.hides = self.mask is not None or spec.band.hides(self.rows, self.columns)

    def grouped(self, x: Tensor) -> Tensor:
        """A tensor with the query's heads, split into those that share a key head."""
        return x.to(self.gemm).reshape(self.heads, self.group, self.rows, x.shape[-1])

    def _bit_plane(self, bits: Tensor) -> Tensor:
        shape = (self.heads, self.group, self.rows, self.columns)
        if self.columns % 8 == 0:
            return bits[: torch.Size(shape).numel() // 8].view(*shape[:-1], -1)
        return expand_bits(bits)[: torch.Size(shape).numel()].view(shape)

    def spans(self, kept: bool = True) -> Iterator[Span]:
        """Blocks, a head's in order of rows. Small heads go several to a block, but those of a plane that is not the same for
        all heads and batches only from one batch; of a large head a block takes rows, and only columns that they see.
        Where nothing is kept for backward, all blocks share memory that stays in a cache."""
        band, each = self.spec.band, max(1, self.group * self.columns)
        fence = max(1, self.kv_heads if self._fenced() else self.heads)
        block = _WHOLE if kept and self.rows * each * self.heads <= _WHOLE else _BLOCK
        count, rows = min(fence, block // (each * max(1, self.rows))), self.rows
        narrow = band.limits and _is_narrow(self.rows * self.group)
        if count < 1 or narrow:
            least = max(1, _LEAST_ROWS // self.group)
            rows = max(least, block // each)
            rows = max(least, min(rows, _BAND_ROWS // self.group)) if narrow else rows
            count = max(1, min(fence, _BLOCK // (rows * each)))
        for base in range(0, self.heads, fence):
            for h0 in range(base, base + fence, count):
                for r0 in range(0, self.rows, max(1, rows)):
                    r1 = min(r0 + rows, self.rows)
                    yield Span(h0, min(h0 + count, base + fence), r0, r1, *band.columns(r0, r1, self.columns))

    def _fenced(self) -> bool:
        planes = any(plane is not None and plane.fenced for plane in (self.pse, self.mask))
        return planes or self.sink is not None or self.spec.slope is not None

    def buffer(self, name: str, dtype: torch.dtype, *shape: int) -> Tensor:
        """Memory for a block, taken once for all of them: fresh memory for each would leave the cache."""
        count = torch.Size(shape).numel()
        held = self._buffers.get(name)
        if held is None or held.numel() < count:
            held = self._buffers[name] = torch.empty(count, dtype=dtype, device=self.q.device)
        return held[:count].view(shape)

    def raw(self, name: str, left: Tensor, right: Tensor, alpha: float = 1.0, held: Tensor | None = None) -> Tensor:
        """alpha * left @ right in the precision of the operands; in place, which autocast leaves alone."""
        shape = (left.shape[0], left.shape[1], right.shape[2])
        into = self.buffer(name + ".gemm", self.gemm, *shape) if held is None else held.view(shape)
        return into.baddbmm_(left, right, beta=0, alpha=alpha)

    def part(self, x: Tensor, at: Span) -> Tensor:
        """The rows of a block of a tensor that grouped() made, the group's rows one after another."""
        return x[at.h0 : at.h1, :, at.r0 : at.r1].reshape(at.h1 - at.h0, -1, x.shape[-1])

    def keys(self, at: Span) -> Tensor:
        return self.k[at.h0 : at.h1, at.c0 : at.c1].contiguous()

    def values(self, at: Span) -> Tensor:
        """Contiguous, as the products of several heads are slow otherwise."""
        return self.v[at.h0 : at.h1, at.c0 : at.c1].contiguous()

    def scores(self, at: Span, held: Tensor | None = None) -> Tensor:
        """Scaled, biased and masked scores of a block, [heads, group, rows, columns]."""
        keys = self.keys(at).mT
        flat = self.raw("scores", self.part(self.q, at), keys, self.spec.scale, held)
        scores = flat.view(at.h1 - at.h0, self.group, at.r1 - at.r0, at.c1 - at.c0)
        if self.pse is not None:
            scores.add_(self.pse.block(at), alpha=self.spec.scale if self.spec.pse_scaled else 1.0)
        if self.spec.slope is not None:
            scores.add_(slopes(self.spec, self.kv_heads, self.group, at))
        if self.mask is not None:
            scores.add_(_as_bias(self.mask.block(at), self.gemm))
        for corner in self.spec.band.corners(at.r0, at.r1, at.c0, at.c1):
            scores[..., corner.first - at.c0 : corner.last - at.c0].add_(self._corner(corner))
        return scores

    def _corner(self, corner: Corner) -> Tensor:
        """The bias of a corner; blocks have the same few."""
        shape = corner.shape
        if shape not in self._corners:
            self._corners[shape] = _as_bias(corner.mask(self.q.device), self.gemm)
        return self._corners[shape]

    def keep_at(self, at: Span) -> Tensor:
        """1 for what dropout keeps in a block, 0 for the rest."""
        assert self.bits is not None
        bits = self.bits[at.h0 : at.h1, :, at.r0 : at.r1]
        if self.columns % 8 == 0:
            bits = expand_bits(bits).view(*bits.shape[:-1], self.columns)
        return bits[..., at.c0 : at.c1].to(self.gemm)

    def dropped(self, x: Tensor, at: Span) -> Tensor:
        """A block after dropout, elsewhere: the block itself may be kept."""
        if self.bits is None:
            return x
        kept = self.keep_at(at)
        return torch.mul(x, kept, out=kept)

    def sink_at(self, at: Span) -> Tensor | None:
        if self.sink is None:
            return None
        first = at.h0 % self.kv_heads
        return self.sink[0, first : first + at.h1 - at.h0, :, :, None]


def _as_bias(masked: Tensor, dtype: torch.dtype) -> Tensor:
    """0 and -inf for a mask: adding it is ten times as fast as masked_fill_ on the CPU."""
    return masked.to(dtype).mul_(torch.finfo(dtype).min).mul_(2.0)


def slopes(spec: Spec, kv_heads: int, group: int, at: Span) -> Tensor:
    """-slope * |distance| (or its root) for a block."""
    assert spec.slope is not None
    slope, device = spec.slope, spec.slope.device
    rows = torch.arange(at.r0 + spec.slope_start, at.r1 + spec.slope_start, device=device)
    far = (rows[:, None] - torch.arange(at.c0, at.c1, device=device)).abs().to(slope.dtype)
    batch, first = at.h0 // kv_heads, at.h0 % kv_heads
    own = slope[batch if slope.shape[0] > 1 else 0].view(-1, group)[first : first + at.h1 - at.h0]
    return -own[..., None, None] * (far.sqrt() if spec.slope_root else far)
