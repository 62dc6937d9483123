"""torch.ops.npu: gates and routing of a mixture of experts against loops written here, derivatives by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

ops = torch.ops.npu


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_gating_top_k_softmax(dtype: torch.dtype) -> None:
    x = _random(5, 8).to(dtype)
    finished = torch.tensor([False, True, False, False, True])
    y, chosen, rows = ops.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), 3)
    scores = _softmax(x.double().numpy())
    order = np.argsort(-scores, -1)[:, :3]
    np.testing.assert_allclose(
        y.cpu().double(), np.take_along_axis(scores, order, -1), rtol=2e-3 if dtype == torch.half else 1e-5
    )
    wanted = np.where(finished.numpy()[:, None], 8, order)
    np.testing.assert_array_equal(chosen.cpu(), wanted)
    assert y.dtype == dtype and chosen.dtype == rows.dtype == torch.int32
    assert rows.tolist() == [[row + 5 * choice for choice in range(3)] for row in range(5)]


@pytest.mark.parametrize("renorm", [0, 1])
def test_gating_top_k_softmax_v2(renorm: int) -> None:
    x = _random(2, 3, 6)
    y, chosen, scores = ops.npu_moe_gating_top_k_softmax_v2(x.npu(), k=2, renorm=renorm, output_softmax=not renorm)
    values = x.double().numpy()
    order = np.argsort(-values, -1)[..., :2]
    np.testing.assert_array_equal(chosen.cpu(), order)
    if renorm:
        wanted = _softmax(np.take_along_axis(values, order, -1))
        assert scores.numel() == 0
    else:
        wanted = np.take_along_axis(_softmax(values), order, -1)
        np.testing.assert_allclose(scores.cpu(), _softmax(values), rtol=1e-5)
    np.testing.assert_allclose(y.cpu(), wanted, rtol=1e-5)
    with pytest.raises(RuntimeError, match="output_softmax"):
        ops.npu_moe_gating_top_k_softmax_v2(x.npu(), renorm=1, output_softmax=True)


def _gate(
    row: np.ndarray, bias: np.ndarray, k: int, k_group: int, groups: int, mode: int, kind: int, renorm: int
) -> dict:
    scores = _softmax(row) if kind == 0 else 1 / (1 + np.exp(-row))
    ranked = scores + bias
    size = len(row) // groups
    values = []
    for group in range(groups):
        part = sorted(ranked[group * size : (group + 1) * size])[::-1]
        values.append(part[0] if mode == 0 else part[0] + part[1])
    best = sorted(range(groups), key=lambda group: -values[group])[:k_group]
    able = [expert for expert in range(len(row)) if expert // size in best]
    chosen = sorted(able, key=lambda expert: -ranked[expert])[:k]
    weights = scores[chosen]
    if kind == 1 or renorm == 1:
        weights = weights / (weights.sum() + 1e-20)
    return {"weights": weights * 2.5, "chosen": chosen, "scores": scores}


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("renorm", [0, 1])
def test_gating_top_k(mode: int, kind: int, renorm: int) -> None:
    x, bias = _random(6, 12), _random(12, seed=1) * 0.2
    y, chosen, scores = ops.npu_moe_gating_top_k(
        x.npu(), 3, bias=bias.npu(), k_group=2, group_count=4, group_select_mode=mode, renorm=renorm, norm_type=kind,
        out_flag=True, routed_scaling_factor=2.5,
    )  # fmt: skip
    for row in range(6):
        wanted = _gate(x[row].double().numpy(), bias.double().numpy(), 3, 2, 4, mode, kind, renorm)
        assert chosen[row].tolist() == wanted["chosen"]
        np.testing.assert_allclose(y[row].cpu(), wanted["weights"], rtol=1e-5)
        np.testing.assert_allclose(scores[row].cpu(), wanted["scores"], rtol=1e-5)


@pytest.mark.parametrize(("kind", "renorm"), [(0, 0), (0, 1), (1, 0)])
def test_gating_top_k_derivative(kind: int, renorm: int) -> None:
    x = _random(3, 6, dtype=torch.float64).npu().requires_grad_()
    options = {"renorm": renorm, "norm_type": kind, "routed_scaling_factor": 1.5}
    assert gradcheck(lambda one: ops.npu_moe_gating_top_k(one, 2, **options)[0], (x,))
    y, chosen, scores = ops.npu_moe_gating_top_k(x, 2, out_flag=True, **options)
    grad = _random(3, 2, seed=2, dtype=torch.float64).npu()
    wanted = torch.autograd.grad(y, x, grad)[0]
    torch.testing.assert_close(ops.npu_moe_gating_top_k_backward(scores.detach(), grad, chosen, **options), wanted)
    with pytest.raises(NotImplementedError, match="tid2eid"):
        ops.npu_moe_gating_top_k(x, 2, tid2eid=chosen)
    with pytest.raises(RuntimeError, match="groups"):
        ops.npu_moe_gating_top_k(x, 2, k_group=1, group_count=4)


def _routing(rows: int, choices: int, experts: int) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.stack([torch.randperm(experts, generator=generator)[:choices] for _ in range(rows)]).int()


@pytest.mark.parametrize("active", [2, 99])
def test_init_routing_and_finalize(active: int) -> None:
    """There and back: each token gets the weighted sum of what its experts made of it."""
    rows, choices, experts = 5, 3, 4
    x, chosen = _random(rows, 6), _routing(rows, choices, experts)
    numbers = torch.arange(rows * choices, dtype=torch.int32).reshape(choices, rows).t().contiguous()
    expanded, where, sorted_ = ops.npu_moe_init_routing(x.npu(), numbers.npu(), chosen.npu(), active)
    pairs = sorted(
        (int(chosen[row, choice]), row * choices + choice, row, choice)
        for row in range(rows)
        for choice in range(choices)
    )
    assert sorted_.tolist() == [one[0] for one in pairs]
    assert expanded.shape == (min(active, rows) * choices, 6)
    for place, (_, _, row, choice) in enumerate(pairs):
        assert where[choice * rows + row].item() == place
        if place < len(expanded):
            assert torch.equal(expanded[place].cpu(), x[row])
    ends = ops.npu_moe_compute_expert_tokens(sorted_, experts)
    assert ends.tolist() == [sum(one[0] <= expert for one in pairs) for expert in range(experts)]
    if active < rows:
        return
    factors = torch.arange(1.0, experts + 1)
    made = expanded * factors[sorted_.cpu().long()].npu().unsqueeze(-1)
    weights, bias, skip = _random(rows, choices, seed=3), _random(experts, 6, seed=4), _random(rows, 6, seed=5)
    y = ops.npu_moe_finalize_routing(
        made, skip.npu(), skip.npu(), bias.npu(), weights.npu(), where, chosen.npu(), drop_pad_mode=0
    )
    for row in range(rows):
        wanted = 2 * skip[row]
        for choice in range(choices):
            expert = int(chosen[row, choice])
            wanted = wanted + weights[row, choice] * (x[row] * factors[expert] + bias[expert])
        torch.testing.assert_close(y[row].cpu(), wanted)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("span", [[], [1, 3]])
def test_init_routing_v2(kind: int, span: list[int]) -> None:
    rows, choices, experts = 6, 2, 4
    x, chosen, scale = _random(rows, 4), _routing(rows, choices, experts), torch.rand(rows)
    begin, end = span or (0, experts)
    found = {}
    for tokens in (0, 1, 2):
        found[tokens] = ops.npu_moe_init_routing_v2(
            x.npu(), chosen.npu(), scale=scale.npu(), expert_num=experts, expert_tokens_num_type=tokens,
            expert_tokens_num_flag=True, active_expert_range=span, row_idx_type=kind,
        )  # fmt: skip
    expanded, where, counts, scales = found[1]
    live = sorted(
        (int(chosen[row, choice]), row * choices + choice)
        for row in range(rows)
        for choice in range(choices)
        if begin <= chosen[row, choice] < end
    )
    assert expanded.shape == (rows * choices, 4) and scales.shape == (rows * choices,)
    for place, (_, pair) in enumerate(live):
        assert torch.equal(expanded[place].cpu(), x[pair // choices]) and scales[place] == scale[pair // choices]
        assert (where[pair] == place) if kind == 0 else (where[place] == pair)
    assert not expanded[len(live) :].any() and (where == -1).sum() == rows * choices - len(live)
    wanted = [sum(one[0] == expert for one in live) for expert in range(begin, end)]
    assert counts.tolist() == wanted and found[0][2].tolist() == np.cumsum(wanted).tolist()
    pairs = [[begin + number, count] for number, count in enumerate(wanted) if count]
    assert found[2][2].tolist() == pairs + [[0, 0]] * (end - begin - len(pairs))


def test_init_routing_v2_with_a_capacity() -> None:
    chosen = torch.tensor([[0, 1], [0, 2], [0, 1], [2, 0]], dtype=torch.int32)
    x = _random(4, 3)
    expanded, where, _, _ = ops.npu_moe_init_routing_v2(
        x.npu(), chosen.npu(), expert_num=3, expert_capacity=2, drop_pad_mode=1
    )
    assert expanded.shape == (3, 2, 3)
    wanted = {0: [0, 1], 1: [0, 2], 2: [1, 3]}
    for expert, tokens in wanted.items():
        torch.testing.assert_close(expanded[expert].cpu(), x[tokens])
    assert where.tolist() == [0, 2, 1, 4, -1, 3, 5, -1]
    y = ops.npu_moe_finalize_routing(
        expanded, None, None, None, torch.ones(4, 2).npu(), where, chosen.npu(), drop_pad_mode=3
    )
    torch.testing.assert_close(y.cpu(), x * torch.tensor([[2.0], [2.0], [1.0], [1.0]]))


def test_init_routing_quantises() -> None:
    chosen, x = torch.tensor([[1], [0], [1]], dtype=torch.int32), _random(3, 4)
    smooth = torch.rand(2, 4) + 0.5
    y, _, _, scale = ops.npu_moe_init_routing_v2(x.npu(), chosen.npu(), scale=smooth.npu(), expert_num=2, quant_mode=1)
    for place, row in enumerate([1, 0, 2]):
        values = x[row].numpy() * smooth[int(chosen[row, 0])].numpy()
        assert scale[place].item() == pytest.approx(np.abs(values).max() / 127, rel=1e-6)
        assert np.abs(y[place].cpu().numpy() - values / np.abs(values).max() * 127).max() <= 0.501
    y, where, tokens, before, nothing = ops.npu_moe_init_routing_quant(
        x.npu(), chosen.npu(), scale=torch.tensor([10.0]).npu(), offset=torch.tensor([1.0]).npu(), expert_num=2,
        expert_tokens_num_mode=2, expert_tokens_before_capacity_flag=True, quant_mode=0,
    )  # fmt: skip
    np.testing.assert_array_equal(y.cpu(), np.clip(np.rint(x.numpy()[[1, 0, 2]] * np.float32(10) + 1), -128, 127))
    assert where.tolist() == [1, 0, 2] and tokens.tolist() == before.tolist() == [1, 2] and nothing.numel() == 0


@pytest.mark.parametrize("kind", [0, 1])
def test_re_routing(kind: int) -> None:
    counts = torch.tensor([[2, 0, 1], [1, 2, 1]])
    tokens, scale = _random(7, 4), torch.rand(7)
    y, scales, index, total = ops.npu_moe_re_routing(
        tokens.npu(), counts.npu(), per_token_scales=scale.npu(), idx_type=kind
    )
    order = [0, 1, 3, 4, 5, 2, 6]  # expert 0 of both ranks, expert 1, expert 2
    torch.testing.assert_close(y.cpu(), tokens[order])
    torch.testing.assert_close(scales.cpu(), scale[order])
    assert index.tolist() == (order if kind == 0 else np.argsort(order).tolist()) and total.tolist() == [3, 2, 2]


@pytest.mark.parametrize("kept", [None, 5, -2])
def test_token_permute_and_back(kept: int | None) -> None:
    tokens, indices = _random(4, 3, dtype=torch.float64), torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]])
    permuted, where = ops.npu_moe_token_permute(tokens.npu(), indices.npu(), kept)
    flat = indices.reshape(-1).tolist()
    order = sorted(range(8), key=lambda pair: (flat[pair], pair))
    count = {None: 8, 5: 5, -2: 6}[kept]
    torch.testing.assert_close(permuted.cpu(), tokens[[pair // 2 for pair in order[:count]]])
    assert where.tolist() == np.argsort(order).tolist() and where.dtype == torch.int32
    probs = _random(4, 2, seed=1, dtype=torch.float64)
    y = ops.npu_moe_token_unpermute(permuted, where, probs.npu())
    there = (where.cpu() < count).reshape(4, 2)
    torch.testing.assert_close(y.cpu(), tokens * (probs * there).sum(1, keepdim=True))


def test_token_permute_derivatives() -> None:
    tokens, probs = _random(4, 3, dtype=torch.float64).npu(), _random(4, 2, seed=1, dtype=torch.float64).npu()
    indices = torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]]).npu()
    leaves = tokens.clone().requires_grad_(), probs.clone().requires_grad_()
    _, where = ops.npu_moe_token_permute(tokens, indices)
    assert gradcheck(lambda one: ops.npu_moe_token_permute(one, indices, 5)[0], leaves[:1])
    rows = _random(6, 3, seed=2, dtype=torch.float64).npu().requires_grad_()
    assert gradcheck(lambda one, weight: ops.npu_moe_token_unpermute(one, where, weight), (rows, leaves[1]))
    permuted = ops.npu_moe_token_permute(leaves[0], indices)[0]
    grad = _random(8, 3, seed=3, dtype=torch.float64).npu()
    wanted = torch.autograd.grad(permuted, leaves[0], grad)[0]
    torch.testing.assert_close(ops.npu_moe_token_permute_grad(tokens, grad, indices, where), wanted)
    torch.testing.assert_close(ops.npu_moe_token_permute_grad_v2(grad, where, 4, torch.float64, 2), wanted)
    back, kept = ops._npu_moe_token_unpermute(rows, where, leaves[1])
    assert torch.equal(kept, rows)
    grad = _random(4, 3, seed=4, dtype=torch.float64).npu()
    wanted = torch.autograd.grad(back, (rows, leaves[1]), grad)
    for mine, theirs in zip(ops.npu_moe_token_unpermute_grad(rows.detach(), grad, where, probs), wanted, strict=True):
        torch.testing.assert_close(mine, theirs)
    only, nothing = ops.npu_moe_token_unpermute_grad_v2(grad.repeat(2, 1), where, 8, torch.float64)
    torch.testing.assert_close(only[where.long()], grad.repeat(2, 1))
    assert nothing.numel() == 0
    with pytest.raises(NotImplementedError, match="padded_mode"):
        ops.npu_moe_token_permute(tokens, indices, padded_mode=True)


@pytest.mark.parametrize("capacity", [0, 2])
def test_routing_map_and_back(capacity: int) -> None:
    chosen = torch.tensor([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=torch.bool)
    tokens, probs = _random(4, 5, dtype=torch.float64), torch.rand(4, 3, dtype=torch.float64)
    options = {"num_out_tokens": 3 * capacity if capacity else None, "drop_and_pad": capacity > 0}
    y, weights, order = ops.npu_moe_token_permute_with_routing_map(
        tokens.npu(), chosen.npu(), probs=probs.npu(), **options
    )
    pairs = []
    for expert in range(3):
        mine = [token for token in range(4) if chosen[token, expert]]
        pairs += [(token, expert) for token in (mine[:capacity] if capacity else mine)]
    assert order.tolist() == [token for token, _ in pairs]
    torch.testing.assert_close(y.cpu(), tokens[[token for token, _ in pairs]])
    torch.testing.assert_close(weights.cpu(), torch.stack([probs[pair] for pair in pairs]))
    back = ops.npu_moe_token_unpermute_with_routing_map(
        y, order, [4, 5], probs=probs.npu(), routing_map=chosen.npu(), drop_and_pad=capacity > 0
    )
    wanted = torch.zeros(4, 5, dtype=torch.float64)
    for token, expert in pairs:
        wanted[token] += probs[token, expert] * tokens[token]
    torch.testing.assert_close(back.cpu(), wanted)


def test_routing_map_derivatives() -> None:
    chosen = torch.tensor([[1, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1]], dtype=torch.bool).npu()
    tokens = _random(4, 5, dtype=torch.float64).npu().requires_grad_()
    probs = torch.rand(4, 3, dtype=torch.float64).npu().requires_grad_()
    y, weights, order = ops.npu_moe_token_permute_with_routing_map(tokens, chosen, probs=probs)
    grads = _random(7, 5, seed=1, dtype=torch.float64).npu(), _random(7, seed=2, dtype=torch.float64).npu()
    wanted = torch.autograd.grad((y, weights), (tokens, probs), grads)
    mine = ops.npu_moe_token_permute_with_routing_map_grad(*grads, order, chosen, 3, 4, False)
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other)
    rows = y.detach().requires_grad_()
    back, index, token, _ = ops._npu_moe_token_unpermute_with_routing_map(
        rows, order, [4, 5], probs=probs, routing_map=chosen
    )
    grad = _random(4, 5, seed=3, dtype=torch.float64).npu()
    wanted = torch.autograd.grad(back, (rows, probs), grad)
    mine = ops.npu_moe_token_unpermute_with_routing_map_grad(
        grad, index, token, chosen, rows.detach(), probs.detach(), False, [4, 5]
    )
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("mode", [0, 1])
def test_update_expert(mode: int) -> None:
    table = torch.tensor([[1, 4, 0], [2, 1, 5], [2, 0, 3]], dtype=torch.int32)
    ids, scales = (
        torch.tensor([[0, 1], [1, 2], [2, 1]], dtype=torch.int32),
        torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.7, 0.3]]),
    )
    places, active = ops.npu_moe_update_expert(
        ids.npu(), table.npu(), expert_scales=scales.npu(), pruning_threshold=torch.tensor([0.0, 0.2]).npu(),
        active_mask=torch.tensor([True, True, False]).npu(), local_rank_id=2, world_size=4, balance_mode=mode,
    )  # fmt: skip
    wanted = [[4, 5], [5, 3], [3, 5]] if mode == 0 else [[4, 1], [5, 3], [0, 1]]
    assert places.tolist() == wanted and places.dtype == torch.int32
    assert active.tolist() == [[True, False], [True, True], [False, False]]


def test_shapes_of_fake_tensors() -> None:
    with FakeTensorMode():
        x = torch.empty(6, 8, device="npu")
        y, chosen, _ = ops.npu_moe_gating_top_k(x, 2, k_group=1, group_count=2)
        assert y.shape == chosen.shape == (6, 2)
        result = ops.npu_moe_init_routing_v2(x, chosen, expert_num=8, expert_tokens_num_flag=True)
        assert [tuple(one.shape) for one in result] == [(12, 8), (12,), (8,), (0,)]
        assert ops.npu_moe_token_permute(x, chosen)[0].shape == (12, 8)
