"""The loss that teaches the index of keys, against a loop over rows in float64 and its derivative."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.torch.operators.attention.test_inference import OPS, check, rand

BATCH, ROWS, COLUMNS, HEADS, WIDTH, INDEX = 2, 4, 6, 3, 5, 2
DOUBLE = torch.float64


def problem(dtype: torch.dtype = DOUBLE) -> tuple[Tensor, ...]:
    """query, key, query_index, key_index, weights, query_rope, key_rope."""
    shapes = [
        (BATCH, ROWS, HEADS, WIDTH), (BATCH, COLUMNS, 1, WIDTH), (BATCH, ROWS, INDEX, 4), (BATCH, COLUMNS, 1, 4),
        (BATCH, ROWS, INDEX), (BATCH, ROWS, HEADS, 2), (BATCH, COLUMNS, 1, 2),
    ]  # fmt: skip
    return tuple(rand(*shape, seed=at, dtype=dtype) for at, shape in enumerate(shapes))


def chosen() -> Tensor:
    made = torch.Generator().manual_seed(2)
    index = torch.stack([torch.randperm(COLUMNS, generator=made)[:4] for _ in range(BATCH * ROWS)])
    index[1, 2:] = -1
    index[5] = torch.tensor([5, -1, -1, -1])  # nothing of this is seen in mode 3
    return index.view(BATCH, ROWS, 1, 4).to(torch.int32)


def loss(given: tuple[Tensor, ...], ropes: bool, mode: int, index: Tensor | None) -> Tensor:
    q, k, qi, ki, w, qr, kr = given
    total = torch.zeros((), dtype=DOUBLE)
    for b in range(BATCH):
        for r in range(ROWS):
            named = range(COLUMNS) if index is None else index[b, r, 0].tolist()
            seen = [c for c in named if c >= 0 and (mode == 0 or c <= r + COLUMNS - ROWS)]
            if not seen:
                continue
            p = torch.zeros(len(seen), dtype=DOUBLE)
            for h in range(HEADS):
                scores = k[b, seen, 0] @ q[b, r, h] + (kr[b, seen, 0] @ qr[b, r, h] if ropes else 0)
                p = p + (scores * 0.6).softmax(0).detach() / HEADS
            marks = sum(w[b, r, h] * torch.relu(ki[b, seen, 0] @ qi[b, r, h]) for h in range(INDEX))
            total = total + (p * (p.log() - marks.log_softmax(0))).sum()
    return total


def call(given: tuple[Tensor, ...], ropes: bool, mode: int, index: Tensor | None) -> tuple[Tensor, ...]:
    q, k, qi, ki, w, qr, kr = (one.npu() for one in given)
    options = {"query_rope": qr, "key_rope": kr} if ropes else {}
    if index is None:
        stats = [torch.zeros(1).npu()] * 4
        return OPS.npu_dense_lightning_indexer_grad_kl_loss(q, k, qi, ki, w, *stats, 0.6, sparse_mode=mode, **options)
    stats = [torch.zeros(1).npu()] * 2
    return OPS.npu_sparse_lightning_indexer_grad_kl_loss(
        q, k, qi, ki, w, index.npu(), *stats, 0.6, sparse_mode=mode, **options
    )


@pytest.mark.parametrize("mode", [0, 3])
@pytest.mark.parametrize("ropes", [True, False])
@pytest.mark.parametrize("index", [None, chosen()], ids=["dense", "sparse"])
def test_loss_and_gradients(mode: int, ropes: bool, index: Tensor | None) -> None:
    given = problem()
    leaves = [one.requires_grad_() for one in given[2:5]]
    wanted = loss(given, ropes, mode, index)
    result = call(tuple(one.detach() for one in given), ropes, mode, index)
    assert result[3].shape == (1,) and result[3].dtype == torch.float32
    check(result[3][0], wanted.detach(), 1e-5)
    for one, expected in zip(result, torch.autograd.grad(wanted, leaves), strict=False):
        check(one, expected, 1e-8)


def test_half_precision_and_fake_tensors() -> None:
    half = problem(torch.bfloat16)
    result = call(half, True, 3, chosen())
    assert {one.dtype for one in result[:3]} == {torch.bfloat16}
    check(result[3][0], loss(tuple(one.double() for one in half), True, 3, chosen()), 1e-2)
    moved = [one.npu() for one in (*half[:5], chosen(), torch.zeros(1))]
    with FakeTensorMode() as mode:
        q, k, qi, ki, w, index, stat = (mode.from_tensor(one) for one in moved)
        fake = OPS.npu_sparse_lightning_indexer_grad_kl_loss(q, k, qi, ki, w, index, stat, stat, 0.6)
    assert [one.shape for one in fake] == [qi.shape, ki.shape, w.shape, (1,)]


def test_bad_arguments() -> None:
    q, k, qi, ki, w, qr, _ = (one.npu() for one in problem())
    stat = torch.zeros(1).npu()
    index = chosen().npu()

    def sparse(index: Tensor = index, ki: Tensor = ki, **options: object) -> object:
        return OPS.npu_sparse_lightning_indexer_grad_kl_loss(q, k, qi, ki, w, index, stat, stat, 0.6, **options)

    with pytest.raises(RuntimeError, match="sparse_indices must be"):
        sparse(index[:, :2])
    with pytest.raises(RuntimeError, match="key_index"):
        sparse(ki=ki[:, :2])
    with pytest.raises(RuntimeError, match="must be given together"):
        sparse(query_rope=qr)
    with pytest.raises(RuntimeError, match="sparse_mode must be"):
        sparse(sparse_mode=1)
    with pytest.raises(NotImplementedError, match="sinks"):
        sparse(sinks=stat)
    with pytest.raises(NotImplementedError, match="actual_seq_qlen"):
        sparse(actual_seq_qlen=[4])
