"""Paged caches, front ends with caches, sampling, against plain formulas."""

from __future__ import annotations

import math

import pytest
import torch

from tests.torch.operators.attention.test_inference import OPS, check, rand


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
def test_cache_writes_and_reads(mode):
    key, value = rand(5, 2, 16, dtype=torch.float16), rand(5, 2, 16, seed=1, dtype=torch.float16)
    slots = torch.tensor([0, 9, -1, 4, 11])
    shape = (3, 4, 2, 16) if mode == "Norm" else (3, 2, 4, 16)
    caches = [torch.zeros(shape, dtype=torch.float16).npu() for _ in range(2)]
    made = OPS.npu_scatter_pa_kv_cache_functional(key.npu(), value.npu(), *caches, slots.npu(), cache_mode=mode)
    assert not caches[0].any()
    OPS.npu_scatter_pa_kv_cache(key.npu(), value.npu(), *caches, slots.npu(), cache_mode=mode)
    wanted = torch.zeros(shape, dtype=torch.float16)
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0 and mode == "Norm":
            wanted[slot // 4, slot % 4] = key[row]
        elif slot >= 0:
            wanted[slot // 4, :, slot % 4] = key[row].reshape(-1, 16)
    assert (
        torch.equal(caches[0].cpu(), wanted) and torch.equal(made[0].cpu(), wanted) and torch.equal(made[1], caches[1])
    )
    out = [torch.zeros(4, 2, 16, dtype=torch.float16).npu() for _ in range(2)]
    table = torch.tensor([[2, 0], [1, 0]]).npu()
    OPS.npu_gather_pa_kv_cache(*caches, table, torch.tensor([3, 1]).npu(), *out, seq_offset=torch.tensor([1, 0]).npu())
    for row, slot in enumerate([9, 10, 11, 4]):
        for cache, found in zip(caches, out, strict=True):
            want = cache[slot // 4, slot % 4] if mode == "Norm" else cache[slot // 4, :, slot % 4].reshape(2, 16)
            assert torch.equal(found[row], want)


def rms(x, gamma, eps=1e-5):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * gamma


def rope(x, cos, sin, interleaved):
    half = x.shape[-1] // 2
    if interleaved:
        x = x.unflatten(-1, (half, 2)).transpose(-1, -2).flatten(-2)
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def test_latent_cache():
    kv, gamma = rand(2, 1, 3, 12), rand(8, seed=1)
    cos, sin = rand(2, 1, 3, 4, seed=2), rand(2, 1, 3, 4, seed=3)
    latent, turned = rms(kv[..., :8], gamma), rope(kv[..., 8:], cos, sin, True)
    index = torch.tensor([[0, 2, 4], [1, 3, 5]])
    caches = [torch.zeros(2, 1, 6, 4).npu(), torch.zeros(2, 1, 6, 8).npu()]
    given = [one.npu() for one in (kv, gamma, cos, sin, index)]
    result = OPS.npu_kv_rmsnorm_rope_cache(*given, *caches, is_output_kv=True)
    check(result[2], turned)
    check(result[3], latent)
    for at in range(2):
        for row in range(3):
            check(caches[0][at, 0, index[at, row]], turned[at, 0, row])
            check(result[1][at, 0, index[at, row]], latent[at, 0, row])
    pages = [torch.zeros(3, 4, 1, 4).npu(), torch.zeros(3, 4, 1, 8).npu()]
    slots = torch.tensor([11, -1, 3, 0, 5, 6]).npu()
    OPS.npu_kv_rmsnorm_rope_cache_v2(*given[:4], slots, *pages, cache_mode="PA")
    check(pages[1].view(-1, 8)[11], latent[0, 0, 0])
    check(pages[0].view(-1, 4)[6], turned[1, 0, 2])
    with pytest.raises(NotImplementedError, match="k_rope_scale"):
        OPS.npu_kv_rmsnorm_rope_cache(*given, *caches, k_rope_scale=gamma.npu())


def test_packed_qkv_cache():
    qkv, gammas = rand(3, 4 * 16), [rand(16, seed=1), rand(16, seed=2)]
    cos, sin = rand(3, 16, seed=3), rand(3, 16, seed=4)
    heads = qkv.view(3, 4, 16)
    q = rope(rms(heads[:, :2], gammas[0], 1e-6), cos[:, None], sin[:, None], False).flatten(1)
    k = rope(rms(heads[:, 2:3], gammas[1], 1e-6), cos[:, None], sin[:, None], False)
    out, caches = torch.zeros(3, 32).npu(), [torch.zeros(2, 4, 1, 16).npu() for _ in range(2)]
    moved = [one.npu() for one in (qkv, *gammas, cos, sin)]
    result = OPS.npu_qkv_rms_norm_rope_cache(
        *moved,
        torch.tensor([1, 7, 4]).npu(),
        out,
        *caches,
        [1, 3, 4, 16],
        [2, 1, 1],
        cache_mode="PA_BSND",
        is_output_qkv=True,
    )
    check(out, q)
    check(result[1], k.flatten(1))
    check(caches[0].view(-1, 16)[7], k[1, 0])
    check(caches[1].view(-1, 16)[4], heads[2, 3])


def test_mla_prolog():
    x, wdq, wuq = rand(2, 3, 10), rand(10, 6, seed=1), rand(6, 2 * (5 + 4), seed=2)
    wuk, wdkv = rand(2, 5, 8, seed=3), rand(10, 8 + 4, seed=4)
    gq, gk, sin, cos = rand(6, seed=5), rand(8, seed=6), rand(2, 3, 4, seed=7), rand(2, 3, 4, seed=8)
    slots = torch.tensor([[0, 5, 2], [7, 1, 3]])
    norm = rms(x @ wdq, gq)
    heads = (norm @ wuq).view(2, 3, 2, 9)
    query = torch.einsum("bsnd,ndh->bsnh", heads[..., :5], wuk)
    query_rope = rope(heads[..., 5:], cos[:, :, None], sin[:, :, None], True)
    down = x @ wdkv
    ckv, kr = rms(down[..., :8], gk).view(-1, 8), rope(down[..., 8:], cos, sin, True).view(-1, 4)
    moved = [one.npu() for one in (x, wdq, wuq, wuk, wdkv, gq, gk, sin, cos)]
    caches = [torch.zeros(2, 4, 1, 8).npu(), torch.zeros(2, 4, 1, 4).npu()]
    result = OPS.npu_mla_prolog(*moved, slots.npu(), *caches)
    check(result[0], query, 1e-4)
    check(result[1], query_rope, 1e-4)
    for row, slot in enumerate(slots.flatten().tolist()):
        check(caches[0].view(-1, 8)[slot], ckv[row], 1e-4)
        check(result[3].view(-1, 4)[slot], kr[row], 1e-4)
    third = OPS.npu_mla_prolog_v3(*moved, *caches, cache_index=slots.npu(), query_norm_flag=True)
    check(third[0], query, 1e-4)
    check(third[3], norm, 1e-4)
    with pytest.raises(NotImplementedError, match="quant_scale_ckv"):
        OPS.npu_mla_prolog(*moved, slots.npu(), *caches, quant_scale_ckv=gk.npu())


def test_partial_outputs_and_steps():
    outs, levels = [rand(5, 8, seed=seed) for seed in range(3)], [rand(5, seed=seed) for seed in range(3)]
    weights = torch.softmax(torch.stack(levels), 0)
    merged, level = OPS.npu_attention_update([one.npu() for one in levels], [one.npu() for one in outs], 1)
    check(merged, sum(weight[:, None] * one for weight, one in zip(weights, outs, strict=True)))
    check(level, torch.logsumexp(torch.stack(levels), 0))
    tokens, positions, lens, slots = (torch.tensor(one).npu() for one in ([1, 2, 3], [4, 7, 0], [5, 8, 1], [0, 0, 0]))
    table = torch.tensor([[3, 4], [5, 6], [7, 8]]).npu()
    OPS.npu_advance_step_flashattn(tokens, torch.tensor([[9], [8]]).npu(), positions, lens, slots, table, 3, 2, 8)
    assert tokens.tolist() == [9, 8, 3] and lens.tolist() == [6, 9, 1]
    assert positions.tolist() == [5, 8, 0] and slots.tolist() == [3 * 8 + 5, 6 * 8, 0]


def test_top_k_and_top_p_keep_the_likeliest():
    logits = rand(4, 20)
    p, k = torch.tensor([0.3, 0.9, 1.0, 0.5]), torch.tensor([5, 3, 20, 1])
    result = OPS.npu_top_k_top_p(logits.npu(), p.npu(), k.npu()).cpu()
    for row in range(4):
        order = logits[row].argsort(descending=True).tolist()[: int(k[row])]
        shares = torch.softmax(logits[row, order], 0)
        kept, total = [], 0.0
        for place, share in zip(order, shares.tolist(), strict=True):
            if total >= float(p[row]) - 1e-6 and kept:
                break
            kept.append(place)
            total += share
        assert sorted(kept) == (result[row] > -math.inf).nonzero().flatten().tolist()
        assert torch.equal(result[row, kept], logits[row, kept])
    index, values = OPS.npu_top_k_top_p_sample(logits.npu(), k.npu(), p.npu(), is_need_logits=True)
    assert torch.equal(index.cpu(), logits.argmax(-1)) and torch.equal(values.cpu(), result)
    q = torch.ones(4, 20)
    q[1, logits[1].argmax()] = 1e6
    index, _ = OPS.npu_top_k_top_p_sample(logits.npu(), k.npu(), p.npu(), q.npu())
    assert int(index[1]) == int(logits[1].argsort(descending=True)[1])
