"""torch.ops.npu: dropout with bit masks, softmax forms, losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

torch_npu.operators.register()
ops = torch.ops.npu


def _bits(mask: Tensor, count: int) -> Tensor:
    return torch.from_numpy(np.unpackbits(mask.cpu().numpy(), bitorder="little")[:count].astype(np.float64))


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).npu() for shape in shapes]


def test_dropout_keeps_what_its_bits_say() -> None:
    x = torch.arange(1.0, 1001.0).npu().requires_grad_()
    y, mask = ops._npu_dropout(x, 0.25)
    assert mask.dtype == torch.uint8 and mask.numel() == 8 * 16
    kept = _bits(mask, 1000)
    torch.testing.assert_close(y.detach().cpu().double(), x.detach().cpu().double() * kept / 0.75)
    assert 650 < kept.sum() < 850
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu().double(), kept / 0.75)
    torch.testing.assert_close(ops.npu_dropout_backward(torch.ones(1000).npu(), mask, 0.25), x.grad)
    again, same = ops.npu_dropout_do_mask(x, mask, 0.25)
    assert torch.equal(again, y) and torch.equal(same, mask)


def test_dropout_follows_the_seed_of_the_device() -> None:
    x = torch.ones(500).npu()
    results = []
    for seed in (7, 7, 8):
        torch.npu.manual_seed(seed)
        results.append(ops._npu_dropout(x, 0.5)[1])
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])


def test_dropout_at_the_ends() -> None:
    x = torch.ones(10).npu()
    assert torch.equal(ops._npu_dropout(x, 0.0)[0], x)
    assert not ops._npu_dropout(x, 1.0)[0].any()
    with pytest.raises(RuntimeError, match=r"has to be between 0 and 1, but got 1.5[\s\S]*ERR01003"):
        ops._npu_dropout(x, 1.5)
    with pytest.raises(RuntimeError, match="must be 16 bytes of uint8 for 10 elements, not 2"):
        ops.npu_dropout_do_mask(x, torch.zeros(2, dtype=torch.uint8).npu(), 0.5)
    with FakeTensorMode() as mode:
        y, mask = ops._npu_dropout(mode.from_tensor(torch.ones(130, device="npu")), 0.5)
        assert y.shape == (130,) and mask.shape == (32,)


def test_masks_by_themselves() -> None:
    mask = ops.npu_dropout_gen_mask([10, 20], 0.5, dtype=torch.half, device="npu")
    assert mask.shape == (32,) and mask.dtype == torch.uint8 and mask.device.type == "npu"
    x = torch.ones(1).npu()
    first, second = (ops._npu_dropout_gen_mask.Tensor(x, [1000], 0.5, 3, 4) for _ in range(2))
    assert torch.equal(first, second) and first.device.type == "npu"
    assert not torch.equal(first, ops._npu_dropout_gen_mask.Tensor(x, [1000], 0.5, 3, 5))
    assert not torch.equal(first, ops._npu_dropout_gen_mask.Tensor(x, [1000], 0.5, 4, 4))


def test_dropout_with_byte_mask() -> None:
    x = torch.ones(4, 100).npu().requires_grad_()
    y, mask = ops._dropout_with_byte_mask(x, 0.5)
    assert mask.dtype == torch.uint8 and torch.equal(y, mask * 2.0)
    grad = torch.randn(4, 100).npu()
    (found,) = torch.autograd.grad(y, x, grad)
    torch.testing.assert_close(found, ops._dropout_with_byte_mask_backward(grad, mask, 0.5))
    assert torch.equal(ops.dropout_with_byte_mask(x, 0.5, False), x)
    assert set(ops.dropout_with_byte_mask(x, 0.5, True).unique().tolist()) == {0, 2}


def test_dropout_with_add_softmax() -> None:
    x, x1, grad = _random((2, 3, 8), (2, 3, 8), (2, 3, 8))
    leaves = (x.requires_grad_(), x1.requires_grad_())
    mask, softmax, dropped = ops.npu_dropout_with_add_softmax(*leaves, 0.5, 0.25, -1)
    wanted = torch.softmax(x1 + 0.5 * x, -1)
    torch.testing.assert_close(softmax, wanted)
    torch.testing.assert_close(dropped.cpu(), wanted.cpu() * _bits(mask, 48).reshape(2, 3, 8) / 0.75)
    mine = ops.npu_dropout_with_add_softmax_backward(grad, mask, softmax.detach(), 0.5, 0.25, -1)
    for one, two in zip(mine, torch.autograd.grad(dropped, leaves, grad), strict=True):
        torch.testing.assert_close(one, two)


def test_attention_softmax_in_place() -> None:
    scores, values, grad = _random((2, 4, 6), (2, 6, 5), (2, 4, 5))
    leaf = scores.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.softmax(leaf, -1) @ values, leaf, grad)
    torch.testing.assert_close(ops.npu_attn_softmax_(scores), torch.softmax(leaf, -1).detach())
    ops.npu_attn_softmax_backward_(scores, grad, values)
    torch.testing.assert_close(scores, wanted)


@pytest.mark.parametrize("triangle", [False, True])
def test_scaled_masked_softmax(triangle: bool) -> None:
    x = torch.linspace(-3, 3, 2 * 3 * 4 * 4).reshape(2, 3, 4, 4).npu().requires_grad_()
    mask = torch.zeros(2, 1, 4, 4, dtype=torch.bool)
    mask[0, :, :, 3] = mask[1, :, 1] = True
    used = torch.ones(4, 4, dtype=torch.bool).triu(1) if triangle else mask
    y = ops.npu_scaled_masked_softmax(x, mask.npu(), 0.5, triangle)
    wanted = torch.softmax((x.detach().cpu() * 0.5).masked_fill(used, -10000.0), -1)
    assert y.dtype == torch.float16
    torch.testing.assert_close(y.cpu().float(), wanted, rtol=1e-3, atol=1e-4)
    assert triangle or torch.equal(y[1, 0, 1].cpu(), torch.full((4,), 0.25).half())
    grad = torch.randn(2, 3, 4, 4).npu().half()
    (found,) = torch.autograd.grad(y, x, grad)
    operator = ops.npu_scaled_masked_softmax_backward(grad, y.detach(), mask.npu(), 0.5, triangle)
    torch.testing.assert_close(operator.float(), found, rtol=1e-2, atol=2e-3)
    assert not found.cpu()[used.expand_as(found)].any()


def test_softmax_with_relative_position_bias() -> None:
    x, mask, bias = _random((2, 3, 4, 5, 5), (3, 5, 5), (4, 5, 5))
    wanted = torch.softmax(0.5 * x + mask[None, :, None] + bias, -1)
    torch.testing.assert_close(ops.npu_masked_softmax_with_rel_pos_bias(x, mask, bias, 0.5), wanted)
    torch.testing.assert_close(
        ops.npu_masked_softmax_with_rel_pos_bias(x.flatten(0, 1), mask[:, None], bias[None], 0.5), wanted.flatten(0, 1)
    )
    alone = ops.npu_masked_softmax_with_rel_pos_bias(x, None, bias)
    torch.testing.assert_close(alone, torch.softmax(x + bias, -1))


def test_exponential_samples() -> None:
    torch.npu.manual_seed(0)
    x = ops.npu_sim_exponential_(torch.empty(20000).npu(), 4.0)
    assert abs(x.mean().item() - 0.25) < 0.01 and x.min() >= 0


def test_softmax_cross_entropy_with_logits() -> None:
    logits, labels, grad = _random((5, 7), (5, 7), (5,))
    labels = torch.softmax(labels, -1) * 2
    logits.requires_grad_()
    loss = ops.npu_softmax_cross_entropy_with_logits(logits, labels)
    torch.testing.assert_close(loss, F.cross_entropy(logits, labels, reduction="none"))
    (wanted,) = torch.autograd.grad(loss, logits, grad)
    result = ops.npu_softmax_cross_entropy_with_logits_backward(grad, logits.detach(), labels)
    torch.testing.assert_close(result, wanted)
    with pytest.raises(RuntimeError, match="differ"):
        ops.npu_softmax_cross_entropy_with_logits(logits, labels[:2])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("scale", [0.0, 0.1])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_with_all_options(reduction: str, scale: float, smoothing: float) -> None:
    logits, weight = _random((6, 5), (5,))
    logits.requires_grad_()
    weight = weight.abs()
    target = torch.tensor([0, 4, 2, -100, 1, 3], dtype=torch.int32).npu()
    options = (weight, reduction, -100, smoothing, scale)
    loss, log_prob, zloss, lse = ops.npu_cross_entropy_loss(logits, target, *options, scale != 0)
    wanted = F.cross_entropy(logits, target.long(), weight, reduction=reduction, label_smoothing=smoothing)
    penalty = scale * torch.logsumexp(logits, 1).square() * (target >= 0)
    if reduction != "none":
        penalty = penalty.sum() / (5 if reduction == "mean" else 1)
    torch.testing.assert_close(loss, wanted + penalty)
    torch.testing.assert_close(log_prob, torch.log_softmax(logits, 1))
    grads = [torch.randn_like(loss), torch.randn_like(zloss)]
    if scale:
        torch.testing.assert_close(zloss, penalty)
        torch.testing.assert_close(lse, torch.logsumexp(logits, 1))
        (both,) = torch.autograd.grad((wanted + penalty, penalty), logits, grads)
        (mine,) = torch.autograd.grad((loss, zloss), logits, grads)
    else:
        assert zloss.numel() == lse.numel() == 0
        (both,) = torch.autograd.grad(wanted, logits, grads[0])
        (mine,) = torch.autograd.grad(loss, logits, grads[0])
    torch.testing.assert_close(mine, both)
    saved = (grads[0], log_prob.detach(), target, weight, grads[1], lse.detach())
    result = ops.npu_cross_entropy_loss_backward(*saved, reduction, -100, smoothing, scale)
    torch.testing.assert_close(result, both)


def test_cross_entropy_without_options() -> None:
    logits = torch.randn(4, 3, device="npu", dtype=torch.bfloat16)
    target = torch.tensor([0, 1, 2, 1]).npu()
    loss, log_prob, zloss, lse = ops.npu_cross_entropy_loss(logits, target)
    assert loss.dtype == log_prob.dtype == torch.bfloat16 and zloss.numel() == lse.numel() == 0
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), target).bfloat16())
    grad = ops.npu_cross_entropy_loss_backward(loss * 0 + 1, log_prob, target)
    wanted = (torch.softmax(logits.float(), 1) - F.one_hot(target, 3)) / 4
    torch.testing.assert_close(grad.float(), wanted, rtol=2e-2, atol=2e-3)
    for bad, text in (
        ({"reduction": "max"}, "reduction must be one of mean, sum, none, not 'max'"),
        ({"label_smoothing": 1.5}, r"label_smoothing must be in \[0, 1\), 1.5 is not"),
        ({"return_zloss": True}, "return_zloss needs lse_square_scale_for_zloss, which is 0"),
        ({"weight": torch.ones(2).npu()}, "one entry for each of 3 classes"),
    ):
        with pytest.raises(RuntimeError, match=text):
            ops.npu_cross_entropy_loss(logits, target, **bad)
    with pytest.raises(RuntimeError, match="a z-loss needs lse_for_zloss"):
        ops.npu_cross_entropy_loss_backward(loss, log_prob, target, lse_square_scale_for_zloss=0.1)


@pytest.mark.parametrize("end", [0, -1])
def test_vocabulary_in_two_parts_gives_the_whole_loss(end: int) -> None:
    """What ranks do: local parts, maxima and sums joined, gradients of each part."""
    x, weight, grad = _random((5, 8), (12, 8), (5,))
    target = torch.tensor([0, 7, 8, 11, 3]).npu()
    leaves = (x.requires_grad_(), weight.requires_grad_())
    wanted = F.cross_entropy(F.linear(*leaves), target, reduction="none")
    dx, dw = torch.autograd.grad(wanted, leaves, grad)
    x, weight = x.detach(), weight.detach()
    pieces = [(0, weight[:8]), (8, weight[8:])]
    parts = [
        ops.npu_fused_linear_online_max_sum(x, w, target, start, start + len(w) + end, True) for start, w in pieces
    ]
    assert _bits(parts[0][3], 5).tolist() == [0, 0, 1, 1, 0] and parts[1][4].tolist() == [0, 0, 0, 3, 0]
    largest = torch.maximum(parts[0][0], parts[1][0])
    total = sum(one[1] * (one[0] - largest).exp() for one in parts)
    here = [(target < 8), (target >= 8)]
    predicted = sum(one[2] + (one[0] - largest) * mine for one, mine in zip(parts, here, strict=True))
    input_grad, weight_grads = 0, []
    for (_, w), part in zip(pieces, parts, strict=True):
        loss, softmax = ops.npu_fused_cross_entropy_loss_with_max_sum(
            largest, total, predicted, vocab_parallel_logits=part[5]
        )
        torch.testing.assert_close(loss, wanted.detach())
        operator = ops.npu_fused_linear_cross_entropy_loss_with_max_sum_backward
        result = operator(grad, x, w, part[3], part[4], 0.0, None, None, softmax)
        for one, two in zip(result, operator(grad, x, w, part[3], part[4], 0.0, largest, total), strict=True):
            torch.testing.assert_close(one, two)
        input_grad = input_grad + result[0]
        weight_grads.append(result[1])
    torch.testing.assert_close(input_grad, dx)
    torch.testing.assert_close(torch.cat(weight_grads), dw)


def test_what_the_parallel_loss_refuses() -> None:
    x, weight = _random((5, 8), (12, 8))
    with pytest.raises(RuntimeError, match="classes 0 to 20 for a weight of 12 rows"):
        ops.npu_fused_linear_online_max_sum(x, weight, torch.zeros(5, dtype=torch.long).npu(), 0, 20)
    one = torch.ones(5).npu()
    assert ops.npu_fused_cross_entropy_loss_with_max_sum(one, one, one)[1].numel() == 0
    with pytest.raises(NotImplementedError, match=r"label_smoothing 0.1"):
        ops.npu_fused_cross_entropy_loss_with_max_sum(one, one, one, label_smoothing=0.1)


def test_derivative_of_the_mask_free_parts() -> None:
    (x,) = _random((3, 4))
    assert gradcheck(
        lambda a: ops.npu_cross_entropy_loss(a, torch.tensor([0, 3, 1]).npu(), None, "none", -100, 0.1, 0.2)[0],
        x.requires_grad_(),
    )
