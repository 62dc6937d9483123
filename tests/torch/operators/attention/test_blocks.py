"""Ring attention, the older fused blocks, and attention over chosen keys, against plain formulas."""

from __future__ import annotations

import math

import pytest
import torch

from tests.torch.operators.attention.test_inference import OPS, attend, check, rand


def test_ring_attention_merges_two_halves():
    q, k, v = rand(6, 2, 4 * 8), rand(10, 2, 4 * 8, seed=1), rand(10, 2, 4 * 8, seed=2)
    parts = [
        OPS.npu_fusion_attention(q.npu(), k[cut].npu(), v[cut].npu(), 4, "SBH", scale=0.3)
        for cut in (slice(0, 4), slice(4, 10))
    ]
    whole = OPS.npu_fusion_attention(q.npu(), k.npu(), v.npu(), 4, "SBH", scale=0.3)
    result = OPS.npu_ring_attention_update(*parts[0][:3], *parts[1][:3])
    for one, other in zip(result, whole, strict=False):
        check(one, other.cpu())
    grad = rand(6, 2, 32, seed=5).npu()
    dk = [
        OPS.npu_fusion_attention_grad(
            q.npu(), k[cut].npu(), v[cut].npu(), grad, 4, "SBH", softmax_max=result[1], softmax_sum=result[2],
            attention_in=result[0], scale_value=0.3,
        )
        for cut in (slice(0, 4), slice(4, 10))
    ]  # fmt: skip
    wanted = OPS.npu_fusion_attention_grad(
        q.npu(),
        k.npu(),
        v.npu(),
        grad,
        4,
        "SBH",
        softmax_max=whole[1],
        softmax_sum=whole[2],
        attention_in=whole[0],
        scale_value=0.3,
    )
    check(dk[0][0] + dk[1][0], wanted[0].cpu())
    check(torch.cat((dk[0][1], dk[1][1])), wanted[1].cpu())


def test_bert_attention_and_its_gradient():
    q, k, v, mask = rand(2, 3, 4, 8), rand(2, 3, 4, 8, seed=1), rand(2, 3, 4, 8, seed=2), rand(2, 1, 4, 4, seed=3)
    leaves = [one.npu().requires_grad_() for one in (q, k, v)]
    result = OPS.npu_fused_attention_score_fwd(*leaves, mask.npu(), 0.3, 0.8)
    score = OPS.npu_fused_attention_score(*leaves, mask.npu(), 0.3, 1.0)
    wanted = torch.softmax(q @ k.mT * 0.3 + mask, -1)
    check(result[1], wanted)
    check(score, (wanted @ v).transpose(1, 2).reshape(8, 24))
    grad = rand(8, 24, seed=5).npu()
    result[0].backward(grad)
    again = OPS.npu_fused_attention_score_backward(
        grad, result[1].detach(), *(one.detach() for one in leaves), result[2], 0.3, 0.8
    )
    for leaf, other in zip(leaves, again, strict=True):
        check(other, leaf.grad.cpu())
    with pytest.raises(NotImplementedError, match="key_transpose"):
        OPS.npu_fused_attention_score(*leaves, mask.npu(), 0.3, 1.0, key_transpose=True)


def test_multi_head_attention_and_its_gradient():
    batch, heads, width, target, source = 2, 2, 4, 3, 5
    hidden = heads * width
    rows = [rand(batch * n, hidden, seed=seed) for seed, n in enumerate((target, source, source))]
    weights = [rand(hidden, hidden, seed=10 + seed) for seed in range(4)]
    biases = [rand(hidden, seed=20 + seed) for seed in range(4)]
    mask = rand(batch, heads, target, source, seed=30)
    leaves = [one.npu().requires_grad_() for one in (*rows, *weights, *biases)]
    x, w, b = leaves[:3], leaves[3:7], leaves[7:]
    result = OPS.npu_multi_head_attention(
        *x, *w[:3], mask.npu(), w[3], *b, None, heads, width, source, target, 0.3, True
    )
    grad = rand(batch * target, hidden, seed=40).npu()
    result[0].backward(grad)
    plain = OPS.npu_multi_head_attention(
        *x, *w[:3], mask.npu(), w[3], *b, None, heads, width, source, target, 0.0, True
    )[0]
    q, k, v = (
        (one @ weight.T + bias).view(batch, -1, heads, width).transpose(1, 2)
        for one, weight, bias in zip(rows, weights, biases, strict=False)
    )
    context = torch.softmax(q @ k.mT / math.sqrt(width) + mask, -1) @ v
    check(plain, context.transpose(1, 2).reshape(batch * target, hidden) @ weights[3].T + biases[3], 1e-4)
    detached = [one.detach() for one in result]
    again = OPS.npu_multi_head_attention_backward(
        *(one.detach() for one in (*x, *w, *b)),
        *detached[2:8],
        grad,
        detached[1],
        heads,
        width,
        source,
        target,
        0.3,
        True,
    )
    for leaf, other in zip([*w, *x, *b], again, strict=True):
        check(other, leaf.grad.cpu(), 1e-4)


def test_layernorm_qkv_and_its_gradient():
    x, kernels, biases = (
        rand(6, 8),
        [rand(8, 8, seed=seed) for seed in range(1, 4)],
        [rand(8, seed=seed) for seed in range(4, 7)],
    )
    gamma, beta = rand(8, seed=8), rand(8, seed=9)
    norm, q, _k, v, mean, variance = OPS.npu_fused_attention_layernorm_qkv_fwd(
        *(one.npu() for one in (x, *kernels, gamma, beta, *biases)), seq_len=3, num_heads=2
    )
    wanted = torch.nn.functional.layer_norm(x, (8,), gamma, beta)
    check(norm, wanted)
    check(mean, x.mean(-1))
    check(variance, x.var(-1, correction=0))
    check(q, (wanted @ kernels[0] + biases[0]).view(2, 3, 2, 4).transpose(1, 2))
    check(v, (wanted @ kernels[2] + biases[2]).view(2, 3, 2, 4).transpose(1, 2))
    leaves = [one.clone().requires_grad_() for one in (wanted, *kernels, *biases)]
    outs = [(leaves[0] @ leaves[1 + at] + leaves[4 + at]).view(2, 3, 2, 4).transpose(1, 2) for at in range(3)]
    grads = [rand(2, 2, 3, 4, seed=20 + at) for at in range(3)]
    expected = torch.autograd.grad(outs, leaves, grads)
    other = rand(6, 8, seed=30)
    result = OPS.npu_fused_attention_qkv_grad(*(one.npu() for one in (*grads, *kernels, wanted, other)))
    check(result[0], expected[0] + other, 1e-4)
    for one, want in zip(result[1:], expected[1:], strict=True):
        check(one, want, 1e-4)


def test_floyd_attention():
    q, k1, v1 = (rand(1, 2, *shape, 4, seed=seed).double() for seed, shape in enumerate([(3, 5), (3, 6), (3, 6)]))
    k2, v2 = (rand(1, 2, 6, 5, 4, seed=seed).double() for seed in (4, 5))
    leaves = [one.npu().requires_grad_() for one in (q, k1, v1, k2, v2)]
    out, top, total = OPS.npu_fused_floyd_attention(*leaves, scale_value=0.5)
    wanted = torch.zeros_like(q)
    for n in range(2):
        for i in range(3):
            for k in range(5):
                scores = torch.stack([q[0, n, i, k] @ (k1[0, n, i, j] + k2[0, n, j, k]) * 0.5 for j in range(6)])
                shares = torch.softmax(scores, 0)
                wanted[0, n, i, k] = sum(shares[j] * (v1[0, n, i, j] + v2[0, n, j, k]) for j in range(6))
                check(top[0, n, i, k, 0], scores.max(), 1e-6)
    check(out, wanted, 1e-6)
    grad = rand(1, 2, 3, 5, 4, seed=9).double().npu()
    out.backward(grad)
    again = OPS.npu_fused_floyd_attention_backward(
        grad, *(one.detach() for one in leaves), out.detach(), top, total, scale_value=0.5
    )
    for leaf, other in zip(leaves, again, strict=True):
        check(other, leaf.grad.cpu(), 1e-6)


def test_block_sparse_attention():
    q, k, v = rand(2, 4, 6, 8), rand(2, 2, 9, 8, seed=1), rand(2, 2, 9, 8, seed=2)
    blocks = rand(2, 4, 3, 3, seed=3) > 0
    blocks[..., 0] = True
    hidden = torch.zeros(2, 4, 6, 9, dtype=torch.bool)
    for i in range(6):
        for j in range(9):
            hidden[:, :, i, j] = ~blocks[:, :, i // 2, j // 4]
    leaves = [one.npu().requires_grad_() for one in (q, k, v)]
    call = {"q_input_layout": "BNSD", "kv_input_layout": "BNSD", "num_key_value_heads": 2}
    out, lse = OPS.npu_block_sparse_attention(*leaves, blocks.to(torch.uint8).npu(), [2, 4], softmax_lse_flag=1, **call)
    for at in range(2):
        wanted, level = attend(q[at], k[at], v[at], scale=8**-0.5, hidden=hidden[at])
        check(out[at], wanted)
        check(lse[at, ..., 0], level)
    grad = rand(2, 4, 6, 8, seed=5).npu()
    out.backward(grad)
    again = OPS.npu_block_sparse_attention_backward(
        grad, *(one.detach() for one in leaves), out.detach(), lse, blocks.to(torch.uint8).npu(), [2, 4], None, None, "BNSD",
        "BNSD", 2, 0.0,
    )  # fmt: skip
    for leaf, other in zip(leaves, again, strict=True):
        check(other, leaf.grad.cpu())


def test_indexer_and_attention_over_its_choice():
    q, k, weights = rand(2, 4, 3, 8), rand(2, 6, 1, 8, seed=1), rand(2, 4, 3, seed=2)
    index, values = OPS.npu_lightning_indexer(q.npu(), k.npu(), weights.npu(), sparse_count=3, return_value=True)
    assert index.shape == (2, 4, 1, 3) and index.dtype == torch.int32
    for b in range(2):
        for i in range(4):
            scores = torch.tensor(
                [
                    sum(float(weights[b, i, h]) * max(0.0, float(q[b, i, h] @ k[b, j, 0])) for h in range(3))
                    for j in range(i + 3)
                ]
            )
            best = scores.sort(descending=True).values[:3]
            check(values[b, i, 0], best)
            check(scores[index[b, i, 0].cpu().long()], best)
    query, value = rand(2, 4, 3, 8, seed=5), rand(2, 6, 1, 8, seed=6)
    out, *_ = OPS.npu_sparse_flash_attention(query.npu(), k.npu(), value.npu(), index, 0.5)
    for b in range(2):
        for i in range(4):
            hidden = torch.ones(6, dtype=torch.bool)
            hidden[index[b, i, 0].cpu().long()] = False
            wanted, _ = attend(
                query[b, i][:, None], k[b].transpose(0, 1), value[b].transpose(0, 1), scale=0.5, hidden=hidden
            )
            check(out[b, i], wanted[:, 0])


def test_compressed_blocks_are_weighted_sums():
    x, weight = rand(11, 2, 4), rand(4, 2, seed=1)
    result = OPS.npu_nsa_compress(x.npu(), weight.npu(), 4, 2, actual_seq_len=[3, 11])
    wanted = torch.stack([sum(x[3 + 2 * at + t] * weight[t][:, None] for t in range(4)) for at in range(3)])
    check(result, wanted)
    grad = rand(3, 2, 4, seed=3)
    leaves = [one.clone().requires_grad_() for one in (x, weight)]
    made = torch.stack([sum(leaves[0][3 + 2 * at + t] * leaves[1][t][:, None] for t in range(4)) for at in range(3)])
    expected = torch.autograd.grad(made, leaves, grad)
    grads = OPS.npu_nsa_compress_grad(grad.npu(), x.npu(), weight.npu(), 4, 2, actual_seq_len=[3, 11])
    for one, want in zip(grads, expected, strict=True):
        check(one, want)
