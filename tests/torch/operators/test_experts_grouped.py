"""torch.ops.npu: grouped products, plain and quantised, and the feed-forward block, against products made one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_npu  # noqa: F401
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

ops = torch.ops.npu


def _random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def _int8(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


COUNTS = [2, 0, 3]
LISTS = {0: [2, 2, 5], 1: COUNTS, 2: [[0, 2], [1, 0], [2, 3]]}


@pytest.mark.parametrize("split_item", [0, 1, 2, 3])
def test_one_product_for_each_pair(split_item: int) -> None:
    x = [_random(3, 4), _random(2, 4, seed=1)]
    weight, bias = [_random(4, 5, seed=2), _random(4, 5, seed=3)], [_random(5, seed=4), _random(5, seed=5)]
    result = ops.npu_grouped_matmul(
        [one.npu() for one in x], [one.npu() for one in weight], bias=[one.npu() for one in bias],
        split_item=split_item, group_type=-1,
    )  # fmt: skip
    wanted = [a @ b + c for a, b, c in zip(x, weight, bias, strict=True)]
    wanted = [torch.cat(wanted)] if split_item > 1 else wanted
    assert len(result) == len(wanted)
    for mine, theirs in zip(result, wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("split_item", [0, 3])
@pytest.mark.parametrize("stacked", [True, False])
def test_rows_split_among_weights(kind: int, split_item: int, stacked: bool) -> None:
    """The last row belongs to no group and is zero where the result is one tensor."""
    x, weight, bias = _random(6, 4), _random(3, 4, 5, seed=1), _random(3, 5, seed=2)
    found = ops.npu_grouped_matmul(
        [x.npu()],
        [weight.npu()] if stacked else list(weight.npu()),
        bias=[bias.npu()] if stacked else list(bias.npu()),
        group_list=torch.tensor(LISTS[kind]).npu(),
        split_item=split_item,
        group_type=0,
        group_list_type=kind,
    )
    parts = [part @ weight[number] + bias[number] for number, part in enumerate(x[:5].split(COUNTS))]
    if split_item == 0:
        assert [len(one) for one in found] == COUNTS
        parts, found = [torch.cat(parts)], [torch.cat(list(found))]
    else:
        parts = [torch.cat((*parts, torch.zeros(1, 5)))]
    torch.testing.assert_close(found[0].cpu(), parts[0])


def test_pairs_in_any_order() -> None:
    x, weight = _random(5, 4), _random(3, 4, 2, seed=1)
    result = ops.npu_grouped_matmul(
        [x.npu()], [weight.npu()], group_list=torch.tensor([[2, 3], [0, 2], [1, 0]]).npu(), split_item=3, group_type=0,
        group_list_type=2,
    )[0]  # fmt: skip
    torch.testing.assert_close(result.cpu(), torch.cat((x[:3] @ weight[2], x[3:] @ weight[0])))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("split_item", [0, 2])
def test_inner_dimension_split(kind: int, split_item: int) -> None:
    x, weight = _random(4, 5), _random(5, 3, seed=1)
    result = ops.npu_grouped_matmul(
        [x.npu()], [weight.npu()], group_list=torch.tensor(LISTS[kind]).npu(), split_item=split_item, group_type=2,
        group_list_type=kind,
    )  # fmt: skip
    wanted = torch.stack([x[:, :2] @ weight[:2], torch.zeros(4, 3), x[:, 2:] @ weight[2:]])
    torch.testing.assert_close((result[0] if split_item else torch.stack(list(result))).cpu(), wanted)


def test_group_list_of_numbers() -> None:
    x, weight = _random(5, 4), _random(3, 4, 2, seed=1)
    result = ops.npu_grouped_matmul.List([x.npu()], list(weight.npu()), group_list=LISTS[0], split_item=2)[0]
    wanted = [part @ weight[number] for number, part in enumerate(x.split(COUNTS))]
    torch.testing.assert_close(result.cpu(), torch.cat(wanted))


@pytest.mark.parametrize(
    ("number", "function"),
    [
        (1, F.relu),
        (2, lambda x: F.gelu(x, approximate="tanh")),
        (3, F.gelu),
        (4, lambda x: x * torch.sigmoid(1.702 * x)),
        (5, F.silu),
    ],
)
def test_activations_by_number_are_those_of_torch(number: int, function: object) -> None:
    x, weight = _random(5, 4), _random(4, 3, seed=1)
    result = ops.npu_grouped_matmul([x.npu()], [weight.npu()], group_type=-1, act_type=number)[0]
    torch.testing.assert_close(result.cpu(), function(x @ weight))


def test_derivatives_of_grouped_products_are_those_of_finite_differences() -> None:
    x, weight = _random(5, 4, dtype=torch.float64).npu(), _random(3, 4, 2, seed=1, dtype=torch.float64).npu()
    groups = torch.tensor([2, 2, 4]).npu()

    def rows(one: Tensor, other: Tensor) -> Tensor:
        return ops.npu_grouped_matmul([one], [other], group_list=groups, split_item=3, group_type=0)[0]

    assert gradcheck(rows, (x.requires_grad_(), weight.requires_grad_()))
    y = rows(x, weight)
    grad = _random(5, 2, seed=2, dtype=torch.float64).npu()
    wanted = torch.autograd.grad(y, weight, grad)[0]
    mine = ops.npu_grouped_matmul_add(torch.zeros_like(weight), x.detach().float(), grad.float(), groups)
    torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-5)
    target = torch.ones(12, 2).npu()
    assert ops.npu_grouped_matmul_add_(target, x.detach().float(), grad.float(), groups) is target
    torch.testing.assert_close(target.reshape(3, 4, 2), wanted.float() + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("output", [torch.float16, torch.bfloat16, torch.int32, None])
def test_quantised_rows(output: torch.dtype | None) -> None:
    x, weight = _int8(6, 16), _int8(3, 16, 5, seed=1)
    scale, row = torch.rand(3, 5) * 1e-3, torch.rand(6) + 0.1
    bias = torch.randint(-999, 999, (3, 5), dtype=torch.int32)
    result = ops.npu_grouped_matmul(
        [x.npu()], [weight.npu()], scale=[scale.npu()], per_token_scale=[row.npu()], bias=[bias.npu()],
        group_list=torch.tensor(LISTS[0]).npu(), split_item=3, group_type=0, output_dtype=output,
    )[0]  # fmt: skip
    wanted = np.zeros((6, 5))
    for place in range(5):
        group = 0 if place < 2 else 2
        sums = x[place].numpy().astype(np.int64) @ weight[group].numpy().astype(np.int64) + bias[group].numpy()
        factor = 1 if output == torch.int32 else scale[group].double().numpy() * float(row[place])
        wanted[place] = sums * factor
    assert result.dtype == (output or torch.int8)
    if output is None:
        assert np.abs(result.cpu().numpy() - np.clip(wanted, -128, 127)).max() <= 0.501
    else:
        np.testing.assert_allclose(result.cpu().double(), wanted, rtol=1e-2 if output == torch.bfloat16 else 1e-3)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("groups", [0, 2])
def test_integer_weights_made_float(bits: int, groups: int) -> None:
    x, weight = _random(4, 64).half(), torch.randint(-8, 8, (2, 64, 8), dtype=torch.int32)
    shape = (2, groups, 8) if groups else (2, 8)
    scale, offset = (torch.rand(shape) * 0.1).half(), torch.randint(-2, 3, shape).half()
    given = ops.npu_convert_weight_to_int4pack(weight.npu()) if bits == 4 else weight.to(torch.int8).npu()
    result = ops.npu_grouped_matmul(
        [x.npu()], [given], antiquant_scale=[scale.npu()], antiquant_offset=[offset.npu()],
        group_list=torch.tensor([1, 3]).npu(), split_item=3, group_type=0, group_list_type=1,
    )[0]  # fmt: skip
    rows = [
        table.repeat_interleave(32, 1) if groups else table.unsqueeze(1) for table in (scale.double(), offset.double())
    ]
    numbers = (weight.double() + rows[1]) * rows[0]
    wanted = torch.cat((x[:1].double() @ numbers[0], x[1:].double() @ numbers[1]))
    torch.testing.assert_close(result.cpu().double(), wanted, rtol=5e-3, atol=2e-2)


def test_swiglu_quant_after_a_grouped_product() -> None:
    x, weight = _int8(6, 16), _int8(3, 16, 8, seed=1)
    scale, row = torch.rand(3, 8) * 1e-3, torch.rand(6) + 0.1
    groups = torch.tensor(LISTS[0]).npu()
    y, found, nothing = ops.npu_grouped_matmul_swiglu_quant(x.npu(), weight.npu(), groups, scale.npu(), row.npu())
    for place in range(5):
        group = 0 if place < 2 else 2
        sums = x[place].double().numpy() @ weight[group].double().numpy()
        numbers = sums * scale[group].double().numpy() * float(row[place])
        gated = numbers[:4] / (1 + np.exp(-numbers[:4])) * numbers[4:]
        assert found[place].item() == pytest.approx(np.abs(gated).max() / 127, rel=1e-5)
        assert np.abs(y[place].cpu().numpy() - gated / np.abs(gated).max() * 127).max() <= 0.501
    assert not y[5].any() and found[5] == 0 and nothing.numel() == 0
    again = ops.npu_grouped_matmul_swiglu_quant_v2(
        x.npu(), list(weight.npu()), list(scale.npu()), row.npu(), torch.tensor(COUNTS).npu(), group_list_type=1
    )
    assert torch.equal(again[0], y) and torch.equal(again[1], found)


def test_grouped_product_routed_back() -> None:
    x, weight = _int8(5, 8), _int8(2, 8, 4, seed=1)
    scale, row, logit = torch.rand(2, 4) * 1e-2, torch.rand(5), torch.rand(5)
    index, shared = torch.tensor([2, 0, 1, 0, 2]), _random(2, 4).bfloat16()
    y = ops.npu_grouped_matmul_finalize_routing(
        x.npu(), weight.npu(), torch.tensor([2, 3]).npu(), scale=scale.npu(), pertoken_scale=row.npu(), logit=logit.npu(),
        row_index=index.npu(), shared_input=shared.npu(), shared_input_weight=0.5, shared_input_offset=1, output_bs=3,
    )  # fmt: skip
    wanted = np.zeros((3, 4))
    for place in range(5):
        group = 0 if place < 2 else 1
        sums = x[place].double().numpy() @ weight[group].double().numpy() * scale[group].double().numpy()
        wanted[int(index[place])] += sums * float(row[place]) * float(logit[place])
    wanted[1:] += 0.5 * shared.double().numpy()
    assert y.dtype == torch.float32
    np.testing.assert_allclose(y.cpu(), wanted, rtol=1e-4, atol=1e-4)


_UNITS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "geglu": lambda x: F.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "swiglu": lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "reglu": lambda x: F.relu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
}


@pytest.mark.parametrize("name", sorted(_UNITS))
def test_every_unit_of_a_feed_forward_network_is_its_formula(name: str) -> None:
    inner = 12 if name.endswith("glu") else 6
    x, first, second = _random(2, 3, 4), _random(4, inner, seed=1), _random(6, 5, seed=2)
    bias1, bias2 = _random(inner, seed=3), _random(5, seed=4)
    y = ops.npu_ffn(x.npu(), first.npu(), second.npu(), name, bias1=bias1.npu(), bias2=bias2.npu())
    torch.testing.assert_close(y.cpu(), _UNITS[name](x @ first + bias1) @ second + bias2)


def test_ffn_of_experts() -> None:
    x, first, second, bias = _random(5, 4), _random(2, 4, 6, seed=1), _random(2, 6, 3, seed=2), _random(2, 6, seed=3)
    wanted = torch.cat([F.relu(part @ first[n] + bias[n]) @ second[n] for n, part in enumerate(x.split([2, 3]))])
    args = (x.npu(), first.npu(), second.npu(), "relu")
    torch.testing.assert_close(ops.npu_ffn(*args, expert_tokens=[2, 3], bias1=bias.npu()).cpu(), wanted)
    torch.testing.assert_close(ops.npu_ffn(*args, expert_tokens_index=[2, 5], bias1=bias.npu()).cpu(), wanted)
    with pytest.raises(RuntimeError, match="not both"):
        ops.npu_ffn(*args, expert_tokens=[2, 3], expert_tokens_index=[2, 5])
    with pytest.raises(RuntimeError, match="expert_tokens"):
        ops.npu_ffn(*args)
    with pytest.raises(RuntimeError, match="sigmoid"):
        ops.npu_ffn(*args[:3], "sigmoid")


def test_ffn_quantised() -> None:
    x, first, second = _int8(3, 8), _int8(8, 6, seed=1), _int8(6, 4, seed=2)
    deq1, deq2 = torch.rand(6) * 1e-3, torch.rand(4) * 1e-2
    y = ops.npu_ffn(
        x.npu(), first.npu(), second.npu(), "relu", scale=torch.tensor([4.0]).npu(), offset=torch.tensor([-2.0]).npu(),
        deq_scale1=deq1.npu(), deq_scale2=deq2.npu(), output_dtype=torch.bfloat16,
    )  # fmt: skip
    inner = np.maximum(x.double().numpy() @ first.double().numpy() * deq1.double().numpy(), 0)
    middle = np.clip(np.rint(inner * 4 - 2), -128, 127)
    np.testing.assert_allclose(
        y.cpu().double(), middle @ second.double().numpy() * deq2.double().numpy(), rtol=1e-2, atol=0.05
    )
    half, scale = _random(3, 8).half(), (torch.rand(6) * 1e-2).half()
    y = ops.npu_ffn(
        half.npu(), first.npu(), second.npu(), "silu", antiquant_scale1=scale.npu(), antiquant_scale2=(scale[:4]).npu()
    )
    inner = half.double() @ (first.double() * scale.double())
    wanted = F.silu(inner) @ (second.double() * scale[:4].double())
    torch.testing.assert_close(y.cpu().double(), wanted, rtol=5e-3, atol=2e-2)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_graphs_know_their_shapes(kind: int) -> None:
    """Where the group list can not be read every group does all rows: the same numbers."""
    values = LISTS[kind] if kind < 2 else [[2, 3], [0, 2], [1, 0]]
    x, weight, groups = _random(6, 4).npu(), _random(3, 4, 5, seed=1).npu(), torch.tensor(values).npu()

    def rows(one: Tensor, other: Tensor, ends: Tensor) -> Tensor:
        return ops.npu_grouped_matmul(
            [one], [other], group_list=ends, split_item=3, group_type=0, group_list_type=kind
        )[0]

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(one) for one in (x, weight, groups)]
        assert rows(*fakes).shape == (6, 5)
    traced = torch.fx.experimental.proxy_tensor.make_fx(rows, tracing_mode="fake")(x, weight, groups)
    torch.testing.assert_close(traced(x, weight, groups), rows(x, weight, groups))
    if kind == 2:
        return

    def inner(one: Tensor, other: Tensor, ends: Tensor) -> Tensor:
        return ops.npu_grouped_matmul(
            [one], [other], group_list=ends, split_item=3, group_type=2, group_list_type=kind
        )[0]

    args = x[:5].t().contiguous(), _random(5, 2).npu(), groups
    traced = torch.fx.experimental.proxy_tensor.make_fx(inner, tracing_mode="fake")(*args)
    torch.testing.assert_close(traced(*args), inner(*args))


def test_bad_groups() -> None:
    x, weight = _random(5, 4).npu(), _random(3, 4, 2).npu()

    def call(**options: object) -> object:
        return ops.npu_grouped_matmul([x], [weight], **{"split_item": 3, "group_type": 0, **options})

    with pytest.raises(RuntimeError, match="needs group_list"):
        call()
    with pytest.raises(RuntimeError, match="in a dimension of 5"):
        call(group_list=torch.tensor([2, 2, 6]).npu())
    with pytest.raises(RuntimeError, match="in a dimension of 5"):
        call(group_list=torch.tensor([3, 2, 5]).npu())
    with pytest.raises(RuntimeError, match="3 groups"):
        call(group_list=torch.tensor([2, 5]).npu())
    with pytest.raises(RuntimeError, match="group_type"):
        call(group_list=torch.tensor([2, 2, 5]).npu(), group_type=1)
    with pytest.raises(RuntimeError, match="split_item"):
        call(group_list=torch.tensor([2, 2, 5]).npu(), split_item=4)
    with pytest.raises(NotImplementedError, match="activation"):
        call(group_list=torch.tensor([2, 2, 5]).npu(), activation_input=[x])
