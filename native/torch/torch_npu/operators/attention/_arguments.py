"""The arguments of npu_fusion_attention: checks, layouts, and the sequences that they name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from torch_npu.operators.attention._dropout import check_keep
from torch_npu.operators.attention.layouts import (
    TRAINING,
    Operands,
    check_layout,
    check_operands,
    cut,
    from_heads,
    lengths,
    operands,
    to_heads,
)
from torch_npu.operators.attention.masks import NO_BAND, UNLIMITED, Sparse, as_plane
from torch_npu.operators.attention.problem import Spec
from torch_npu.operators.common.arguments import ErrCode, needed, require, unsupported


@dataclass(frozen=True)
class Piece:
    """One sequence, or all where they are alike: its operands and what it asks for."""

    q: Tensor
    k: Tensor
    v: Tensor
    pse: Tensor | None
    spec: Spec

    @property
    def scores(self) -> int:
        return self.q.shape[:3].numel() * self.k.shape[2]


@dataclass(frozen=True)
class Call:
    """The arguments of a call in the words of this package."""

    name: str
    query: Tensor
    key: Tensor
    value: Tensor
    heads: int
    input_layout: str
    pse: Tensor | None = None
    padding_mask: Tensor | None = None
    mask: Tensor | None = None
    query_rope: Tensor | None = None
    key_rope: Tensor | None = None
    scale: float = 1.0
    keep: float = 1.0
    before: int = UNLIMITED
    after: int = UNLIMITED
    inner_precise: int = 0
    prefix: list[int] | None = None
    ends_q: list[int] | Tensor | None = None
    ends_kv: list[int] | Tensor | None = None
    mode: int = 0
    pse_type: int = 1
    q_start: list[int] | None = None
    kv_start: list[int] | None = None
    softmax_layout: str = ""
    sink: Tensor | None = None
    dropout_mask: Tensor | None = None
    seed: int = 0
    offset: int = 0

    @cached_property
    def layout(self) -> str:
        return check_layout(self.input_layout, TRAINING, self.name)

    @property
    def packed(self) -> bool:
        return self.layout == "TND"

    @cached_property
    def operands(self) -> Operands:
        """Rope parts are further columns of query and key: their products add to the scores."""
        plain = operands(self.query, self.key, self.value, self.heads, self.layout, self.name)
        if self.query_rope is None and self.key_rope is None:
            return plain
        message = f"{self.name}: query_rope and key_rope must be given together"
        query_rope, key_rope = needed(self.query_rope, message), needed(self.key_rope, message)
        ropes = [
            to_heads(rope, self.layout, heads, f"{self.name}: {what}")
            for rope, heads, what in (
                (query_rope, plain.q.shape[1], "query_rope"),
                (key_rope, plain.k.shape[1], "key_rope"),
            )
        ]
        q, k = torch.cat((plain.q, ropes[0]), -1), torch.cat((plain.k, ropes[1]), -1)
        check_operands(q, k, plain.v, self.name)
        return Operands(q, k, plain.v)

    def back(self, x: Tensor) -> Tensor:
        return from_heads(x, self.layout)

    @property
    def sparse(self) -> Sparse:
        return Sparse(self.mode, self.before, self.after, self.prefix)

    @cached_property
    def sizes(self) -> tuple[list[int], list[int]]:
        """Lengths of the sequences of TND."""
        rows = lengths(self.ends_q, self.operands.q.shape[2], f"{self.name}: actual_seq_qlen")
        columns = lengths(self.ends_kv, self.operands.k.shape[2], f"{self.name}: actual_seq_kvlen")
        require(
            len(rows) == len(columns),
            lambda: f"{self.name}: actual_seq_qlen names {len(rows)} sequences, actual_seq_kvlen {len(columns)}",
        )
        return rows, columns

    def check(self) -> None:
        check_keep(self.keep, self.name)
        if self.padding_mask is not None:
            raise unsupported(f"{self.name}: padding_mask has no meaning in the product either; put it into atten_mask")
        require(
            self.inner_precise in range(5),
            lambda: f"{self.name}: inner_precise must be in 0 to 4, not {self.inner_precise}",
        )
        require(
            self.softmax_layout in ("", "same_as_input"),
            lambda: f"{self.name}: softmax_layout must be '' or 'same_as_input', not {self.softmax_layout!r}",
            ErrCode.VALUE,
        )
        require(
            self.pse_type in range(4),
            lambda: f"{self.name}: pse_type must be in 0 to 3, not {self.pse_type}",
            ErrCode.VALUE,
        )
        require(
            self.sink is None or self.sink.shape == (self.heads,),
            lambda: (
                f"{self.name}: sink must have the shape ({self.heads},), not {None if self.sink is None else tuple(self.sink.shape)}"
            ),
        )
        batch = len(self.sizes[0]) if self.packed else self.operands.q.shape[0]
        self.sparse.check(self.mask, batch, self.packed, self.name)


def _plane(plane: Tensor, at: int | None, rows: int, columns: int, call: Call, what: str) -> Tensor:
    """A tensor over the scores for one piece: `at` is its batch, None for all of them."""
    batch, heads = plane.shape[:2]
    q = call.operands.q
    whole = len(call.sizes[0]) if call.packed else q.shape[0]
    require(
        batch in (1, whole) and heads in (1, q.shape[1]),
        lambda: (
            f"{call.name}: {what} of shape {tuple(plane.shape)} does not fit {whole} batches and {q.shape[1]} heads"
        ),
    )
    if at is not None and batch > 1:
        plane = plane[at : at + 1]
    if call.packed:
        require(
            plane.shape[2] >= rows and plane.shape[3] >= columns,
            lambda: (
                f"{call.name}: {what} of shape {tuple(plane.shape)} is smaller than a sequence of {rows} by {columns}"
            ),
        )
        return plane[:, :, :rows, :columns]
    require(
        plane.shape[2] in (1, rows) and plane.shape[3] in (1, columns),
        lambda: f"{call.name}: {what} of shape {tuple(plane.shape)} does not fit scores of {rows} by {columns}",
    )
    return plane.expand(-1, -1, rows, columns)


def _spec(call: Call, at: int | None, rows: int, columns: int, filled: list[int]) -> tuple[Spec, Tensor | None]:
    """What a piece asks for, and its pse where that is a tensor over the scores."""
    band, mask, pse, slope = NO_BAND, None, None, None
    if call.mask is not None:
        band = call.sparse.band(rows, columns, at or 0, filled)
        if call.sparse.uses_mask:
            mask = _plane(as_plane(call.mask, call.name), at, rows, columns, call, "atten_mask")
    if call.pse is not None and call.pse_type in (2, 3):
        slope = call.pse.detach().float().reshape(-1, call.heads)
        slope = slope[at : at + 1] if at is not None and slope.shape[0] > 1 else slope
    elif call.pse is not None:
        tensor = call.pse
        require(tensor.dim() == 4, lambda: f"{call.name}: pse must have 4 dimensions, not {tensor.dim()}")
        pse = _plane(tensor, at, rows, columns, call, "pse")
    start = (call.q_start or [0])[0] - (call.kv_start or [0])[0]
    spec = Spec(
        call.scale, band, mask, pse is not None, call.pse_type == 1, slope, start, call.pse_type == 3,
        call.sink is not None, keep=call.keep,
    )  # fmt: skip
    return spec, pse


def pieces(call: Call) -> Iterator[Piece]:
    """The sequences of TND, the batches where a prefix tells them apart, else the whole."""
    q, k, v = call.operands.q, call.operands.k, call.operands.v
    if call.packed:
        rows, columns = call.sizes
        filled = [at for at, size in enumerate(rows) if size] or [0]
        cuts = zip(cut(q, rows, 2), cut(k, columns, 2), cut(v, columns, 2), strict=True)
        for at, (q_part, k_part, v_part) in enumerate(cuts):
            spec, pse = _spec(call, at, rows[at], columns[at], filled)
            yield Piece(q_part, k_part, v_part, pse, spec)
    elif call.mask is not None and call.sparse.by_batch:
        for at, (q_part, k_part, v_part) in enumerate(zip(*(torch.split(x, 1) for x in (q, k, v)), strict=True)):
            spec, pse = _spec(call, at, q.shape[2], k.shape[2], [0])
            yield Piece(q_part, k_part, v_part, pse, spec)
    else:
        spec, pse = _spec(call, None, q.shape[2], k.shape[2], [0])
        yield Piece(q, k, v, pse, spec)
