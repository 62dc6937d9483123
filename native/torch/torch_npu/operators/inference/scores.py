"""Attention of inference: lengths, paged caches, quantised keys and values, quantised outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_npu.operators.attention.core import attention
from torch_npu.operators.attention.layouts import check_layout, check_operands, from_heads, lengths, to_heads
from torch_npu.operators.attention.masks import NO_BAND, UNLIMITED, Sparse, as_plane
from torch_npu.operators.attention.problem import Spec
from torch_npu.operators.common.arguments import ErrCode, require, unsupported
from torch_npu.operators.inference.paged import sequence

LAYOUTS = ("BSH", "BSND", "BNSD", "BNSD_BSND", "TND", "NSD")
_QUANTISED = (torch.int8, torch.int32)


@dataclass(frozen=True)
class Antiquant:
    """How quantised keys or values become numbers: (x + offset) * scale, by channel (mode 0) or by token (mode 1)."""

    scale: Tensor | None = None
    offset: Tensor | None = None
    mode: int = 0

    def apply(self, x: Tensor, at: int, dtype: torch.dtype, name: str) -> Tensor:
        """x is [1 or batch, heads, rows, width]; `at` is its batch."""
        if x.dtype not in _QUANTISED:
            return x
        require(self.scale is not None, f"{name}: keys and values of {x.dtype} need an antiquant scale")
        assert self.scale is not None
        wide = x.float()
        if self.offset is not None:
            wide = wide + self._fitted(self.offset, x, at, name)
        return (wide * self._fitted(self.scale, x, at, name)).to(dtype)

    def _fitted(self, table: Tensor, x: Tensor, at: int, name: str) -> Tensor:
        _, heads, rows, width = x.shape
        number = table.float()
        if number.numel() == 1:
            return number.reshape(())
        if self.mode == 0 and number.numel() == heads * width:
            return number.reshape(1, heads, 1, width)
        if self.mode == 1 and number.dim() >= 2 and number.shape[-1] >= rows:
            own = number.reshape(-1, number.shape[-1])
            return own[at if own.shape[0] > 1 else 0, :rows].reshape(1, 1, rows, 1)
        raise unsupported(
            f"{name}: an antiquant tensor of shape {tuple(table.shape)} with mode {self.mode}; 0 and 1 are computed"
        )


def unpack_int4(x: Tensor) -> Tensor:
    """int32 that hold eight int4, the lowest bits first, as int8 of eight times the last size."""
    if x.dtype != torch.int32:
        return x
    places = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    nibbles = (x[..., None] >> places) & 15
    return torch.where(nibbles > 7, nibbles - 16, nibbles).to(torch.int8).flatten(-2)


def halves_of(table: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """A tensor for keys and values together: the first of two is the keys'."""
    if table is None:
        return None, None
    require(
        table.shape[0] == 2, f"an antiquant tensor for both must begin with 2, not have the shape {tuple(table.shape)}"
    )
    return table[0], table[1]


@dataclass(frozen=True)
class Inference:
    """A call in the words of this package."""

    name: str
    query: Tensor
    key: Tensor
    value: Tensor
    heads: int
    kv_heads: int
    input_layout: str
    scale: float
    mask: Tensor | None = None
    pse: Tensor | None = None
    q_lens: list[int] | None = None
    kv_lens: list[int] | None = None
    before: int = UNLIMITED
    after: int = UNLIMITED
    mode: int = 0
    table: Tensor | None = None
    block_size: int = 0
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    sink: Tensor | None = None
    key_quant: Antiquant = Antiquant()
    value_quant: Antiquant = Antiquant()
    out_scale: Tensor | None = None
    out_offset: Tensor | None = None


class _Run:
    """A call while it is computed."""

    def __init__(self, call: Inference) -> None:
        self.call = call
        self.layout = check_layout(call.input_layout, LAYOUTS, call.name)
        self.packed = self.layout == "TND"
        self.kv_heads = call.kv_heads or call.heads
        self.q = self._turned(call.query, call.heads, "query")
        if call.query_rope is not None:
            require(call.key_rope is not None, f"{call.name}: query_rope needs key_rope")
            self.q = torch.cat((self.q, self._turned(call.query_rope, call.heads, "query_rope")), -1)
        self.sparse = Sparse(call.mode, call.before, call.after)
        require(call.mode in range(5), f"{call.name}: sparse_mode must be in 0 to 4, not {call.mode}", ErrCode.VALUE)
        self.rows = self._row_lengths()
        self.sparse.check(call.mask, len(self.rows), self.packed, call.name)

    def _turned(self, x: Tensor, heads: int, what: str) -> Tensor:
        turned = to_heads(x, self.layout, heads, f"{self.call.name}: {what}")
        require(turned.shape[1] == heads, f"{self.call.name}: {what} has {turned.shape[1]} heads, {heads} are named")
        return turned

    def _row_lengths(self) -> list[int]:
        """Query rows of each batch."""
        call = self.call
        if self.packed:
            return lengths(call.q_lens, self.q.shape[2], f"{call.name}: lengths of the query")
        batch, rows = self.q.shape[0], self.q.shape[2]
        return self._spread(call.q_lens, batch, rows, "query") if call.q_lens else [rows] * batch

    def _spread(self, lengths: list[int], batch: int, most: int, what: str) -> list[int]:
        sizes = [int(size) for size in lengths]
        sizes = sizes * batch if len(sizes) == 1 else sizes
        require(
            len(sizes) == batch and all(0 <= size <= most for size in sizes),
            f"{self.call.name}: lengths of the {what} must be {batch} numbers in 0 to {most}, not {list(lengths)}",
            ErrCode.VALUE,
        )
        return sizes

    def uniform(self) -> bool:
        call = self.call
        return not self.packed and call.table is None and not call.q_lens and not call.kv_lens

    def keys(self) -> list[tuple[Tensor, Tensor]]:
        """Key and value of each batch, [1, heads, length, width], numbers."""
        call = self.call
        each = self._paged() if call.table is not None else self._contiguous()
        pairs = []
        for at, (k, v, rope) in enumerate(each):
            k = call.key_quant.apply(k, at, self.q.dtype, call.name)
            v = call.value_quant.apply(v, at, self.q.dtype, call.name)
            pairs.append((k if rope is None else torch.cat((k, rope.to(k.dtype)), -1), v))
        return pairs

    def _paged(self) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        call = self.call
        assert call.table is not None
        require(call.kv_lens is not None, f"{call.name}: a paged cache needs the lengths of the keys")
        most = call.table.shape[1] * call.block_size
        sizes = self._spread(call.kv_lens or [], call.table.shape[0], most, "keys")
        keys, values, table = unpack_int4(call.key), unpack_int4(call.value), call.table

        def read(cache: Tensor, at: int, size: int) -> Tensor:
            return sequence(cache, table[at], size, self.kv_heads, call.block_size, call.name)

        return [
            (
                read(keys, at, size),
                read(values, at, size),
                None if call.key_rope is None else read(call.key_rope, at, size),
            )
            for at, size in enumerate(sizes)
        ]

    def _contiguous(self) -> list[tuple[Tensor, Tensor, Tensor | None]]:
        call = self.call
        keys = self._turned(unpack_int4(call.key), self.kv_heads, "key")
        values = self._turned(unpack_int4(call.value), self.kv_heads, "value")
        ropes = None if call.key_rope is None else self._turned(unpack_int4(call.key_rope), self.kv_heads, "key_rope")
        most = keys.shape[2]
        if self.packed:
            sizes = lengths(call.kv_lens, most, f"{call.name}: lengths of the keys")
            ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
            spans = [(0, end - size, size) for end, size in zip(ends, sizes, strict=True)]
        else:
            batch = self.q.shape[0]
            sizes = self._spread(call.kv_lens, batch, most, "keys") if call.kv_lens else [most] * batch
            spans = [(at, 0, size) for at, size in enumerate(sizes)]
        cuts = [(slice(at, at + 1), slice(None), slice(start, start + size)) for at, start, size in spans]
        return [(keys[own], values[own], None if ropes is None else ropes[own]) for own in cuts]

    def plane(self, tensor: Tensor, at: int | None, rows: int, columns: int, what: str) -> Tensor:
        """The part of a mask or bias that belongs to one batch, or to all."""
        batch = tensor.shape[0]
        require(
            batch in (1, len(self.rows)) and tensor.shape[1] in (1, self.call.heads),
            f"{self.call.name}: {what} of shape {tuple(tensor.shape)} does not fit {len(self.rows)} batches and {self.call.heads} heads",
        )
        own = tensor[at : at + 1] if at is not None and batch > 1 else tensor
        require(
            own.shape[2] in (1, rows) or own.shape[2] >= rows,
            f"{self.call.name}: {what} has {own.shape[2]} rows for {rows}",
        )
        require(own.shape[3] >= columns, f"{self.call.name}: {what} has {own.shape[3]} columns for {columns}")
        return own[:, :, :rows, :columns].expand(-1, -1, rows, columns)

    def spec(self, at: int | None, rows: int, columns: int) -> tuple[Spec, Tensor | None]:
        call, band, mask, pse = self.call, NO_BAND, None, None
        if call.mask is not None:
            if rows > 1 or call.mode >= 2:
                band = self.sparse.band(rows, columns, 0, [0])
            if self.sparse.uses_mask:
                mask = self.plane(self._mask_plane(call.mask), at, rows, columns, "atten_mask")
        if call.pse is not None:
            pse = self.plane(call.pse, at, rows, columns, "pse_shift")
        return Spec(call.scale, band, mask, pse is not None, False, sink=call.sink is not None), pse

    def _mask_plane(self, mask: Tensor) -> Tensor:
        """A mask [batch, keys] of one query row each is told from one [rows, keys] by the query's length."""
        if mask.dim() == 2 and self.q.shape[2] == 1 and not self.packed and mask.shape[0] == len(self.rows):
            return as_plane(mask, self.call.name).transpose(0, 2)
        return as_plane(mask, self.call.name)

    def pieces(self) -> tuple[Tensor, Tensor]:
        """Output [batch, heads, rows, width] and log-sum-exp, zero and -inf where a row is of no sequence."""
        pairs = self.keys()
        require(
            len(pairs) == len(self.rows),
            f"{self.call.name}: {len(self.rows)} sequences of queries, {len(pairs)} of keys",
        )
        if self.uniform():
            k, v = (torch.cat(list(tensors)) for tensors in zip(*pairs, strict=True))
            return self._attend(self.q, k, v, None)
        width = pairs[0][1].shape[-1]
        out = self.q.new_zeros(*self.q.shape[:3], width)
        level = torch.full(self.q.shape[:3], -torch.inf, dtype=torch.float32, device=self.q.device)
        start = 0
        for at, ((k, v), rows) in enumerate(zip(pairs, self.rows, strict=True)):
            batch, first = (0, start) if self.packed else (at, 0)
            start += rows
            own = (slice(batch, batch + 1), slice(None), slice(first, first + rows))
            out[own], level[own] = self._attend(self.q[own], k, v, at)
        return out, level

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, at: int | None) -> tuple[Tensor, Tensor]:
        check_operands(q, k, v, self.call.name)
        spec, pse = self.spec(at, q.shape[2], k.shape[2])
        out, top, total = attention(q, k.to(q.dtype), v.to(q.dtype), spec, pse, self.call.sink)
        return out, top + total.log()


def infer(call: Inference) -> tuple[Tensor, Tensor]:
    """Output in the layout of the call, and log-sum-exp [batch, heads, rows, 1], for TND [rows, heads, 1]."""
    run = _Run(call)
    out, level = run.pieces()
    if call.out_scale is not None:
        out = _quantised(out, call.out_scale, call.out_offset, call.name)
    lse = level[0].t()[..., None] if run.packed else level[..., None]
    turned = from_heads(out, run.layout)
    return turned.contiguous(), lse.contiguous()


def _quantised(out: Tensor, scale: Tensor, offset: Tensor | None, name: str) -> Tensor:
    def fitted(table: Tensor) -> Tensor:
        number = table.float()
        if number.numel() == 1:
            return number.reshape(())
        heads, width = out.shape[1], out.shape[3]
        require(
            number.numel() == heads * width,
            f"{name}: a quantisation tensor of {number.numel()} for {heads} heads of {width}",
        )
        return number.reshape(1, heads, 1, width)

    wide = out.float() * fitted(scale)
    if offset is not None:
        wide = wide + fitted(offset)
    return wide.round().clamp(-128, 127).to(torch.int8)
