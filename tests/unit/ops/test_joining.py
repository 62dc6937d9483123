"""Joining and splitting against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from tests.unit.ops.support import C, X, compute, same


def test_joining_and_splitting() -> None:
    same(compute("Pack", X, X, axis=1, N=2), np.stack([X, X], 1))
    same(compute("Pack", X, X, axis=-1, N=2), np.stack([X, X], -1))
    for index, part in enumerate(compute("Unpack", X, outputs=3, num=3, axis=1)):
        same(part, X[:, index])
    for index, part in enumerate(compute("Unpack", X, outputs=4, num=4, axis=-1)):
        same(part, X[..., index])
    with pytest.raises(AtcError, match="num 5"):
        compute("Unpack", X, outputs=5, num=5)
    joined = np.concatenate([X, X], 2)
    same(compute("ConcatV2", X, X, C(2), N=2), joined)
    same(compute("Concat", C(-1), X, X, N=2), joined)
    same(compute("ConcatD", X, X, concat_dim=2, N=2), joined)
    for parts in (
        compute("Split", C(2), X, outputs=2, num_split=2),
        compute("SplitD", X, outputs=2, split_dim=-1, num_split=2),
    ):
        same(parts[0], X[..., :2])
        same(parts[1], X[..., 2:])
    parts = compute("SplitV", X, C([1, -1, 1]), C(2), outputs=3, num_split=3)
    for part, wanted in zip(parts, (X[..., :1], X[..., 1:3], X[..., 3:]), strict=True):
        same(part, wanted)
    parts = compute("SplitVD", X, outputs=2, size_splits=[1, 3], split_dim=2, num_split=2)
    for part, wanted in zip(parts, (X[..., :1], X[..., 1:]), strict=True):
        same(part, wanted)
    same(compute("SplitD", X, split_dim=0, num_split=1), X)
    with pytest.raises(AtcError, match="3 elements into 2"):
        compute("SplitD", X, outputs=2, split_dim=1, num_split=2)
    with pytest.raises(AtcError, match="only one may be -1"):
        compute("SplitV", X, C([-1, -1, 1]), C(2), outputs=3, num_split=3)
