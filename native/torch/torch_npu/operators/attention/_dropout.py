"""Dropout of attention: one keep bit for each probability, made again from a seed and an offset where they are given."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import require

_ALIGN = 128  # bits that a mask is rounded up to
_LEVELS = 1 << 16  # steps of a keep probability
_GATHER = 0x0102040810204080  # brings the lowest bits of eight bytes together in the highest byte


def mask_bytes(count: int) -> int:
    """Bytes of a mask for so many probabilities."""
    return -(-count // _ALIGN) * (_ALIGN // 8)


def draw(device: torch.device) -> tuple[int, int]:
    """Seed and offset for a call, from the generator of the device, which goes on."""
    offset = int(torch.empty((), dtype=torch.int64, device=device).random_())
    return torch.npu.initial_seed() if device.type == "npu" else torch.initial_seed(), offset  # type: ignore[attr-defined]


def make_bits(size: int, keep: float, seed: int, offset: int, device: torch.device) -> Tensor:
    """Packed bits, `size` bytes, each 1 with the probability `keep`.

    Sixteen random bits decide about one: drawing a float for each, as bernoulli_ does, takes six times as long.
    """
    generator = torch.Generator().manual_seed((seed * 0x9E3779B97F4A7C15 + offset) % 2**63)
    words = torch.empty(size * 2, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    limit = round(keep * _LEVELS) - _LEVELS // 2
    kept = (words.view(torch.int16) < limit) if limit < _LEVELS // 2 else torch.ones(size * 8, dtype=torch.bool)
    return ((kept.view(torch.int64) * _GATHER) >> 56).to(torch.uint8).to(device)


def expand_bits(packed: Tensor) -> Tensor:
    """A flat bool tensor, the lowest bit of a byte first; a table look-up is the fastest way that aten has."""
    shifts = torch.arange(8, device=packed.device)
    table = ((torch.arange(256, device=packed.device)[:, None] >> shifts) & 1).to(torch.bool).view(torch.int64).view(-1)
    return table.index_select(0, packed.reshape(-1).to(torch.int32)).view(torch.bool)


def check_keep(keep: float, name: str) -> None:
    require(0 < keep <= 1, lambda: f"{name}: keep_prob must be in (0, 1], not {keep}")
