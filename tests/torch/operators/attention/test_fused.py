"""npu_fusion_attention and its gradients against formulas written with loops in float64."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch_npu.operators.attention import core, problem

torch_npu.operators.register()
OPS = torch.ops.npu
COMPRESSED = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def rand(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64).to(
        dtype
    )


def reference(q, k, v, scale=1.0, hidden=None, pse=None, sink=None, keep=None, keep_prob=1.0):
    """[B, N, S, D] in float64: output, maximum, sum; `hidden` is true where a score is masked."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("bnid,bnjd->bnij", q, k)
    scores = (scores + (0 if pse is None else pse)) * scale
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    top = scores.amax(-1)
    if sink is not None:
        top = torch.maximum(top, sink[None, :, None].expand(top.shape))
    powers = torch.exp(scores - top[..., None])
    total = powers.sum(-1) + (0 if sink is None else torch.exp(sink[None, :, None] - top))
    shares = powers / total[..., None]
    if keep is not None:
        shares = shares * keep / keep_prob
    return torch.einsum("bnij,bnjd->bnid", shares, v), top, total


def hidden_by(mode: int, rows: int, columns: int, before=10**9, after=10**9, prefix=0, given=None) -> Tensor:
    """The mask of a sparse mode, element by element."""
    made = torch.zeros(rows, columns, dtype=torch.bool)
    for i in range(rows):
        for j in range(columns):
            shifted = i + columns - rows
            if mode == 0:
                hide = j > i + after or j < i - before
            elif mode == 1:
                hide = False
            elif mode == 2:
                hide = j > i
            elif mode == 3:
                hide = j > shifted
            elif mode == 4:
                hide = j > shifted + after or j < shifted - before
            else:
                hide = j > shifted and j >= prefix
            made[i, j] = hide or (given is not None and bool(given[i, j]))
    return made


def check(found, wanted, tolerance=1e-9):
    torch.testing.assert_close(found.cpu().double(), wanted.double(), rtol=tolerance, atol=tolerance)


def to_layout(x: Tensor, layout: str) -> Tensor:
    return {
        "BNSD": lambda: x,
        "BSND": lambda: x.transpose(1, 2).contiguous(),
        "BSH": lambda: x.transpose(1, 2).flatten(2).contiguous(),
        "SBH": lambda: x.permute(2, 0, 1, 3).flatten(2).contiguous(),
    }[layout]()


@pytest.fixture(params=["whole", "blocks", "again"])
def blocks(request, monkeypatch):
    """One block; blocks of a few rows or heads; and these with probabilities that are computed again."""
    if request.param == "whole":
        return
    for name, value in (("_BLOCK", 40), ("_WHOLE", 0), ("_BAND_ROWS", 2), ("_LEAST_ROWS", 2)):
        monkeypatch.setattr(problem, name, value)
    if request.param == "again":
        monkeypatch.setattr(core, "_KEPT", 0)


@pytest.mark.parametrize("layout", ["BNSD", "BSND", "BSH", "SBH"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.usefixtures("blocks")
def test_layouts_and_grouped_heads(layout, kv_heads):
    q, k, v = rand(2, 4, 6, 8), rand(2, kv_heads, 9, 8, seed=1), rand(2, kv_heads, 9, 8, seed=2)
    leaves = [one.clone().requires_grad_() for one in (q, k, v)]
    out, top, total = reference(*leaves, scale=0.3)
    grad = rand(*out.shape, seed=3)
    wanted = torch.autograd.grad(out, leaves, grad)
    mine = [to_layout(one, layout).npu().requires_grad_() for one in (q, k, v)]
    result = OPS.npu_fusion_attention(*mine, 4, layout, scale=0.3)
    check(result[0], to_layout(out.detach(), layout))
    assert result[1].shape == result[2].shape == (2, 4, 6, 8)
    assert result[3].numel() == 0 and result[4:] == (0, 0, 0)
    for copy in range(8):
        check(result[1][..., copy], top)
        check(result[2][..., copy], total)
    result[0].backward(to_layout(grad, layout).npu())
    for leaf, want in zip(mine, wanted, strict=True):
        check(leaf.grad, to_layout(want, layout))


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [(0, 10**10, 10**10), (0, 2, 1), (1, 1, 1), (2, 0, 0), (3, 0, 0), (4, 3, 2), (4, 10**10, 1), (4, 4, -1)],
)
@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 9), (9, 5)])
@pytest.mark.usefixtures("blocks")
def test_sparse_modes(mode, before, after, rows, columns):
    q, k, v = rand(2, 2, rows, 4), rand(2, 2, columns, 4, seed=1), rand(2, 2, columns, 4, seed=2)
    given = (rand(rows, columns, seed=5) > 1) if mode < 2 else None
    hidden = hidden_by(mode, rows, columns, before, after, given=given)
    mask = (COMPRESSED if given is None else given).npu()
    limit = 2**31 - 1
    leaves = [one.npu().requires_grad_() for one in (q, k, v)]
    result = OPS.npu_fusion_attention(
        *leaves,
        2,
        "BNSD",
        atten_mask=mask,
        sparse_mode=mode,
        pre_tockens=min(before, limit),
        next_tockens=min(after, limit),
    )
    seen = ~hidden.all(-1)
    own = [one.clone().requires_grad_() for one in (q, k, v)]
    out, top, total = reference(*own, hidden=hidden)
    grad = rand(*out.shape, seed=3) * seen[:, None]
    check(result[0][:, :, seen], out[:, :, seen].detach())
    check(result[1][:, :, seen, 0], top[:, :, seen].detach())
    check(result[2][:, :, seen, 0], total[:, :, seen].detach())
    assert not result[0][:, :, ~seen].any() and not result[2][:, :, ~seen].any()
    result[0].backward(grad.npu())
    safe, *_ = reference(*own, hidden=hidden & seen[:, None])
    for leaf, want in zip(leaves, torch.autograd.grad(safe, own, grad), strict=True):
        check(leaf.grad, want)


@pytest.mark.parametrize("mode", [5, 6])
def test_a_prefix_is_seen_by_every_query(mode):
    q, k, v = rand(2, 2, 6, 4), rand(2, 2, 6, 4, seed=1), rand(2, 2, 6, 4, seed=2)
    prefix = [2, 4]
    hidden = torch.stack([hidden_by(mode, 6, 6, prefix=one)[None] for one in prefix])
    mask = hidden if mode == 5 else torch.ones(3072, 2048, dtype=torch.bool)
    result = OPS.npu_fusion_attention(
        *(one.npu() for one in (q, k, v)), 2, "BNSD", atten_mask=mask.npu(), sparse_mode=mode, prefix=prefix
    )
    check(result[0], reference(q, k, v, hidden=hidden)[0])


@pytest.mark.parametrize("mode", [None, 2, 3, 4, 7, 8])
@pytest.mark.usefixtures("blocks")
def test_sequences_equal_single_ones(mode):
    rows, columns, before, after = [3, 0, 6, 5], [4, 2, 6, 7], 3, 1
    q, k, v = rand(14, 4, 8), rand(19, 2, 8, seed=1), rand(19, 2, 8, seed=2)
    leaves = [one.clone().npu().requires_grad_() for one in (q, k, v)]
    ends = [[sum(one[: at + 1]) for at in range(4)] for one in (rows, columns)]
    result = OPS.npu_fusion_attention(
        *leaves, 4, "TND", scale=0.5, actual_seq_qlen=ends[0], actual_seq_kvlen=ends[1], sparse_mode=mode or 0,
        atten_mask=None if mode is None else COMPRESSED.npu(), pre_tockens=before, next_tockens=after,
    )  # fmt: skip
    own = [one.clone().requires_grad_() for one in (q, k, v)]
    outs, tops = [], []
    for at in range(4):
        parts = [
            one[end[at] - size[at] : end[at]].transpose(0, 1)[None]
            for one, end, size in zip(own, (ends[0], ends[1], ends[1]), (rows, columns, columns), strict=True)
        ]
        if not rows[at]:
            continue
        used = {None: 1, 7: 4 if at == 3 else 3, 8: 4 if at == 0 else 2}.get(mode, mode)
        hidden = hidden_by(used, rows[at], columns[at], before, after)
        out, top, _ = reference(*parts, scale=0.5, hidden=hidden)
        outs.append(out[0].transpose(0, 1))
        tops.append(top[0].t())
    check(result[0], torch.cat(outs).detach())
    assert result[1].shape == (14, 4, 8)
    check(result[1][..., 5], torch.cat(tops).detach())
    grad = rand(14, 4, 8, seed=3)
    result[0].backward(grad.npu())
    for leaf, want in zip(leaves, torch.autograd.grad(torch.cat(outs), own, grad), strict=True):
        check(leaf.grad, want)


def test_long_rows_in_blocks():
    """Large enough for several blocks, with and without kept probabilities."""
    q, k, v = (rand(1, 4, 1100, 8, seed=seed).float() for seed in range(3))
    q.requires_grad_()
    leaves = [one.detach().npu().requires_grad_() for one in (q, k, v)]
    hidden = torch.ones(1100, 1100, dtype=torch.bool).triu(1)
    out, top, _ = reference(*(one.double() for one in (q, k, v)), scale=0.2, hidden=hidden)
    result = OPS.npu_fusion_attention(*leaves, 4, "BNSD", scale=0.2, atten_mask=COMPRESSED.npu(), sparse_mode=3)
    check(result[0], out.detach(), 1e-5)
    check(result[1][..., 0], top.detach(), 1e-5)
    grad = rand(*out.shape, seed=4)
    wanted = torch.autograd.grad(out, q, grad)[0]
    result[0].backward(grad.npu().float())
    check(leaves[0].grad, wanted, 1e-4)
    again = OPS.npu_fusion_attention_grad(
        *(one.detach() for one in leaves), grad.npu().float(), 4, "BNSD", atten_mask=COMPRESSED.npu(), softmax_max=result[1],
        softmax_sum=result[2], attention_in=result[0].detach(), scale_value=0.2, sparse_mode=3,
    )  # fmt: skip
    for leaf, other in zip(leaves, again, strict=False):
        check(other, leaf.grad.cpu(), 1e-4)


@pytest.mark.parametrize("shape", [(2, 4, 5, 7), (1, 4, 5, 7), (2, 1, 5, 7), (1, 1, 5, 7)])
@pytest.mark.parametrize("kind", ["pse", "mask"])
@pytest.mark.usefixtures("blocks")
def test_pse_and_mask_may_be_shared_by_batches_and_heads(shape, kind):
    q, k, v = rand(2, 4, 5, 8), rand(2, 2, 7, 8, seed=1), rand(2, 2, 7, 8, seed=2)
    plane = rand(*shape, seed=7)
    if kind == "mask":
        mask = plane > 0.7
        result = OPS.npu_fusion_attention(
            *(one.npu() for one in (q, k, v)), 4, "BNSD", atten_mask=mask.to(torch.uint8).npu()
        )
        check(result[0], reference(q, k, v, hidden=mask)[0])
        return
    leaves = [one.clone().npu().requires_grad_() for one in (q, k, v, plane)]
    result = OPS.npu_fusion_attention(*leaves[:3], 4, "BNSD", pse=leaves[3], scale=0.5)
    own = [one.clone().requires_grad_() for one in (q, k, v, plane)]
    out, *_ = reference(*own[:3], scale=0.5, pse=own[3])
    check(result[0], out.detach())
    grad = rand(*out.shape, seed=9)
    result[0].backward(grad.npu())
    for leaf, want in zip(leaves, torch.autograd.grad(out, own, grad), strict=True):
        check(leaf.grad, want)


@pytest.mark.parametrize("kind", [0, 2, 3])
@pytest.mark.usefixtures("blocks")
def test_pse_types(kind):
    q, k, v = rand(2, 2, 5, 4), rand(2, 2, 7, 4, seed=1), rand(2, 2, 7, 4, seed=2)
    scale, start = 0.5, 3
    if kind == 0:
        pse = rand(2, 2, 5, 7, seed=4)
        added = pse
        given = {"pse": pse.npu()}
    else:
        slopes = torch.tensor([0.5, 0.25])
        far = (torch.arange(5)[:, None] + start - torch.arange(7)).abs().double()
        added = -slopes.double()[:, None, None] * (far.sqrt() if kind == 3 else far)
        given = {"pse": slopes.npu(), "q_start_idx": [start], "kv_start_idx": [0]}
    result = OPS.npu_fusion_attention_v2(
        *(one.npu() for one in (q, k, v)), 2, "BNSD", scale=scale, pse_type=kind, **given
    )
    check(result[0], reference(q, k, v, scale=scale, pse=added / scale)[0], 1e-6)


def test_rope_parts_and_their_gradients():
    q, k, v = rand(2, 6, 4 * 8), rand(2, 6, 2 * 8, seed=1), rand(2, 6, 2 * 8, seed=2)
    qr, kr = rand(2, 6, 4 * 4, seed=3), rand(2, 6, 2 * 4, seed=4)
    leaves = [one.npu().requires_grad_() for one in (q, k, v, qr, kr)]
    result = OPS.npu_fusion_attention_v2(*leaves[:3], 4, "BSH", query_rope=leaves[3], key_rope=leaves[4], scale=0.4)
    split = [one.unflatten(2, (heads, -1)).transpose(1, 2) for one, heads in ((q, 4), (k, 2), (v, 2), (qr, 4), (kr, 2))]
    wanted = reference(torch.cat((split[0], split[3]), -1), torch.cat((split[1], split[4]), -1), split[2], scale=0.4)[0]
    check(result[0], to_layout(wanted, "BSH"))
    grad = rand(2, 6, 32, seed=6).npu()
    result[0].backward(grad)
    grads = OPS.npu_fusion_attention_grad_v2(
        *(one.detach() for one in leaves[:3]), grad, 4, "BSH", query_rope=leaves[3].detach(), key_rope=leaves[4].detach(),
        softmax_max=result[1], softmax_sum=result[2], scale_value=0.4,
    )  # fmt: skip
    for leaf, other in zip(leaves, (*grads[:3], *grads[4:6]), strict=True):
        check(other, leaf.grad.cpu())


@pytest.mark.usefixtures("blocks")
def test_a_sink_takes_its_part_of_the_softmax():
    q, k, v, sink = rand(2, 2, 5, 4), rand(2, 2, 7, 4, seed=1), rand(2, 2, 7, 4, seed=2), rand(2, seed=3)
    leaves = [one.npu().requires_grad_() for one in (q, k, v, sink)]
    result = OPS.npu_fusion_attention(*leaves[:3], 2, "BNSD", scale=0.5, sink=leaves[3])
    own = [one.clone().requires_grad_() for one in (q, k, v, sink)]
    out, top, total = reference(*own[:3], scale=0.5, sink=own[3])
    check(result[0], out.detach())
    check(result[1][..., 0], top.detach())
    check(result[2][..., 0], total.detach())
    grad = rand(*out.shape, seed=9)
    result[0].backward(grad.npu())
    for leaf, want in zip(leaves, torch.autograd.grad(out, own, grad), strict=True):
        check(leaf.grad, want)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.usefixtures("blocks")
def test_gradients_are_those_of_finite_differences(causal):
    q, k, v, pse, sink = (
        rand(*shape).npu().requires_grad_() for shape in ((1, 2, 3, 2), (1, 1, 4, 2), (1, 1, 4, 2), (1, 2, 3, 4), (2,))
    )
    mask = COMPRESSED.npu() if causal else None

    def run(*inputs):
        return OPS.npu_fusion_attention(
            *inputs[:3],
            2,
            "BNSD",
            pse=inputs[3],
            sink=inputs[4],
            atten_mask=mask,
            sparse_mode=3 if causal else 0,
            scale=0.7,
        )[0]

    assert torch.autograd.gradcheck(run, (q, k, v, pse, sink))
    assert torch.autograd.gradgradcheck(run, (q, k, v, pse, sink))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_halves_are_close_to_the_formula_in_double(dtype):
    q, k, v = (rand(2, 4, 33, 32, dtype=dtype, seed=seed) for seed in range(3))
    leaves = [one.npu().requires_grad_() for one in (q, k, v)]
    result = OPS.npu_fusion_attention(*leaves, 4, "BNSD", scale=32**-0.5, atten_mask=COMPRESSED.npu(), sparse_mode=2)
    own = [one.double().requires_grad_() for one in (q, k, v)]
    out, top, _ = reference(*own, scale=32**-0.5, hidden=COMPRESSED[:33, :33])
    assert result[0].dtype == dtype and result[1].dtype == result[2].dtype == torch.float32
    near = {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5}[dtype]
    check(result[0], out.detach(), near)
    check(result[1][..., 0], top.detach(), near)
    grad = rand(*out.shape, seed=9)
    result[0].backward(grad.to(dtype).npu())
    for leaf, want in zip(leaves, torch.autograd.grad(out, own, grad), strict=True):
        assert leaf.grad.dtype == dtype
        check(leaf.grad, want, 2 * near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 5, 16, 37, 130])
def test_maxima_and_sums_of_any_width(dtype, columns):
    """Against float64; the scores reach where exponentials end."""
    q = (torch.randn(2, 3, 7, 8) * (12 if dtype == torch.float32 else 1)).to(dtype)
    k, v = (torch.randn(2, 3, columns, 8).to(dtype) for _ in range(2))
    mask = torch.rand(7, columns) < 0.3
    mask[2] = True  # a row that sees nothing
    scores = (q.double() @ k.double().mT).masked_fill(mask, -torch.inf)
    top = scores.amax(-1)
    total = torch.exp(scores - top[..., None]).sum(-1)
    wanted = (torch.exp(scores - top[..., None]) / total[..., None]).nan_to_num(0) @ v.double()
    out, softmax_max, softmax_sum, *_ = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), 3, "BNSD", scale=1.0, atten_mask=mask.npu()
    )
    exact = 1e-5 if dtype == torch.float32 else 3e-2
    seen = [row for row in range(7) if not mask[row].all()]
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=exact, atol=exact)
    result = softmax_max.cpu()[..., 0].double()[:, :, seen]
    torch.testing.assert_close(result, top[:, :, seen], rtol=exact, atol=exact)
    if dtype == torch.float32:
        torch.testing.assert_close(
            softmax_sum.cpu()[..., 0].double()[:, :, seen], total[:, :, seen], rtol=1e-4, atol=1e-5
        )
    assert not softmax_sum[:, :, 2].any() and not out[:, :, 2].any()


def test_what_is_not_a_number_stays_so():
    q, k, v = (torch.ones(1, 1, 3, 20, device="npu") for _ in range(3))
    q[0, 0, 1, 0], q[0, 0, 2] = torch.nan, torch.inf
    out = torch_npu.npu_fusion_attention(q, k, v, 1, "BNSD")[0][0, 0]
    assert torch.equal(out[0], torch.ones(20, device="npu")) and out[1].isnan().all() and out[2].isnan().all()
    first = torch.tensor([[True, False, False]] * 3, device="npu")  # hidden, before what is not a number
    out = torch_npu.npu_fusion_attention(q, k, v, 1, "BNSD", atten_mask=first)[0][0, 0]
    assert torch.equal(out[0], torch.ones(20, device="npu")) and out[1].isnan().all()
