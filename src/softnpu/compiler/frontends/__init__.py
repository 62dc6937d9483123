"""Readers of model files; each turns one format into the graph form."""

from __future__ import annotations

from collections.abc import Sequence

MAX_RANK = 32  # what NumPy 1 can hold; no operator takes more


def check_rank(dims: Sequence[int]) -> None:
    """Raise ValueError for a tensor with more dims than can be computed with."""
    if len(dims) > MAX_RANK:
        raise ValueError(f"it has {len(dims)} dims, {MAX_RANK} are possible")
