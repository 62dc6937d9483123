"""torch.ops.npu: quantised products and convolutions against loops and float64 formulas written here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

ops = torch.ops.npu


def _int8(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(-128, 128, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _sums(a: Tensor, b: Tensor) -> np.ndarray:
    return a.cpu().numpy().astype(np.int64) @ b.cpu().numpy().astype(np.int64)


def _rint(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), -128, 127)


def _close(found: Tensor, wanted: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.cpu().double().numpy(), wanted, rtol=rtol, atol=atol)


def test_quant_matmul_sums_exactly() -> None:
    """Sums beyond what float32 can count: 4096 products of extremes."""
    x1 = torch.full((2, 4096), -128, dtype=torch.int8)
    x2 = torch.full((4096, 3), 127, dtype=torch.int8)
    x1[0, 0], x2[7, 1] = 1, 0
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), torch.ones(1).npu(), output_dtype=torch.int32)
    assert y.dtype == torch.int32
    np.testing.assert_array_equal(y.cpu().numpy(), _sums(x1, x2))
    bias = torch.tensor([5, -6, 7], dtype=torch.int32)
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), torch.ones(1).npu(), bias=bias.npu(), output_dtype=torch.int32)
    np.testing.assert_array_equal(y.cpu().numpy(), _sums(x1, x2) + bias.numpy())


def test_quant_matmul_broadcasts_its_batches() -> None:
    x1, x2 = _int8(2, 1, 3, 8), _int8(4, 8, 5, seed=1)
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), torch.ones(1).npu(), output_dtype=torch.int32)
    assert y.shape == (2, 4, 3, 5)
    np.testing.assert_array_equal(y.cpu().numpy(), _sums(x1, x2))
    empty = ops.npu_quant_matmul(x1[:0].npu(), x2.npu(), torch.ones(1).npu(), output_dtype=torch.int32)
    assert empty.shape == (0, 4, 3, 5) and empty.dtype == torch.int32


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("output", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("packed", [False, True])
def test_quant_matmul(batch: tuple[int, ...], output: torch.dtype, packed: bool) -> None:
    x1, x2 = _int8(*batch, 5, 32), _int8(*batch, 32, 6, seed=1)
    scale, row = torch.rand(6) * 1e-3, torch.rand(5)
    whole = torch.randint(-(10**5), 10**5, (6,), dtype=torch.int32)
    given = ops.npu_trans_quant_param(scale.npu()) if packed else scale.npu()
    factor = scale.numpy()
    if packed:
        factor = (factor.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    rtol = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 1e-6}[output]
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), given, pertoken_scale=row.npu(), bias=whole.npu(), output_dtype=output)
    assert y.dtype == output
    wanted = (_sums(x1, x2) + whole.numpy()) * factor.astype(np.float64)
    _close(y, wanted * row.double().numpy()[:, None], rtol, 1e-4)
    shift = _random(6)
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), given, bias=shift.npu(), output_dtype=output)
    _close(y, _sums(x1, x2) * factor.astype(np.float64) + shift.double().numpy(), rtol, 1e-4)


def test_quant_matmul_to_int8() -> None:
    x1, x2 = _int8(4, 16), _int8(16, 5, seed=2)
    scale, offset = torch.full((5,), 2.0**-10), torch.tensor([0.0, 3, -4, 5, 100])
    wanted = _rint(_sums(x1, x2) * 2.0**-10 + offset.numpy())
    y = ops.npu_quant_matmul(x1.npu(), x2.npu(), scale.npu(), offset=offset.npu())
    assert y.dtype == torch.int8
    _close(y, wanted)
    _close(ops.npu_quant_matmul(x1.npu(), x2.npu(), ops.npu_trans_quant_param(scale.npu(), offset.npu())), wanted)
    with pytest.raises(RuntimeError, match="offset"):
        ops.npu_quant_matmul(x1.npu(), x2.npu(), scale.npu(), offset=offset.npu(), output_dtype=5)


@pytest.mark.parametrize("turned", [False, True])
def test_quant_matmul_of_packed_int4(turned: bool) -> None:
    x1 = torch.randint(-8, 8, (3, 16), dtype=torch.int32)
    x2 = torch.randint(-8, 8, (16, 24), dtype=torch.int32)
    left = ops.npu_convert_weight_to_int4pack(x1.npu())
    right = ops.npu_convert_weight_to_int4pack((x2.t() if turned else x2).contiguous().npu())
    y = ops.npu_quant_matmul(
        left, right.t() if turned else right, torch.full((24,), 0.5).npu(), output_dtype=torch.float32
    )
    _close(y, _sums(x1, x2) * 0.5)


def test_quant_matmul_of_float8_and_of_blocks() -> None:
    x1, x2 = _random(4, 8).to(torch.float8_e4m3fn), _random(8, 6, seed=1).to(torch.float8_e4m3fn)
    row, column = torch.rand(4), torch.rand(6)
    left, right = x1.double().numpy(), x2.double().numpy()
    y = ops.npu_quant_matmul(
        x1.npu(), x2.npu(), column.npu(), pertoken_scale=row.npu(), output_dtype=torch.float32, x1_dtype=292
    )
    _close(y, left @ right * column.double().numpy() * row.double().numpy()[:, None])
    s1, s2 = torch.rand(4, 2), torch.rand(2, 3)
    y = ops.npu_quant_matmul(
        x1.npu(), x2.npu(), s2.npu(), pertoken_scale=s1.npu(), output_dtype=torch.float32, group_sizes=[1, 2, 4]
    )
    wanted = np.zeros((4, 6))
    for m in range(4):
        for n in range(6):
            for k in range(8):
                wanted[m, n] += left[m, k] * float(s1[m, k // 4]) * right[k, n] * float(s2[k // 4, n // 2])
    _close(y, wanted)
    grown = ops.npu_add_quant_matmul(torch.ones(4, 6).npu(), x1.npu(), x2.npu(), column.npu())
    _close(grown, 1 + left @ right * column.double().numpy())
    target = torch.ones(4, 6).npu()
    assert ops.npu_add_quant_matmul_(target, x1.npu(), x2.npu(), column.npu()) is target
    assert torch.equal(target, grown)


def test_quant_matmul_of_mx() -> None:
    a, b = _random(3, 96), _random(96, 5, seed=1)
    x1, s1 = ops.npu_dynamic_mx_quant(a.npu(), dst_type=24)
    x2, s2 = ops.npu_dynamic_mx_quant(b.npu(), axis=0, dst_type=24)
    y = ops.npu_quant_matmul(
        x1, x2, s2, pertoken_scale=s1, output_dtype=torch.float32, group_sizes=[1, 1, 32], pertoken_scale_dtype=293
    )
    codes1, codes2 = (one.cpu().view(torch.uint8).numpy().astype(np.float64) - 127 for one in (s1, s2))
    wanted = np.zeros((3, 5))
    for k in range(96):
        block, half = k // 64, k // 32 % 2
        left = x1[:, k].cpu().double().numpy() * 2.0 ** codes1[:, block, half]
        wanted += np.outer(left, x2[k].cpu().double().numpy() * 2.0 ** codes2[block, :, half])
    _close(y, wanted)
    assert np.abs(wanted - a.double().numpy() @ b.double().numpy()).max() < 1
    with pytest.raises(RuntimeError, match="both factors"):
        ops.npu_quant_matmul(x1, x2, s2, output_dtype=torch.float32)


def test_fused_quant_products() -> None:
    x1, x2 = _int8(2, 3, 16), _int8(2, 16, 4, seed=1)
    row, column = torch.rand(2, 3) * 1e-2, (torch.rand(4) * 1e-2).bfloat16()
    y = ops.npu_quant_matmul_reduce_sum(x1.npu(), x2.npu(), x1_scale=row.npu(), x2_scale=column.npu())
    wanted = sum(_sums(x1[b], x2[b]) * column.double().numpy() * row[b].double().numpy()[:, None] for b in range(2))
    assert y.dtype == torch.bfloat16
    _close(y, wanted, 1e-2, 1e-3)
    y = ops.npu_quant_matmul_gelu(x1[0].npu(), x2[0].npu(), row[0].npu(), column.npu(), approximate="gelu_tanh")
    inner = _sums(x1[0], x2[0]) * column.double().numpy() * row[0].double().numpy()[:, None]
    wanted = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    _close(y, wanted, 1e-2, 1e-3)
    a, b = _random(5, 2, 8).to(torch.float8_e5m2), _random(2, 8, 3, seed=2).to(torch.float8_e5m2)
    scale1, scale2 = torch.rand(5), torch.rand(3)
    y = ops.npu_transpose_quant_batchmatmul(a.npu(), b.npu(), 6, x1_scale=scale1.npu(), x2_scale=scale2.npu())
    for batch in range(2):
        wanted = a[:, batch].double().numpy() @ b[batch].double().numpy()
        _close(y[:, batch], wanted * scale1.double().numpy()[:, None] * scale2.double().numpy())


@pytest.mark.parametrize("group", [0, 32])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("turned", [False, True])
def test_weight_quant_batchmatmul(group: int, bits: int, turned: bool) -> None:
    weight = torch.randint(-8, 8, (64, 16), dtype=torch.int32)
    x, groups = _random(3, 64).half(), 2 if group else 1
    scale = (torch.rand(groups, 16) * 0.1).half()
    offset = torch.randint(-3, 4, (groups, 16)).half()
    given = (weight.t() if turned else weight).contiguous().npu()
    given = ops.npu_convert_weight_to_int4pack(given) if bits == 4 else given.to(torch.int8)
    bias = _random(16, seed=5).half()
    tables = [one if group else one[0] for one in (scale, offset)]
    y = ops.npu_weight_quant_batchmatmul(
        x.npu(),
        given.t() if turned else given,
        tables[0].npu(),
        tables[1].npu(),
        bias=bias.npu(),
        antiquant_group_size=group,
    )
    wanted = np.zeros((3, 16))
    for k in range(64):
        number = k // 32 if group else 0
        column = (weight[k].double() + offset[number].double()) * scale[number].double()
        wanted += x[:, k : k + 1].double().numpy() * column.numpy()
    assert y.dtype == torch.float16
    _close(y, wanted + bias.double().numpy(), 2e-3, 2e-3)


def test_weight_quant_batchmatmul_quantises_its_result() -> None:
    x, weight = _random(3, 8), _int8(8, 4)
    scale = torch.full((4,), 2.0**-5)
    args = (x.npu(), weight.npu(), scale.npu(), None, torch.tensor([4.0] * 4).npu(), torch.tensor([1.0]).npu())
    wanted = _rint((x.double().numpy() @ weight.double().numpy()) * 2.0**-5 * 4 + 1)
    _close(ops.npu_weight_quant_batchmatmul(*args), wanted)
    with pytest.raises(RuntimeError, match="multiple of 32"):
        ops.npu_weight_quant_batchmatmul(*args[:3], antiquant_group_size=12)
    with pytest.raises(RuntimeError, match="does not fit"):
        ops.npu_weight_quant_batchmatmul(x[:, :7].npu(), *args[1:3])


def test_quant_conv2d() -> None:
    x, weight = _int8(1, 4, 5, 6), _int8(6, 2, 3, 3, seed=1)
    scale, bias = torch.rand(6) * 1e-3, torch.randint(-999, 999, (6,), dtype=torch.int32)
    y = ops.npu_quant_conv2d(
        x.npu(), weight.npu(), scale.npu(), [2, 1], [1, 1], [1, 1], 2, 3, "rint", torch.float16, bias.npu()
    )
    padded = np.full((4, 7, 8), 3, np.int64)
    padded[:, 1:-1, 1:-1] = x[0].numpy()
    wanted = np.zeros((1, 6, 3, 6))
    for channel in range(6):
        part = padded[2 * (channel // 3) : 2 * (channel // 3) + 2]
        for row in range(3):
            for column in range(6):
                window = part[:, 2 * row : 2 * row + 3, column : column + 3]
                wanted[0, channel, row, column] = (window * weight[channel].numpy().astype(np.int64)).sum() + int(
                    bias[channel]
                )
    _close(y, wanted * scale.double().numpy()[:, None, None], 1e-3, 1e-3)
    whole = ops.npu_quant_conv2d(
        x.npu(), weight.npu(), scale.npu(), [2, 1], [1, 1], [1, 1], 2, 3, bias=bias.npu(), output_dtype=3
    )
    np.testing.assert_array_equal(whole.cpu().numpy(), wanted)
    with pytest.raises(NotImplementedError, match="round_mode"):
        ops.npu_quant_conv2d(x.npu(), weight.npu(), scale.npu(), groups=2, round_mode="floor")


@pytest.mark.parametrize("smooth", [False, True])
def test_products_that_quantise_their_input(smooth: bool) -> None:
    x, weight, scale = _random(4, 16).half(), _int8(3, 16), torch.rand(3) * 1e-2
    factor = torch.rand(16).half() + 0.5 if smooth else None
    y = ops.npu_quant_matmul_dequant(
        x.npu(), weight.npu(), scale.npu(), smooth_scale=None if factor is None else factor.npu()
    )
    values = x.double().numpy() * (1 if factor is None else factor.double().numpy())
    top = np.abs(values).max(1, keepdims=True) / 127
    rounded = np.rint(values / top)
    wanted = rounded @ weight.double().numpy().T * top * scale.double().numpy()
    _close(y, wanted, 2e-3, 2e-2)
    fixed = ops.npu_quant_matmul_dequant(
        x.npu(), weight.npu(), scale.npu(), x_scale=torch.tensor([0.02]).npu(), quant_mode="pertensor"
    )
    wanted = _rint(x.double().numpy() / 0.02) @ weight.double().numpy().T * 0.02 * scale.double().numpy()
    _close(fixed, wanted, 2e-3, 2e-2)
    both = torch.stack((weight, weight.flip(0)))
    y = ops.npu_quant_grouped_matmul_dequant(
        x.npu(), both.npu(), torch.stack((scale, scale)).npu(), torch.tensor([1, 3]).npu()
    )
    single = ops.npu_quant_matmul_dequant(x.npu(), weight.npu(), scale.npu()).cpu()
    flipped = ops.npu_quant_matmul_dequant(x.npu(), weight.flip(0).npu(), scale.npu()).cpu()
    assert torch.equal(y.cpu(), torch.cat((single[:1], flipped[1:3], torch.zeros(1, 3).half())))


def test_shapes_of_fake_tensors() -> None:
    with FakeTensorMode():
        x1, x2 = (
            torch.empty(2, 3, 16, dtype=torch.int8, device="npu"),
            torch.empty(16, 8, dtype=torch.int8, device="npu"),
        )
        scale = torch.empty(8, device="npu")
        y = ops.npu_quant_matmul(x1, x2, scale, output_dtype=torch.bfloat16)
        assert y.shape == (2, 3, 8) and y.dtype == torch.bfloat16 and y.device.type == "npu"
        y, found = ops.npu_swiglu_quant(torch.empty(4, 16, device="npu"), quant_mode=1)
        assert y.shape == (4, 8) and found.shape == (4,)
        y = ops.npu_weight_quant_batchmatmul(
            torch.empty(3, 16, device="npu"), torch.empty(16, 1, dtype=torch.int32, device="npu"), scale
        )
        assert y.shape == (3, 8)


def test_what_is_refused() -> None:
    x, scale = _int8(4, 8).npu(), torch.ones(8).npu()
    with pytest.raises(NotImplementedError, match="y_scale"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], y_scale=scale)
    with pytest.raises(NotImplementedError, match="296"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], x1_dtype=296)
    with pytest.raises(RuntimeError, match="does not fit"):
        ops.npu_quant_matmul(x, x, scale)
    with pytest.raises(RuntimeError, match="group_sizes"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], group_sizes=[1, 1, 4])


def test_quant_matmul_takes_quantised_factors_only() -> None:
    x, scale = _int8(4, 8).npu(), torch.ones(8).npu()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool):
        with pytest.raises(RuntimeError, match=rf"x1 is {dtype}[\s\S]*int8"):
            ops.npu_quant_matmul(x.to(dtype), x.t(), scale[:4])
        with pytest.raises(RuntimeError, match=rf"x2 is {dtype}[\s\S]*int8"):
            ops.npu_quant_matmul(x, x.t().to(dtype), scale[:4])
        with pytest.raises(RuntimeError, match=f"npu_quant_matmul_gelu: x1 is {dtype}"):
            ops.npu_quant_matmul_gelu(x.to(dtype), x.t(), scale[:4], scale[:4])
    with pytest.raises(RuntimeError, match=r"scale is torch.int32"):
        ops.npu_quant_matmul(x, x.t(), scale[:4].int())
    with pytest.raises(RuntimeError, match=r"pertoken_scale is torch.int64"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], pertoken_scale=scale[:4].long(), output_dtype=torch.float16)
    with pytest.raises(RuntimeError, match=r"bias is torch.int64"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], bias=scale[:4].long())
    with pytest.raises(RuntimeError, match=r"output_dtype torch.int64"):
        ops.npu_quant_matmul(x, x.t(), scale[:4], output_dtype=torch.int64)
