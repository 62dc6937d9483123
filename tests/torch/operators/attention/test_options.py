"""npu_fusion_attention: dropout, the gradient operators, the third form, tracing, bad arguments."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.torch.operators.attention.test_fused import COMPRESSED, OPS, blocks, check, rand, reference  # noqa: F401


def bits_of(mask: Tensor, count: int) -> Tensor:
    packed = mask.cpu().tolist()
    return torch.tensor([(packed[at // 8] >> (at % 8)) & 1 for at in range(count)], dtype=torch.float64)


@pytest.mark.parametrize("columns", [16, 13])
@pytest.mark.usefixtures("blocks")
def test_dropout_with_a_given_mask(columns):
    q, k, v = rand(1, 2, 9, 4), rand(1, 2, columns, 4, seed=1), rand(1, 2, columns, 4, seed=2)
    count = 2 * 9 * columns
    mask = torch.randint(
        0, 256, (-(-count // 128) * 16,), dtype=torch.uint8, generator=torch.Generator().manual_seed(5)
    )
    keep = bits_of(mask, count).view(1, 2, 9, columns)
    leaves = [one.npu().requires_grad_() for one in (q, k, v)]
    result = OPS.npu_fusion_attention(*leaves, 2, "BNSD", keep_prob=0.5, dropout_mask=mask.npu())
    own = [one.clone().requires_grad_() for one in (q, k, v)]
    out, *_ = reference(*own, keep=keep, keep_prob=0.5)
    check(result[0], out.detach())
    assert result[6] == mask.numel()
    grad = rand(*out.shape, seed=9)
    result[0].backward(grad.npu())
    for leaf, want in zip(leaves, torch.autograd.grad(out, own, grad), strict=True):
        check(leaf.grad, want)


def test_dropout_statistics_and_repetition():
    """Equal scores and values of one: each output is the share of kept keys over keep_prob."""
    q, k, v = torch.zeros(2, 4, 64, 8).npu(), torch.zeros(2, 4, 256, 8).npu(), torch.ones(2, 4, 256, 8).npu()
    torch.npu.manual_seed(7)
    one = OPS.npu_fusion_attention(q, k, v, 4, "BNSD", keep_prob=0.8)
    other = OPS.npu_fusion_attention(q, k, v, 4, "BNSD", keep_prob=0.8)
    assert not torch.equal(one[0], other[0]) and one[4:6] != other[4:6]
    assert abs(float(one[0].mean()) - 1) < 0.01
    deviation = float(one[0][..., 0].std())
    assert abs(deviation - math.sqrt(0.2 / 0.8 / 256)) < 0.003
    torch.npu.manual_seed(7)
    again = OPS.npu_fusion_attention(q, k, v, 4, "BNSD", keep_prob=0.8)
    named = OPS.npu_fusion_attention(q, k, v, 4, "BNSD", keep_prob=0.8, seed=other[4], offset=other[5])
    assert torch.equal(again[0], one[0]) and torch.equal(named[0], other[0])


@pytest.mark.parametrize("version", [1, 3])
def test_dropout_gradient_operator(version):
    leaves = [rand(2, 2, 6, 4, seed=seed).npu().requires_grad_() for seed in range(3)]
    grad = rand(2, 2, 6, 4, seed=8).npu()
    name = "npu_fusion_attention" if version == 1 else "npu_fusion_attention_v3"
    result = getattr(OPS, name)(*leaves, 2, "BNSD", keep_prob=0.7)
    result[0].backward(grad)
    seed, offset = result[4], result[5]
    assert isinstance(seed, int if version == 1 else Tensor)
    backward = OPS.npu_fusion_attention_grad if version == 1 else OPS.npu_fusion_attention_grad_v3
    grads = backward(
        *(one.detach() for one in leaves), grad, 2, "BNSD", softmax_max=result[1], softmax_sum=result[2],
        attention_in=result[0].detach(), keep_prob=0.7, seed=seed, offset=offset,
    )  # fmt: skip
    for leaf, other in zip(leaves, grads, strict=False):
        check(other, leaf.grad.cpu())
    assert grads[3].numel() == grads[4].numel() == 0


def test_third_form_with_outputs_and_shapes():
    q, k, v = (rand(10, 2, 4, seed=seed).float().npu() for seed in range(3))
    ends = torch.tensor([4, 10])
    result = OPS.npu_fusion_attention_v3(q, k, v, 2, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)
    targets = {
        "attention_score": torch.empty_like(q), "softmax_max": torch.empty(10, 2, 8).npu(),
        "softmax_sum": torch.empty(10, 2, 8).npu(), "softmax_out": torch.empty(0).npu(),
        "seed": torch.empty(1, dtype=torch.int64).npu(), "offset": torch.empty(1, dtype=torch.int64).npu(),
    }  # fmt: skip
    OPS.npu_fusion_attention_v3.out(q, k, v, 2, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends, **targets)
    assert torch.equal(targets["attention_score"], result[0]) and torch.equal(targets["softmax_sum"], result[2])
    shapes = OPS._npu_fusion_attention_v3_infer_output(q, k, v, 2, "TND")
    assert [one.shape for one in shapes] == [one.shape for one in result[:3]]
    assert OPS._npu_fusion_attention_v3_get_max_workspace(q, k, v, 2, "TND").numel() == 0
    grads = OPS.npu_fusion_attention_grad_v3(
        q, k, v, q, 2, "TND", softmax_max=result[1], softmax_sum=result[2], actual_seq_qlen=ends, actual_seq_kvlen=ends
    )
    made = [torch.empty_like(one) for one in grads]
    OPS.npu_fusion_attention_grad_v3.out(
        q, k, v, q, 2, "TND", softmax_max=result[1], softmax_sum=result[2], actual_seq_qlen=ends, actual_seq_kvlen=ends,
        dq=made[0], dk=made[1], dv=made[2], dpse=made[3], dsink=made[4],
    )  # fmt: skip
    assert all(torch.equal(one, other) for one, other in zip(grads, made, strict=True))


def test_traced_calls_see_the_formula():
    from torch._subclasses import FakeTensorMode

    q, k, v = (rand(2, 2, 6, 4, seed=seed).float().npu() for seed in range(3))
    with FakeTensorMode() as mode:
        shapes = OPS.npu_fusion_attention(*(mode.from_tensor(one) for one in (q, k, v)), 2, "BNSD", keep_prob=0.9)
        assert shapes[0].shape == (2, 2, 6, 4) and shapes[1].shape == (2, 2, 6, 8) and shapes[0].device.type == "npu"
    plain = OPS.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.5)
    mapped = torch.func.vmap(
        lambda *one: OPS.npu_fusion_attention(*(x[None] for x in one), 2, "BNSD", scale=0.5)[0][0]
    )(q, k, v)
    check(mapped, plain[0].cpu(), 1e-5)


def test_autocast_leaves_the_precision():
    q, k, v = (rand(1, 2, 16, 8, seed=seed).float().npu() for seed in range(3))
    plain = OPS.npu_fusion_attention(q, k, v, 2, "BNSD")[0]
    with torch.autocast("npu", dtype=torch.float16):
        assert torch.equal(OPS.npu_fusion_attention(q, k, v, 2, "BNSD")[0], plain)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"input_layout": "XYZ"}, "input_layout"),
        ({"head_num": 0}, "heads"),
        ({"keep_prob": 0.0}, "keep_prob"),
        ({"keep_prob": 1.5}, "keep_prob"),
        ({"sparse_mode": 9}, "sparse_mode"),
        ({"sparse_mode": 2, "atten_mask": torch.zeros(6, 6, dtype=torch.bool)}, "compressed"),
        ({"atten_mask": torch.zeros(6, 6)}, "bool or uint8"),
        ({"atten_mask": torch.zeros(5, 6, dtype=torch.bool)}, "does not fit"),
        ({"sparse_mode": 6, "atten_mask": torch.zeros(3072, 2048, dtype=torch.bool)}, "prefix"),
        ({"sparse_mode": 7, "atten_mask": COMPRESSED}, "TND"),
        ({"pse": torch.zeros(6, 6)}, "4 dimensions"),
        ({"sink": torch.zeros(3)}, "sink"),
        ({"softmax_layout": "TND"}, "softmax_layout"),
        ({"padding_mask": torch.zeros(6, 6)}, "padding_mask"),
        ({"keep_prob": 0.5, "dropout_mask": torch.zeros(2, dtype=torch.uint8)}, "dropout_mask"),
        ({"key": torch.zeros(2, 3, 6, 4)}, "multiple"),
        ({"key": torch.zeros(2, 2, 6, 5)}, "width"),
        ({"key": torch.zeros(2, 2, 6, 4, dtype=torch.float16)}, "dtype"),
    ],
)
def test_bad_arguments(change, word):
    x = torch.zeros(2, 2, 6, 4)
    given = {"query": x, "key": x, "value": x, "head_num": 2, "input_layout": "BNSD", **change}
    if "key" in change and change["key"].shape[1] != 2:
        given["value"] = given["key"]
    moved = {name: one.npu() if isinstance(one, Tensor) else one for name, one in given.items()}
    with pytest.raises((RuntimeError, NotImplementedError), match=word):
        OPS.npu_fusion_attention(**moved)


def test_lengths_are_needed_and_checked():
    x = torch.zeros(6, 2, 4).npu()
    with pytest.raises(RuntimeError, match="actual_seq_qlen"):
        OPS.npu_fusion_attention(x, x, x, 2, "TND")
    with pytest.raises(RuntimeError, match="must not fall"):
        OPS.npu_fusion_attention(x, x, x, 2, "TND", actual_seq_qlen=[4, 2], actual_seq_kvlen=[4, 6])
