"""Masks of attention: bands, which cost nothing, and planes, which the caller gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require

UNLIMITED = 2**31 - 1
COMPRESSED = (2048, 2048)
_COMPRESSED_PREFIX = (3072, 2048)
_CAUSAL_MODES = (2, 3, 4, 7, 8)


@dataclass(frozen=True)
class Span:
    """A block: some heads of key, all their query heads, some rows, the columns that the band leaves."""

    h0: int
    h1: int
    r0: int
    r1: int
    c0: int
    c1: int


@dataclass(frozen=True)
class Corner:
    """Masked columns of a block of rows: those on and above a diagonal, or on and below it."""

    first: int
    last: int
    rows: int
    above: bool
    diagonal: int

    @property
    def shape(self) -> tuple[int, int, bool, int]:
        """What its mask depends on."""
        return self.rows, self.last - self.first, self.above, self.diagonal

    def mask(self, device: torch.device) -> Tensor:
        every = torch.ones(self.rows, self.last - self.first, dtype=torch.bool, device=device)
        return every.triu(self.diagonal) if self.above else every.tril(self.diagonal)


@dataclass(frozen=True)
class Band:
    """Columns that a row sees: low <= column - row <= high, and those before `prefix`. None is without a limit."""

    low: int | None = None
    high: int | None = None
    prefix: int = 0

    @property
    def limits(self) -> bool:
        return self.low is not None or self.high is not None

    def columns(self, r0: int, r1: int, count: int) -> tuple[int, int]:
        """The columns that any of some rows sees; an empty range where none does."""
        first = 0 if self.low is None or self.prefix else max(0, r0 + self.low)
        last = count if self.high is None else min(count, max(r1 + self.high, self.prefix))
        return (first, last) if first < last else (0, 0)

    def hides(self, rows: int, columns: int) -> bool:
        """Whether some row sees nothing."""
        if not self.limits or self.prefix:
            return False
        low, high = (-rows if self.low is None else self.low), (columns if self.high is None else self.high)
        return low > high or high < 0 or rows - 1 + low > columns - 1

    def corners(self, r0: int, r1: int, c0: int, c1: int) -> Iterator[Corner]:
        """The columns that some of the rows see and others do not."""
        if self.high is not None:
            first = max(c0, r0 + self.high + 1, self.prefix)
            if first < c1:
                yield Corner(first, c1, r1 - r0, True, r0 + self.high + 1 - first)
        if self.low is not None:
            first, last = max(c0, self.prefix), min(c1, r1 - 1 + self.low)
            if first < last:
                yield Corner(first, last, r1 - r0, False, self.low - 1 + r0 - first)

    def full(self, rows: int, columns: int, device: torch.device) -> Tensor | None:
        """The whole mask, true = masked."""
        if not self.limits:
            return None
        at = torch.arange(columns, device=device)
        apart = at - torch.arange(rows, device=device)[:, None]
        masked = torch.zeros(rows, columns, dtype=torch.bool, device=device)
        if self.high is not None:
            masked = masked | (apart > self.high)
        if self.low is not None:
            masked = masked | (apart < self.low)
        return masked & (at >= self.prefix) if self.prefix else masked


NO_BAND = Band()


@dataclass(frozen=True)
class Plane:
    """A tensor over the scores, [x, group or 1, rows, columns]; x counts nothing, batches, key heads, or both."""

    tensor: Tensor
    of_batch: bool
    of_head: bool
    kv_heads: int

    @classmethod
    def of(cls, tensor: Tensor, kv_heads: int, group: int) -> Plane:
        batch, heads, rows, columns = tensor.shape
        of_head = heads > 1
        shape = (batch * kv_heads, group) if of_head else (batch, 1)
        return cls(tensor.reshape(*shape, rows, columns), batch > 1, of_head, kv_heads)

    @property
    def fenced(self) -> bool:
        """Whether a block must stay in one batch."""
        return self.of_batch != self.of_head

    def block(self, at: Span) -> Tensor:
        return self.tensor[self._heads(at), :, at.r0 : at.r1, at.c0 : at.c1]

    def _heads(self, at: Span) -> slice:
        if self.of_batch and self.of_head:
            return slice(at.h0, at.h1)
        if self.of_batch:
            return slice(at.h0 // self.kv_heads, at.h0 // self.kv_heads + 1)
        first = at.h0 % self.kv_heads if self.of_head else 0
        return slice(first, first + (at.h1 - at.h0 if self.of_head else 1))

    def zeros(self) -> Plane:
        return Plane(torch.zeros_like(self.tensor), self.of_batch, self.of_head, self.kv_heads)

    def accumulate(self, at: Span, block: Tensor, alpha: float) -> None:
        """Add a block, summed over what the plane does not tell apart."""
        into = self.block(at)
        over = [dim for dim in (0, 1, 2) if into.shape[dim] == 1 and block.shape[dim] > 1]
        into.add_(block.sum(over, keepdim=True) if over else block, alpha=alpha)


def as_plane(mask: Tensor, name: str) -> Tensor:
    """A mask of two, three or four dimensions as four, of bool."""
    require(
        mask.dtype in (torch.bool, torch.uint8, torch.int8),
        lambda: f"{name}: atten_mask must be bool or uint8, not {mask.dtype}",
        ErrCode.TYPE,
    )
    require(mask.dim() in (2, 3, 4), lambda: f"{name}: atten_mask must have 2 to 4 dimensions, not {mask.dim()}")
    mask = mask if mask.dtype == torch.bool else mask != 0
    return mask[None, None] if mask.dim() == 2 else mask[:, None] if mask.dim() == 3 else mask


def _limit(tokens: int, shift: int, sign: int) -> int | None:
    return None if tokens >= UNLIMITED else sign * tokens + shift


@dataclass(frozen=True)
class Sparse:
    """The sparse arguments of a call."""

    mode: int = 0
    before: int = UNLIMITED
    after: int = UNLIMITED
    prefix: list[int] | None = None

    def check(self, mask: Tensor | None, batch: int, packed: bool, name: str) -> None:
        require(0 <= self.mode <= 8, lambda: f"{name}: sparse_mode must be in 0 to 8, not {self.mode}", ErrCode.VALUE)
        if mask is None:
            return
        if self.mode in _CAUSAL_MODES or self.mode == 6:
            wanted = _COMPRESSED_PREFIX if self.mode == 6 else COMPRESSED
            require(
                tuple(mask.shape[-2:]) == wanted and mask.numel() == wanted[0] * wanted[1],
                lambda: (
                    f"{name}: sparse_mode {self.mode} takes the compressed atten_mask of shape {wanted}, not {tuple(mask.shape)}"
                ),
            )
        require(
            self.mode not in (7, 8) or packed,
            lambda: f"{name}: sparse_mode {self.mode} is for input_layout TND",
            ErrCode.VALUE,
        )
        if self.mode in (5, 6):
            require(
                self.prefix is not None and len(self.prefix) == batch,
                lambda: (
                    f"{name}: sparse_mode {self.mode} needs prefix with one entry for each of {batch} batches, not {self.prefix}"
                ),
            )

    def band(self, rows: int, columns: int, index: int, filled: list[int]) -> Band:
        """What one sequence sees. `filled` are the indices of sequences that are not empty: modes 7 and 8 single one out."""
        shift = columns - rows
        if self.mode == 0:
            return Band(_limit(self.before, 0, -1), _limit(self.after, 0, 1))
        if self.mode == 1:
            return NO_BAND
        if self.mode == 4 or (self.mode == 7 and index == filled[-1]) or (self.mode == 8 and index == filled[0]):
            return Band(_limit(self.before, shift, -1), _limit(self.after, shift, 1))
        if self.mode in (2, 8):
            return Band(None, 0)
        prefix = self.prefix[index] if self.mode in (5, 6) and self.prefix else 0
        return Band(None, shift, min(prefix, columns))

    @property
    def uses_mask(self) -> bool:
        """Whether the caller's mask says something that the mode does not."""
        return self.mode in (0, 1, 5)

    @property
    def by_batch(self) -> bool:
        return self.mode in (5, 6)
