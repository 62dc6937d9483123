"""MX quantisation of norms, units, groups and squares, and quantisation by search, against loops over blocks."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

torch_npu.operators.register()
ops = torch.ops.npu
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
LIMITS = {E4M3: (448.0, 8), E5M2: (57344.0, 15)}


def rand(*shape: int, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=made) * torch.exp2(torch.randint(-6, 7, shape, generator=made))


def exponent(block: Tensor, dtype: torch.dtype, algorithm: int = 0) -> int:
    """Of the scale of one block: that of its largest value less the type's, or the least that keeps all values in the range."""
    top, (limit, highest) = float(block.abs().max()), LIMITS[dtype]
    if top == 0:
        return -127
    return math.ceil(math.log2(top / limit)) if algorithm else math.floor(math.log2(top)) - highest


def cast(values: Tensor, dtype: torch.dtype) -> Tensor:
    limit = LIMITS[dtype][0]
    return values.clamp(-limit, limit).to(dtype)


def rows_quantised(x: Tensor, dtype: torch.dtype, algorithm: int = 0) -> tuple[Tensor, Tensor]:
    """Blocks of 32 along the last dimension of a matrix: values, exponents [rows, blocks]."""
    blocks = -(-x.shape[1] // 32)
    result = torch.tensor(
        [[exponent(x[r, 32 * b : 32 * b + 32], dtype, algorithm) for b in range(blocks)] for r in range(x.shape[0])]
    )
    each = result.repeat_interleave(32, 1)[:, : x.shape[1]]
    return cast(x * torch.exp2(-each.float()), dtype), result


def same(found: Tensor, wanted: Tensor) -> None:
    assert found.dtype == wanted.dtype and torch.equal(found.cpu().float(), wanted.float())


def codes(scale: Tensor) -> Tensor:
    assert scale.dtype == torch.float8_e8m0fnu
    return scale.cpu().view(torch.uint8).int() - 127


@pytest.mark.parametrize("algorithm", [0, 1])
@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_both_ways_to_find_a_scale(dtype: torch.dtype, algorithm: int) -> None:
    x = rand(3, 70)
    x[0, :32] = 0
    x[1, 0], x[1, 1:32] = 448.0 * 4, 0.0
    y, scale = ops.npu_dynamic_mx_quant(x.npu(), dst_type=292 if dtype == E4M3 else 291, scale_alg=algorithm)
    values, wanted = rows_quantised(x, dtype, algorithm)
    same(y, values)
    assert torch.equal(codes(scale).flatten(1)[:, :3], wanted)
    if algorithm:
        back = values.float() * torch.exp2(wanted.float()).repeat_interleave(32, 1)[:, :70]
        assert ((back - x).abs() <= x.abs() * (1 / 16 if dtype == E4M3 else 1 / 8) + 1e-3).all()  # nothing saturates


@pytest.mark.parametrize("half", [torch.float32, torch.bfloat16])
def test_norms_are_quantised_by_their_formula(half: torch.dtype) -> None:
    x1, x2 = rand(4, 64).to(half), rand(4, 64, seed=1).to(half)
    gamma, beta = rand(64, seed=2), rand(64, seed=3)
    y, total, scale, rstd = ops.npu_add_rms_norm_dynamic_mx_quant(
        x1.npu(), x2.npu(), gamma.to(half).npu(), beta=beta.to(half).npu(), epsilon=1e-3, dst_type=292
    )
    same(total, x1 + x2)
    x = (x1 + x2).float()
    inverse = torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-3)
    torch.testing.assert_close(rstd.cpu(), inverse)
    norm = x * inverse * gamma.to(half).float() + beta.to(half).float()
    values, wanted = rows_quantised(norm, E4M3)
    assert torch.equal(codes(scale).flatten(1), wanted)
    assert (y.cpu().float() != values.float()).float().mean() < 0.02  # a last bit of the norm may fall the other way
    again = ops.npu_rms_norm_dynamic_mx_quant(
        total, gamma.to(half).npu(), beta=beta.to(half).npu(), epsilon=1e-3, dst_type=292
    )
    for one, expected in zip(again, (y, scale, rstd), strict=True):
        assert torch.equal(one.float(), expected.float())
    with pytest.raises(NotImplementedError, match="no dtype"):
        ops.npu_rms_norm_dynamic_mx_quant(x.npu(), gamma.npu())


@pytest.mark.parametrize("ends", [[40, 40, 145], [64, 128, 150], [1, 2, 3], [150, 150, 150]])
def test_groups_of_rows(ends: list[int]) -> None:
    x = rand(150, 5)
    y, scale = ops.npu_grouped_dynamic_mx_quant(x.npu(), torch.tensor(ends, dtype=torch.int32).npu(), dst_type=292)
    assert scale.shape == (150 // 64 + 3, 5, 2)
    result = codes(scale)
    for group, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start == end:
            continue
        values, wanted = rows_quantised(x[start:end].t(), E4M3)
        same(y[start:end], values.t())
        place = start // 64 + group
        stretch = result[place : place + -(-wanted.shape[1] // 2)].permute(1, 0, 2).flatten(1)
        assert torch.equal(stretch[:, : wanted.shape[1]], wanted)
    assert not y[ends[-1] :].cpu().float().any()


@pytest.mark.parametrize("shape", [(64, 96), (2, 40, 70)])
def test_square_blocks(shape: tuple[int, ...]) -> None:
    x = rand(*shape)
    y, first, second = ops.npu_dynamic_block_mx_quant(x.npu().bfloat16(), dst_type=292, scale_alg=1)
    x = x.bfloat16().float()
    rows, columns = shape[-2:]
    pairs = -(-columns // 64), -(-rows // 64)
    assert first.shape == (*shape[:-1], pairs[0], 2) and second.shape == (*shape[:-2], pairs[1], columns, 2)
    for lead in range(x[..., 0, 0].numel()):
        matrix, values = x.view(-1, rows, columns)[lead], y.cpu().view(-1, rows, columns)[lead]
        along = codes(first).view(-1, rows, pairs[0] * 2)[lead]
        across = codes(second).view(-1, pairs[1], columns, 2)[lead].permute(1, 0, 2).flatten(1)
        for r in range(0, rows, 32):
            for c in range(0, columns, 32):
                block = (slice(r, r + 32), slice(c, c + 32))
                wanted = exponent(matrix[block], E4M3, 1)
                same(values[block], cast(matrix[block] * 2.0**-wanted, E4M3))
                assert set(along[r : r + 32, c // 32].tolist()) == set(across[c : c + 32, r // 32].tolist()) == {wanted}


@pytest.mark.parametrize("left", [True, False])
def test_unit_and_its_gradient_along_both_axes(left: bool) -> None:
    x = rand(64, 128).double().requires_grad_()
    a, b = x.chunk(2, 1)
    y = a * torch.sigmoid(a) * b if left else a * b * torch.sigmoid(b)
    grad = rand(64, 64, seed=1).double()
    (dx,) = torch.autograd.grad(y, x, grad)
    moved = x.detach().float().npu()
    forward = ops.npu_swiglu_mx_quant_with_dual_axis(moved, activate_left=left)
    backward = ops._npu_swiglu_backward_mx_quant_with_dual_axis(moved, grad.float().npu(), activate_left=left)
    for found, wanted in ((forward, y.detach().float()), (backward, dx.float())):
        for values, scale, matrix in (
            (found[0].cpu(), codes(found[1]), wanted),
            (found[2].cpu().t(), codes(found[3]).transpose(0, 1), wanted.t()),
        ):
            expected, exponents = rows_quantised(matrix, E4M3, 1)
            assert (scale.flatten(1) != exponents).float().mean() < 0.01 and (
                values.float() != expected.float()
            ).float().mean() < 0.02
    with pytest.raises(NotImplementedError, match="group_index"):
        ops.npu_swiglu_mx_quant_with_dual_axis(moved, group_index=torch.tensor([64]).npu())


def test_shapes_of_fake_tensors() -> None:
    x, ends = rand(130, 64).npu(), torch.tensor([70, 130]).npu()
    with FakeTensorMode() as mode:
        fake, index = mode.from_tensor(x), mode.from_tensor(ends)
        y, scale = ops.npu_grouped_dynamic_mx_quant(fake, index)
        square = ops.npu_dynamic_block_mx_quant(fake, dst_type=291)
        unit = ops.npu_swiglu_mx_quant_with_dual_axis(fake)
    assert y.shape == (130, 64) and y.dtype == E5M2 and scale.shape == (4, 64, 2)
    assert [one.shape for one in square] == [(130, 64), (130, 1, 2), (3, 64, 2)]
    assert [one.shape for one in unit] == [(130, 32), (130, 1, 2), (130, 32), (3, 32, 2)]


def test_largest_magnitude() -> None:
    x = rand(5, 7)
    y, top = ops.npu_quant_max(x.npu(), torch.tensor([3.0]).npu(), dst_dtype=292)
    same(y, cast(x * 3, E4M3))
    assert top.tolist() == [x.abs().max().item()]
    assert ops.npu_quant_max(x.half().npu(), torch.tensor([3.0]).npu())[1].dtype == torch.half
    with pytest.raises(RuntimeError, match="one scale"):
        ops.npu_quant_max(x.npu(), torch.ones(2).npu())
    with pytest.raises(NotImplementedError, match="group_list"):
        ops.npu_quant_max(x.npu(), torch.ones(1).npu(), group_list=torch.tensor([5]).npu())


def search(data: Tensor, low: float, high: float, ratios: list[float], offset: bool) -> tuple[float, float]:
    """The candidate with the least error, one by one."""
    best = (math.inf, 0.0, 0.0)
    for ratio in ratios:
        scale = (high - low) * ratio / 255 if offset else max(abs(low), abs(high)) * ratio / 127
        zero = round(-128 - low * ratio / scale) if offset else 0
        made = ((data.double() / scale + zero).round().clamp(-128, 127) - zero) * scale
        error = float((made - data.double()).square().sum())
        if error < best[0] * (1 - 1e-6):
            best = (error, scale, float(zero))
    return best[1:]


@pytest.mark.parametrize("offset", [True, False])
def test_search_for_the_least_error(offset: bool) -> None:
    data = torch.randn(4000, generator=torch.Generator().manual_seed(0)) + (0.5 if offset else 0)
    data[0], data[1] = 60.0, -20.0  # what the percentiles leave out
    low, high = data.min().reshape(1), data.max().reshape(1)
    bins = torch.histc(data, bins=256, min=float(low), max=float(high)).cumsum(0).int()
    options = (0.999, 0.999, 0.7, 1.3, 0.01, offset)
    result = ops.npu_ifmr(data.npu(), low.npu(), high.npu(), bins.npu(), *options)
    width = float(high - low) / 256
    first = next(i for i in range(256) if bins[i] >= 0.001 * 4000)
    last = next(i for i in range(256) if bins[i] >= 0.999 * 4000)
    bottom, top = float(low) + first * width, float(low) + (last + 1) * width
    wanted = search(data, min(bottom, 0), max(top, 0), [0.7 + 0.01 * i for i in range(61)], offset)
    assert result[0].shape == () and top < 10
    assert math.isclose(float(result[0]), wanted[0], rel_tol=1e-5) and float(result[1]) == wanted[1]
    with pytest.raises(RuntimeError, match="the search goes"):
        ops.npu_ifmr(data.npu(), low.npu(), high.npu(), bins.npu(), 0.9, 0.9, 1.3, 0.7, 0.01, offset)
    with pytest.raises(RuntimeError, match="max_percentile must be"):
        ops.npu_ifmr(data.npu(), low.npu(), high.npu(), bins.npu(), 0.9, 0.2, 0.7, 1.3, 0.01, offset)


def test_bad_arguments() -> None:
    x = rand(64, 64).npu()
    with pytest.raises(NotImplementedError, match="scale_alg 2"):
        ops.npu_dynamic_block_mx_quant(x, dst_type=292, scale_alg=2)
    with pytest.raises(NotImplementedError, match="no dtype"):
        ops.npu_dynamic_block_mx_quant(x)
    with pytest.raises(RuntimeError, match="blocksize must be 32"):
        ops.npu_grouped_dynamic_mx_quant(x, torch.tensor([64]).npu(), blocksize=64)
    with pytest.raises(RuntimeError, match="must be \\[rows, columns\\]"):
        ops.npu_grouped_dynamic_mx_quant(x[0], torch.tensor([64]).npu())
    with pytest.raises(NotImplementedError, match="round_mode"):
        ops.npu_swiglu_mx_quant_with_dual_axis(x, round_mode="floor")
