"""Attention of inference, paged caches and the serving operators against plain formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu.operators
from torch import Tensor

torch_npu.operators.register()
OPS = torch.ops.npu
COMPRESSED = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)


def attend(q, k, v, scale=1.0, hidden=None, added=None, sink=None):
    """[N, S, D] in float64: output and log-sum-exp."""
    q, k, v = (one.double() for one in (q, k, v))
    group = q.shape[0] // k.shape[0]
    scores = torch.einsum("nid,njd->nij", q, k.repeat_interleave(group, 0)) * scale
    if added is not None:
        scores = scores + added.double()
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    level = scores.logsumexp(-1)
    if sink is not None:
        level = torch.logaddexp(level, sink.double()[:, None])
    shares = torch.exp(scores - level[..., None])
    return torch.einsum("nij,njd->nid", shares, v.repeat_interleave(group, 0)), level


def check(found, wanted, tolerance=1e-5):
    torch.testing.assert_close(found.cpu().double(), wanted.double(), rtol=tolerance, atol=tolerance)


def every(q, k, v, **options):
    results = [attend(q[at], k[at], v[at], **options) for at in range(q.shape[0])]
    return torch.stack([one[0] for one in results]), torch.stack([one[1] for one in results])


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD", "BNSD_BSND"])
def test_every_layout_computes_the_same(layout):
    q, k, v = rand(2, 4, 5, 8), rand(2, 2, 7, 8, seed=1), rand(2, 2, 7, 8, seed=2)

    def turned(x, name=layout):
        if name.startswith("BNSD"):
            return x
        return x.transpose(1, 2).flatten(2) if name == "BSH" else x.transpose(1, 2)

    given = [turned(one).contiguous().npu() for one in (q, k, v)]
    wanted, level = every(q, k, v, scale=0.5)
    wanted = turned(wanted, "BSND" if layout == "BNSD_BSND" else layout)
    out, lse = OPS.npu_fused_infer_attention_score(
        *given, num_heads=4, num_key_value_heads=2, scale=0.5, input_layout=layout, softmax_lse_flag=True
    )
    check(out, wanted)
    check(lse, level[..., None])
    assert out.is_contiguous() and lse.shape == (2, 4, 5, 1)
    prompt = OPS.npu_prompt_flash_attention(
        *given, num_heads=4, num_key_value_heads=2, scale_value=0.5, input_layout=layout
    )
    check(prompt, wanted)
    quiet = OPS.npu_fused_infer_attention_score(*given, num_heads=4, num_key_value_heads=2, input_layout=layout)
    assert quiet[1].shape == (1,)
    shapes = OPS._npu_fused_infer_attention_score_infer_output(
        given[0], given[2], input_layout=layout, num_heads=4, num_key_value_heads=2, softmax_lse_flag=True
    )
    assert [one.shape for one in shapes] == [out.shape, lse.shape]


def test_scale_and_next_tokens_by_default():
    """The scale is 1; next_tokens 0 hides the future only where there is a mask."""
    q = rand(1, 2, 4, 8)
    none = torch.zeros(4, 4, dtype=torch.bool)
    plain = OPS.npu_prompt_flash_attention(*(q.npu(),) * 3, num_heads=2, input_layout="BNSD")
    check(plain, every(q, q, q)[0])
    causal = OPS.npu_prompt_flash_attention(*(q.npu(),) * 3, num_heads=2, input_layout="BNSD", atten_mask=none.npu())
    check(causal, every(q, q, q, hidden=COMPRESSED[:4, :4])[0])


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4])
def test_lengths_and_modes(mode):
    q, k, v = rand(2, 2, 5, 8), rand(2, 2, 9, 8, seed=1), rand(2, 2, 9, 8, seed=2)
    rows, columns = [3, 5], [9, 6]
    given = rand(2, 1, 5, 9, seed=4) > 1
    mask = given if mode < 2 else COMPRESSED
    out, lse = OPS.npu_fused_infer_attention_score(
        *(one.npu() for one in (q, k, v)), num_heads=2, scale=0.3, input_layout="BNSD", atten_mask=mask.npu(), sparse_mode=mode,
        pre_tokens=2, next_tokens=1, actual_seq_lengths=rows, actual_seq_lengths_kv=columns, softmax_lse_flag=True,
    )  # fmt: skip
    for at, (r, c) in enumerate(zip(rows, columns, strict=True)):
        i, j = torch.arange(r)[:, None], torch.arange(c)
        shift = c - r
        hidden = {
            0: given[at, 0, :r, :c] | (j > i + 1) | (j < i - 2),
            1: given[at, 0, :r, :c],
            2: j > i,
            3: j > i + shift,
            4: (j > i + shift + 1) | (j < i + shift - 2),
        }[mode]
        wanted, level = attend(q[at, :, :r], k[at, :, :c], v[at, :, :c], scale=0.3, hidden=hidden)
        check(out[at, :, :r], wanted)
        check(lse[at, :, :r, 0], level)
        assert not out[at, :, r:].any() and bool((lse[at, :, r:] == -math.inf).all())


def paged(x: Tensor, table: Tensor, size: int, blocks: int, flat: bool) -> Tensor:
    """Rows [batch, heads, length, width] in blocks, as [blocks, size, heads * width] or [blocks, heads, size, width]."""
    batch, heads, length, width = x.shape
    cache = rand(blocks, heads, size, width, seed=99)
    for at in range(batch):
        for place in range(length):
            cache[table[at, place // size], :, place % size] = x[at, :, place]
    return cache.transpose(1, 2).flatten(2).contiguous() if flat else cache


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("layout", ["BSH", "BNSD", "BSND"])
def test_paged_equals_contiguous(flat, layout):
    q, k, v = rand(3, 4, 1, 8), rand(3, 2, 10, 8, seed=1), rand(3, 2, 10, 8, seed=2)
    lengths = [10, 1, 7]
    table = torch.tensor([[5, 0, 3], [1, 2, 4], [7, 6, 8]])
    caches = [paged(one, table, 4, 9, flat).npu() for one in (k, v)]
    turned = {"BSH": q.transpose(1, 2).flatten(2), "BNSD": q, "BSND": q.transpose(1, 2)}[layout].contiguous().npu()
    out = OPS.npu_incre_flash_attention(
        turned, *caches, num_heads=4, num_key_value_heads=2, input_layout=layout, block_table=table.npu(), block_size=4,
        actual_seq_lengths=lengths, scale_value=0.4,
    )  # fmt: skip
    fused = OPS.npu_fused_infer_attention_score_v2(
        turned, *caches, num_query_heads=4, num_key_value_heads=2, input_layout=layout, block_table=table.npu(), block_size=4,
        actual_seq_kvlen=lengths, softmax_scale=0.4,
    )[0]  # fmt: skip
    wanted = torch.stack([attend(q[at], k[at, :, :n], v[at, :, :n], scale=0.4)[0] for at, n in enumerate(lengths)])
    wanted = {"BSH": wanted.transpose(1, 2).flatten(2), "BNSD": wanted, "BSND": wanted.transpose(1, 2)}[layout]
    check(out, wanted)
    assert torch.equal(out, fused)


def test_packed_sequences_over_a_paged_cache():
    q, k, v = rand(6, 4, 8), rand(2, 1, 9, 8, seed=1), rand(2, 1, 9, 6, seed=2)
    qr, kr = rand(6, 4, 4, seed=3), rand(2, 1, 9, 4, seed=4)
    table, lengths = torch.tensor([[1, 0, 2], [3, 5, 4]]), [9, 5]
    caches = [paged(one, table, 4, 6, True).npu() for one in (k, v, kr)]
    out, lse = OPS.npu_fused_infer_attention_score(
        q.npu(), *caches[:2], query_rope=qr.npu(), key_rope=caches[2], num_heads=4, num_key_value_heads=1, input_layout="TND",
        block_table=table.npu(), block_size=4, actual_seq_lengths=[2, 6], actual_seq_lengths_kv=lengths, sparse_mode=3,
        atten_mask=COMPRESSED.npu(), scale=0.3, softmax_lse_flag=True,
    )  # fmt: skip
    both, keys = torch.cat((q, qr), -1), torch.cat((k, kr), -1)
    for at, (start, end, n) in enumerate([(0, 2, 9), (2, 6, 5)]):
        rows = end - start
        hidden = torch.arange(n) > torch.arange(rows)[:, None] + n - rows
        wanted, level = attend(both[start:end].transpose(0, 1), keys[at, :, :n], v[at, :, :n], scale=0.3, hidden=hidden)
        check(out[start:end].transpose(0, 1), wanted)
        check(lse[start:end, :, 0].t(), level)


@pytest.mark.parametrize("shape", [(2, 7), (2, 1, 7), (2, 1, 1, 7)])
def test_decode_masks_and_bias(shape):
    q, k, v = rand(2, 2, 1, 8), rand(2, 2, 7, 8, seed=1), rand(2, 2, 7, 8, seed=2)
    mask, bias = rand(*shape, seed=4) > 0.5, rand(1, 2, 1, 7, seed=5)
    out = OPS.npu_incre_flash_attention(
        *(one.npu() for one in (q, k, v)), num_heads=2, input_layout="BNSD", atten_mask=mask.npu(), pse_shift=bias.npu(),
        scale_value=0.5,
    )  # fmt: skip
    for at in range(2):
        hidden = mask.reshape(2, 7)[at]
        check(out[at], attend(q[at], k[at], v[at], scale=0.5, hidden=hidden, added=bias[0])[0])


def test_sink_and_quantised_output():
    q, k, v, sink = rand(2, 2, 3, 8), rand(2, 2, 7, 8, seed=1), rand(2, 2, 7, 8, seed=2), rand(2, seed=3)
    call = {"num_query_heads": 2, "input_layout": "BNSD", "softmax_scale": 0.5, "learnable_sink": sink.npu()}
    plain = OPS.npu_fused_infer_attention_score_v2(*(one.npu() for one in (q, k, v)), **call)[0]
    check(plain, every(q, k, v, scale=0.5, sink=sink)[0])
    scale, offset = torch.tensor([30.0]), torch.tensor([2.0])
    whole = OPS.npu_fused_infer_attention_score_v2(
        *(one.npu() for one in (q, k, v)), **call, quant_scale_out=scale.npu(), quant_offset_out=offset.npu()
    )[0]
    assert whole.dtype == torch.int8
    assert torch.equal(whole.cpu(), (plain.cpu() * 30 + 2).round().clamp(-128, 127).to(torch.int8))


@pytest.mark.parametrize("kind", ["tensor", "channel", "token", "int4"])
def test_quantised_keys(kind):
    q = rand(2, 2, 1, 8)
    generator = torch.Generator().manual_seed(1)
    low, high = (-8, 8) if kind == "int4" else (-100, 100)
    k, v = (torch.randint(low, high, (2, 2, 6, 8), generator=generator, dtype=torch.int8) for _ in range(2))
    shape = {"tensor": (1,), "channel": (2, 8), "token": (2, 6), "int4": (2, 8)}[kind]
    scales = [rand(*shape, seed=seed).abs() * 0.02 for seed in (3, 4)]
    offset = rand(*shape, seed=5)
    fit = {"tensor": (1,), "channel": (1, 2, 1, 8), "token": (2, 1, 6, 1), "int4": (1, 2, 1, 8)}[kind]
    keys, values = (k + offset.view(fit)) * scales[0].view(fit), v * scales[1].view(fit)

    def packed(x):
        if kind != "int4":
            return x
        made = torch.zeros(*x.shape[:-1], 1, dtype=torch.int64)
        for place in range(8):
            made[..., 0] |= (x[..., place].long() & 15) << (4 * place)
        return torch.where(made >= 2**31, made - 2**32, made).to(torch.int32)

    out = OPS.npu_fused_infer_attention_score(
        q.npu(), packed(k).npu(), packed(v).npu(), num_heads=2, input_layout="BNSD", scale=0.3,
        key_antiquant_scale=scales[0].npu(), key_antiquant_offset=offset.npu(), value_antiquant_scale=scales[1].npu(),
        key_antiquant_mode=int(kind == "token"), value_antiquant_mode=int(kind == "token"),
    )[0]  # fmt: skip
    check(out, every(q, keys, values, scale=0.3)[0], 1e-4)


def test_outputs_in_place_and_refusals():
    q = rand(1, 2, 3, 8).npu()
    result = OPS.npu_fused_infer_attention_score(q, q, q, num_heads=2, input_layout="BNSD", softmax_lse_flag=True)
    out, lse = torch.empty_like(q), torch.empty(1, 2, 3, 1).npu()
    OPS.npu_fused_infer_attention_score.out(
        q, q, q, num_heads=2, input_layout="BNSD", softmax_lse_flag=True, attention_out=out, softmax_lse=lse
    )
    assert torch.equal(out, result[0]) and torch.equal(lse, result[1])
    with pytest.raises(NotImplementedError, match="key_shared_prefix"):
        OPS.npu_fused_infer_attention_score(q, q, q, num_heads=2, input_layout="BNSD", key_shared_prefix=q)
    with pytest.raises(RuntimeError, match="decoding takes 1"):
        OPS.npu_incre_flash_attention(q, q, q, num_heads=2, input_layout="BNSD")
    with pytest.raises(RuntimeError, match="input_layout"):
        OPS.npu_prompt_flash_attention(q, q, q, num_heads=2, input_layout="SBH")
    with pytest.raises(RuntimeError, match="3 are named"):
        OPS.npu_prompt_flash_attention(q, q, q, num_heads=3, input_layout="BNSD")
    with pytest.raises(RuntimeError, match="lengths"):
        OPS.npu_prompt_flash_attention(q, q, q, num_heads=2, input_layout="BNSD", actual_seq_lengths=[4])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_close_to_the_formula(dtype):
    q, k, v = (rand(1, 2, 9, 16, seed=seed, dtype=dtype) for seed in range(3))
    out = OPS.npu_prompt_flash_attention(
        *(one.npu() for one in (q, k, v)), num_heads=2, input_layout="BNSD", scale_value=0.25
    )
    assert out.dtype == dtype
    check(out, every(q, k, v, scale=0.25)[0], 2e-2)
