"""Attention over selected blocks, and the index in training, against loops over rows in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.torch.operators.attention.test_inference import OPS, check, rand

HEADS, KV, WIDTH, BLOCK = 4, 2, 8, 3
ROWS, COLUMNS = [5, 7], [5, 11]


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k = rand(12, HEADS, WIDTH, dtype=dtype), rand(16, KV, WIDTH, seed=1, dtype=dtype)
    v = rand(16, KV, 6, seed=2, dtype=dtype)
    made = torch.Generator().manual_seed(3)
    topk = torch.stack(
        [
            torch.stack([torch.randperm(-(-COLUMNS[row >= 5] // BLOCK), generator=made)[:2] for _ in range(KV)])
            for row in range(12)
        ]
    ).to(torch.int32)
    topk[:, :, 1] = torch.where(torch.arange(12)[:, None] % 3 == 0, -1, topk[:, :, 1])
    return q, k, v, topk


def by_rows(q: Tensor, k: Tensor, v: Tensor, topk: Tensor, scale: float, mask: Tensor | None = None):
    """Output, maximum and sum of each row and head, from the keys it sees alone."""
    out, top, total = [], [], []
    for row in range(12):
        second = row >= 5
        start, length, first = (5, 11, 5) if second else (0, 5, 0)
        for head in range(HEADS):
            group = head // (HEADS // KV)
            seen = [
                one for b in topk[row, group].tolist() if b >= 0 for one in range(b * BLOCK, min((b + 1) * BLOCK, length))
                if mask is None or not mask[row - first, one]
            ]  # fmt: skip
            places = [start + one for one in sorted(seen)]
            scores = k[places, group].double() @ q[row, head].double() * scale
            top.append(scores.max())
            total.append((scores - scores.max()).exp().sum())
            out.append(scores.softmax(0) @ v[places, group].double())
    shape = (12, HEADS)
    return torch.stack(out).view(*shape, -1), torch.stack(top).view(shape), torch.stack(total).view(shape)


def ends() -> dict[str, list[int]]:
    return {"actual_seq_qlen": [5, 12], "actual_seq_kvlen": [5, 16]}


@pytest.mark.parametrize("masked", [False, True])
def test_selected_blocks(masked: bool) -> None:
    q, k, v, topk = problem()
    mask = torch.rand(7, 11, generator=torch.Generator().manual_seed(0)) < 0.2 if masked else None
    if mask is not None:
        mask[:, [0, 3, 6, 9]] = False  # every block keeps a key
    moved = [one.npu() for one in (q, k, v, topk)]
    given = {"atten_mask": None if mask is None else mask.npu()} | ends()
    out, top, total = OPS.npu_nsa_select_attention(*moved, 0.4, HEADS, BLOCK, 2, **given)
    wanted = by_rows(q, k, v, topk, 0.4, mask)
    assert top.shape == total.shape == (12, HEADS, 8)
    check(out, wanted[0], 1e-8)
    for lane in (0, 7):
        check(top[..., lane], wanted[1], 1e-8)
        check(total[..., lane], wanted[2], 1e-8)


def test_gradients_of_selected_blocks() -> None:
    q, k, v, topk = problem()
    leaves = [one.requires_grad_() for one in (q, k, v)]
    out, *_ = by_rows(*leaves, topk, 0.4)
    grad = rand(*out.shape, seed=9, dtype=torch.float64)
    wanted = torch.autograd.grad(out, leaves, grad)
    moved = [one.detach().npu() for one in leaves]
    made = OPS.npu_nsa_select_attention(*moved, topk.npu(), 0.4, HEADS, BLOCK, 2, **ends())
    result = OPS.npu_nsa_select_attention_grad(grad.npu(), *moved, *made, topk.npu(), 0.4, HEADS, BLOCK, 2, **ends())
    for one, expected in zip(result, wanted, strict=True):
        check(one, expected, 1e-8)


def test_selected_blocks_in_half_precision_and_for_fake_tensors() -> None:
    moved = [one.npu() for one in problem(torch.bfloat16)]
    out, top, _ = OPS.npu_nsa_select_attention(*moved, 0.4, HEADS, BLOCK, 2, **ends())
    assert out.dtype == torch.bfloat16 and top.dtype == torch.float32
    check(out, by_rows(*problem(torch.bfloat16), 0.4)[0], 2e-2)
    with FakeTensorMode() as mode:
        fake = OPS.npu_nsa_select_attention(*(mode.from_tensor(one) for one in moved), 0.4, HEADS, BLOCK, 2, **ends())
    assert [one.shape for one in fake] == [(12, HEADS, 6), (12, HEADS, 8), (12, HEADS, 8)]


def test_selected_blocks_of_a_paged_cache() -> None:
    page, lengths = 4, [6, 9]
    q = rand(2, 1, HEADS, WIDTH)
    caches = [rand(7, page, KV * WIDTH, seed=1), rand(7, page, KV * WIDTH, seed=2)]
    table = torch.tensor([[5, 1, 0], [2, 6, 3]])
    topk = torch.tensor([[[[1, -1], [0, 1]]], [[[2, 0], [1, 2]]]], dtype=torch.int32)
    out = OPS.npu_nsa_select_attention_infer(
        q.npu(), caches[0].npu(), caches[1].npu(), topk.npu(), 0.5, HEADS, KV, BLOCK, 2, page, block_table=table.npu(),
        actual_seq_kvlen=lengths,
    )  # fmt: skip
    for b, length in enumerate(lengths):
        rows = [one[table[b]].reshape(-1, KV, WIDTH)[:length].double() for one in caches]
        for head in range(HEADS):
            group = head // 2
            seen = [c for c in range(length) if c // BLOCK in topk[b, 0, group].tolist()]
            shares = (rows[0][seen, group] @ q[b, 0, head].double() * 0.5).softmax(0)
            check(out[b, 0, head], shares @ rows[1][seen, group])
    with pytest.raises(NotImplementedError, match="2 tokens a sequence"):
        OPS.npu_nsa_select_attention_infer(
            q.npu().expand(2, 2, HEADS, WIDTH),
            caches[0].npu(),
            caches[1].npu(),
            topk.npu(),
            0.5,
            HEADS,
            KV,
            BLOCK,
            2,
            page,
        )


def index_problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, w = (
        rand(2, 4, 3, 5, dtype=torch.float64),
        rand(2, 6, 1, 5, seed=1, dtype=torch.float64),
        rand(2, 4, 3, seed=2, dtype=torch.float64),
    )
    chosen = torch.tensor([[0, 2, -1], [3, 1, 0], [4, -1, -1], [5, 0, 2]]).expand(2, 4, 3).unsqueeze(2)
    return q, k, w, chosen.to(torch.int32)


def score(q: Tensor, k: Tensor, w: Tensor, b: int, row: int, column: int) -> Tensor:
    return sum(w[b, row, h] * torch.relu(q[b, row, h] @ k[b, column, 0]) for h in range(3))


def test_gradients_of_the_index() -> None:
    q, k, w, chosen = index_problem()
    leaves = [one.requires_grad_() for one in (q, k, w)]
    dy = rand(2, 4, 1, 3, seed=5, dtype=torch.float64)
    total = sum(
        dy[b, r, 0, c] * score(q, k, w, b, r, int(chosen[b, r, 0, c]))
        for b in range(2) for r in range(4) for c in range(3) if chosen[b, r, 0, c] >= 0
    )  # fmt: skip
    wanted = torch.autograd.grad(total, leaves)
    moved = [one.detach().npu() for one in leaves]
    result = OPS.npu_lightning_indexer_grad(moved[0], moved[1], dy.npu(), chosen.npu(), moved[2])
    for one, expected in zip(result, wanted, strict=True):
        check(one, expected, 1e-9)
    half = OPS.npu_lightning_indexer_grad(
        *(one.bfloat16() for one in (moved[0], moved[1], dy.npu())), chosen.npu(), moved[2].bfloat16()
    )
    assert {one.dtype for one in half} == {torch.bfloat16}
    check(half[0], wanted[0], 0.1)
    with pytest.raises(RuntimeError, match="must have one shape"):
        OPS.npu_lightning_indexer_grad(moved[0], moved[1], dy.npu()[..., :2], chosen.npu(), moved[2])
    with pytest.raises(NotImplementedError, match="actual_seq_lengths_key"):
        OPS.npu_lightning_indexer_grad(moved[0], moved[1], dy.npu(), chosen.npu(), moved[2], None, chosen.npu())


@pytest.mark.parametrize("mode", [0, 3])
def test_statistics_of_the_dense_index(mode: int) -> None:
    q, k, w, _ = index_problem()
    top, total = OPS.npu_dense_lightning_indexer_softmax_lse(q.npu(), k.npu(), w.npu(), sparse_mode=mode)
    assert top.shape == total.shape == (2, 1, 4)
    for b in range(2):
        for r in range(4):
            seen = [score(q, k, w, b, r, c) for c in range(6) if mode == 0 or c <= r + 2]
            scores = torch.stack(seen)
            check(top[b, 0, r], scores.max(), 1e-9)
            check(total[b, 0, r], (scores - scores.max()).exp().sum(), 1e-9)


def test_index_of_quantised_keys() -> None:
    made = torch.Generator().manual_seed(1)
    q, k = (torch.randint(-127, 128, (2, n, h, 5), generator=made, dtype=torch.int8) for n, h in ((4, 3), (6, 1)))
    scales = [torch.rand(2, 4, 3, generator=made) + 0.1, torch.rand(2, 6, 1, generator=made) + 0.1]
    w = torch.rand(2, 4, 3, generator=made)
    result = OPS.npu_quant_lightning_indexer(
        q.npu(), k.npu(), w.npu(), scales[0].npu(), scales[1].npu(), 0, 0, sparse_count=3
    )
    for b in range(2):
        for r in range(4):
            numbers = (q.double() * scales[0][..., None], k.double() * scales[1][..., None], w.double())
            scores = torch.stack([score(*numbers, b, r, c) for c in range(r + 3)])
            assert result[b, r, 0].tolist() == scores.topk(3).indices.tolist()
    with pytest.raises(RuntimeError, match="key_quant_mode must be 0"):
        OPS.npu_quant_lightning_indexer(q.npu(), k.npu(), w.npu(), scales[0].npu(), scales[1].npu(), 0, 1)


@pytest.mark.parametrize("with_rope", [True, False])
def test_gradients_of_chosen_keys(with_rope: bool) -> None:
    q, k, v = (
        rand(1, 4, 2, 6, dtype=torch.float64),
        rand(1, 7, 1, 6, seed=1, dtype=torch.float64),
        rand(1, 7, 1, 6, seed=2, dtype=torch.float64),
    )
    ropes = (
        [rand(1, 4, 2, 3, seed=3, dtype=torch.float64), rand(1, 7, 1, 3, seed=4, dtype=torch.float64)]
        if with_rope
        else []
    )
    chosen = torch.tensor([[0, 2, -1], [3, 1, 0], [4, 5, -1], [6, 0, 2]], dtype=torch.int32).view(1, 4, 1, 3)
    leaves = [one.requires_grad_() for one in (q, k, v, *ropes)]
    rows = []
    for r in range(4):
        seen = [c for c in chosen[0, r, 0].tolist() if 0 <= c <= r + 3]
        for h in range(2):
            scores = k[0, seen, 0] @ q[0, r, h]
            scores = scores + ropes[1][0, seen, 0] @ ropes[0][0, r, h] if with_rope else scores
            rows.append((scores * 0.5).softmax(0) @ v[0, seen, 0])
    out = torch.stack(rows).view(1, 4, 2, 6)
    grad = rand(1, 4, 2, 6, seed=6, dtype=torch.float64)
    wanted = torch.autograd.grad(out, leaves, grad)
    moved = [one.detach().npu() for one in leaves]
    kept = OPS.npu_sparse_flash_attention(
        *moved[:3], chosen.npu(), 0.5, return_softmax_lse=True,
        query_rope=moved[3] if with_rope else None, key_rope=moved[4] if with_rope else None,
    )  # fmt: skip
    check(kept[0], out.detach(), 1e-9)
    result = OPS.npu_sparse_flash_attention_grad(*moved[:3], chosen.npu(), grad.npu(), *kept, 0.5, 1, *moved[3:])
    for one, expected in zip(result, wanted, strict=False):
        check(one, expected, 1e-9)
    assert with_rope or result[3].numel() == result[4].numel() == 0


def test_bad_arguments() -> None:
    q, k, v, topk = (one.npu() for one in problem())
    with pytest.raises(RuntimeError, match="topk_indices must be"):
        OPS.npu_nsa_select_attention(q, k, v, topk, 0.4, HEADS, BLOCK, 3, **ends())
    with pytest.raises(RuntimeError, match="head_num is 5"):
        OPS.npu_nsa_select_attention(q, k, v, topk, 0.4, 5, BLOCK, 2, **ends())
    with pytest.raises(RuntimeError, match="1 lengths of queries"):
        OPS.npu_nsa_select_attention(q, k, v, topk, 0.4, HEADS, BLOCK, 2, actual_seq_kvlen=[5, 16])
    with pytest.raises(RuntimeError, match="atten_mask must cover"):
        OPS.npu_nsa_select_attention(q, k, v, topk, 0.4, HEADS, BLOCK, 2, atten_mask=torch.zeros(3, 3).npu(), **ends())
