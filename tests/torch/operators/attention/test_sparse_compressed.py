"""Attention over compressed blocks and the blocks it selects, against counts over single keys in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.torch.operators.attention.test_inference import OPS, check, rand

HEADS, KV, WIDTH = 4, 2, 8
SIZE, STRIDE, SELECT, COUNT = 4, 2, 8, 3
ROWS, COLUMNS, BLOCKS = [3, 5], [7, 13], [2, 4]


def probabilities(q: Tensor, k: Tensor, scale: float, hidden: Tensor | None) -> Tensor:
    """[heads, rows, columns] of one sequence."""
    scores = torch.einsum("rhd,chd->hrc", q.double(), k.double().repeat_interleave(HEADS // KV, 1)) * scale
    return (scores if hidden is None else scores.masked_fill(hidden, -torch.inf)).softmax(-1)


def importance(shares: Tensor, blocks: int) -> Tensor:
    """[key heads, rows, blocks]: every stride of a compressed key gives its probability to the block in which it lies."""
    worth = torch.zeros(KV, shares.shape[1], blocks + 2, dtype=torch.float64)
    for column in range(shares.shape[2]):
        for step in range(SIZE // STRIDE):
            block = (column + step) * STRIDE // SELECT
            for head in range(HEADS):
                worth[head // (HEADS // KV), :, block] += shares[head, :, column]
    return worth[..., :blocks]


def problem(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    total = sum(ROWS), sum(COLUMNS)
    return (
        rand(total[0], HEADS, WIDTH, dtype=dtype),
        rand(total[1], KV, WIDTH, seed=1, dtype=dtype),
        rand(total[1], KV, 6, seed=2, dtype=dtype),
    )


ENDS = {"actual_seq_qlen": [3, 8], "actual_cmp_seq_kvlen": [7, 20], "actual_sel_seq_kvlen": [2, 6]}
SIZES = (HEADS, SIZE, STRIDE, SELECT, COUNT)


@pytest.mark.parametrize("masked", [True, False])
def test_output_and_selection(masked: bool) -> None:
    q, k, v = problem()
    made = torch.Generator().manual_seed(5)
    hidden = torch.rand(5, 13, generator=made) < 0.4 if masked else None
    barred = torch.zeros(5, 4, dtype=torch.bool) if masked else None
    if hidden is not None and barred is not None:
        hidden[:, 0] = False
        barred[0] = torch.tensor([True, False, False, True])
    out, chosen, top, total = OPS.npu_nsa_compress_attention(
        *(one.npu() for one in (q, k, v)), 0.3, *SIZES, atten_mask=None if hidden is None else hidden.npu(),
        topk_mask=None if barred is None else barred.npu(), **ENDS,
    )  # fmt: skip
    assert chosen.shape == (8, KV, COUNT) and chosen.dtype == torch.int32 and top.shape == total.shape == (8, HEADS, 8)
    row = column = 0
    for rows, columns, blocks in zip(ROWS, COLUMNS, BLOCKS, strict=True):
        at = slice(row, row + rows)
        keys, values = k[column : column + columns], v[column : column + columns]
        shares = probabilities(q[at], keys, 0.3, None if hidden is None else hidden[:rows, :columns])
        check(out[at], torch.einsum("hrc,chd->rhd", shares, values.double().repeat_interleave(HEADS // KV, 1)), 1e-8)
        scores = torch.einsum("rhd,chd->rhc", q[at].double(), keys.double().repeat_interleave(HEADS // KV, 1)) * 0.3
        level = (scores if hidden is None else scores.masked_fill(hidden[:rows, None, :columns], -torch.inf)).logsumexp(
            -1
        )
        check(top[at, :, 3] + total[at, :, 3].log(), level, 1e-8)
        worth = importance(shares, blocks)
        for group in range(KV):
            for r in range(rows):
                open_ = [b for b in range(blocks) if barred is None or not barred[r, b]]
                best = sorted(open_, key=lambda b: -float(worth[group, r, b]))[:COUNT]
                assert chosen[row + r, group].tolist() == best + [-1] * (COUNT - len(best))
        row, column = row + rows, column + columns


def test_derivatives_half_precision_and_fake_tensors() -> None:
    leaves = [one.requires_grad_() for one in problem()]
    q, k, v = leaves
    parts = []
    for at, keys in ((slice(0, 3), slice(0, 7)), (slice(3, 8), slice(7, 20))):
        shares = probabilities(q[at], k[keys], 0.3, None)
        parts.append(torch.einsum("hrc,chd->rhd", shares, v[keys].repeat_interleave(HEADS // KV, 1)))
    grad = rand(8, HEADS, 6, seed=7, dtype=torch.float64)
    wanted = torch.autograd.grad(torch.cat(parts), leaves, grad)
    moved = [one.detach().npu().requires_grad_() for one in leaves]
    result = torch.autograd.grad(OPS.npu_nsa_compress_attention(*moved, 0.3, *SIZES, **ENDS)[0], moved, grad.npu())
    for one, expected in zip(result, wanted, strict=True):
        check(one, expected, 1e-8)
    half = [one.detach().npu() for one in problem(torch.bfloat16)]
    out, _, top, _ = OPS.npu_nsa_compress_attention(*half, 0.3, *SIZES, **ENDS)
    assert out.dtype == torch.bfloat16 and top.dtype == torch.float32
    check(out, torch.cat(parts).detach(), 5e-2)
    with FakeTensorMode() as mode:
        fake = OPS.npu_nsa_compress_attention(*(mode.from_tensor(one) for one in half), 0.3, *SIZES, **ENDS)
    assert [one.shape for one in fake] == [(8, HEADS, 6), (8, KV, COUNT), (8, HEADS, 8), (8, HEADS, 8)]


def test_one_sequence_needs_no_lengths() -> None:
    q, k, v = (one.npu() for one in problem())
    result = OPS.npu_nsa_compress_attention(q, k, v, 0.3, *SIZES)
    given = OPS.npu_nsa_compress_attention(
        q, k, v, 0.3, *SIZES, actual_seq_qlen=[8], actual_cmp_seq_kvlen=[20], actual_sel_seq_kvlen=[6]
    )
    for one, other in zip(result, given, strict=True):
        assert torch.equal(one, other)


def test_a_paged_cache() -> None:
    q, page, columns, blocks = rand(2, HEADS, WIDTH), 4, [6, 9], [2, 3]
    caches = [rand(7, page, KV * WIDTH, seed=1), rand(7, page, KV * WIDTH, seed=2)]
    table = torch.tensor([[5, 1, 0], [2, 6, 3]])
    out, chosen = OPS.npu_nsa_compress_attention_infer(
        q.npu(), caches[0].npu(), caches[1].npu(), 0.5, HEADS, KV, SELECT, 2, page, SIZE, STRIDE, block_table=table.npu(),
        actual_seq_qlen=[1, 1], actual_cmp_seq_kvlen=columns, actual_sel_seq_kvlen=blocks,
    )  # fmt: skip
    for b in range(2):
        keys, values = (one[table[b]].reshape(-1, KV, WIDTH)[: columns[b]] for one in caches)
        shares = probabilities(q[b : b + 1], keys, 0.5, None)
        check(out[b], torch.einsum("hrc,chd->rhd", shares, values.double().repeat_interleave(HEADS // KV, 1))[0])
        for group in range(KV):
            assert chosen[b, group].tolist() == importance(shares, blocks[b])[group, 0].topk(2).indices.tolist()


def test_bad_arguments() -> None:
    q, k, v = (one.npu() for one in problem())
    with pytest.raises(RuntimeError, match="must be multiples of compress_stride 3"):
        OPS.npu_nsa_compress_attention(q, k, v, 0.3, HEADS, SIZE, 3, SELECT, COUNT)
    with pytest.raises(RuntimeError, match="head_num is 3"):
        OPS.npu_nsa_compress_attention(q, k, v, 0.3, 3, SIZE, STRIDE, SELECT, COUNT)
    with pytest.raises(RuntimeError, match="2 lengths of queries"):
        OPS.npu_nsa_compress_attention(q, k, v, 0.3, *SIZES, actual_seq_qlen=[3, 8])
    with pytest.raises(RuntimeError, match="topk_mask must cover"):
        OPS.npu_nsa_compress_attention(q, k, v, 0.3, *SIZES, topk_mask=torch.zeros(2, 2).npu())
    with pytest.raises(RuntimeError, match="block_table is needed"):
        OPS.npu_nsa_compress_attention_infer(q, k, v, 0.3, HEADS, KV, SELECT, COUNT, 4, SIZE, STRIDE)
    with pytest.raises(NotImplementedError, match="atten_mask"):
        OPS.npu_nsa_compress_attention_infer(q, k, v, 0.3, HEADS, KV, SELECT, COUNT, 4, SIZE, STRIDE, atten_mask=q)


def test_compressed_keys_of_the_last_block() -> None:
    pages, weight = rand(6, 4, KV, WIDTH), rand(SIZE, KV, seed=1)
    table, lengths, slots = torch.tensor([[5, 1, 0], [2, 4, 3], [0, 5, 2]]), [6, 9, 3], torch.tensor([4, 0, 2])
    cache = torch.full((2, 3, KV, WIDTH), 7.0).npu()
    result = OPS.npu_nsa_compress_infer(
        pages.npu(),
        weight.npu(),
        slots.int().npu(),
        SIZE,
        STRIDE,
        4,
        block_table=table.npu(),
        actual_seq_len=lengths,
        cache=cache,
    )
    wanted = torch.full((6, KV, WIDTH), 7.0, dtype=torch.float64)
    keys = pages[table[0]].reshape(-1, KV, WIDTH).double()
    wanted[4] = sum(
        weight[t, :, None].double() * keys[2 + t] for t in range(SIZE)
    )  # 9 keys end no block, 3 are too few
    check(result.view(6, KV, WIDTH), wanted)
    assert result.data_ptr() == cache.data_ptr()
    with pytest.raises(RuntimeError, match="weight must be"):
        OPS.npu_nsa_compress_infer(pages.npu(), weight.t().npu(), slots.npu(), SIZE, STRIDE, 4, cache=cache)
