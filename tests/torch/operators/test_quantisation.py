"""torch.ops.npu: quantisation against formulas written here in numpy, value by value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_npu.operators.common.arguments import dtype_of

ops = torch.ops.npu


def _random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def _rint(values: np.ndarray, low: int = -128, high: int = 127) -> np.ndarray:
    return np.clip(np.rint(values), low, high).astype(np.int64)


def _equal(found: Tensor, wanted: np.ndarray) -> None:
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_array_equal(found.cpu().long().numpy(), wanted)


def _close(found: Tensor, wanted: np.ndarray, rtol: float = 1e-5) -> None:
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.cpu().double().numpy(), wanted, rtol=rtol, atol=1e-6)


def _nibbles(packed: Tensor) -> np.ndarray:
    """int4 values of int32, the lowest bits first, by arithmetic on Python integers."""
    flat = packed.cpu().reshape(-1).tolist()
    values = []
    for word in flat:
        for place in range(8):
            digit = ((word & 0xFFFFFFFF) >> (4 * place)) & 15
            values.append(digit - 16 if digit >= 8 else digit)
    return np.array(values).reshape(*packed.shape[:-1], packed.shape[-1] * 8)


@pytest.mark.parametrize(("code", "low", "high"), [(torch.qint8, -128, 127), (torch.quint8, 0, 255), (1, -128, 127)])
@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_along_an_axis(code: object, low: int, high: int, divide: bool, axis: int) -> None:
    x = _random(4, 4, scale=40)
    scale, zero = torch.tensor([0.5, 1, 2, 4]), torch.tensor([3.0, 0, -7, 1])
    y = ops.npu_quantize(x.npu(), scale.npu(), zero.npu(), code, axis, divide)
    shape = (4, 1) if axis == 0 else (1, 4)
    factor, shift = scale.numpy().reshape(shape), zero.numpy().reshape(shape)
    _equal(y, _rint((x.numpy() / factor if divide else x.numpy() * factor) + shift, low, high))
    assert y.device.type == "npu" and y.dtype == (torch.uint8 if low == 0 else torch.int8)


def test_quantize_rounds_half_to_even_and_saturates() -> None:
    x = torch.tensor([[0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9]]).npu()
    one = torch.ones(1).npu()
    assert ops.npu_quantize(x, one, None, torch.qint8).tolist() == [[0, 2, 2, 0, -2, 127, -128]]
    assert ops.npu_quantize(x * 10, one, None, torch.qint32).tolist()[0][-2:] == [2**31 - 1, -(2**31)]


def test_quantize_to_packed_int4() -> None:
    x = _random(3, 16, scale=5).half()
    y = ops.npu_quantize(x.npu(), torch.ones(1).npu(), None, torch.quint4x2, -1, False)
    assert y.dtype == torch.int32 and y.shape == (3, 2)
    np.testing.assert_array_equal(_nibbles(y), _rint(x.double().numpy(), -8, 7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mode", ["pertoken", "perchannel", "pertensor"])
def test_dynamic_quant(dtype: torch.dtype, mode: str) -> None:
    x = _random(2, 5, 16, seed=3).to(dtype)
    y, scale = ops.npu_dynamic_quant(x.npu(), quant_mode=mode)
    axes = {"pertoken": 2, "perchannel": 1, "pertensor": (0, 1, 2)}[mode]
    values = x.double().numpy()
    top = np.abs(values).max(axes, keepdims=True) / 127
    wanted = top.reshape(1) if mode == "pertensor" else top.squeeze(axes)
    _close(scale, wanted)
    assert scale.dtype == torch.float32 and y.dtype == torch.int8
    assert np.abs(y.cpu().numpy() * top - values).max() <= top.max() * 0.5001
    assert np.abs(y.cpu().numpy() - values / top).max() <= 0.5001


def test_dynamic_quant_with_factors_for_groups() -> None:
    """Groups end at rows 2 and 5; the row past the last group is zero."""
    x, smooth = _random(6, 8, seed=1), _random(2, 8, seed=2).abs() + 0.1
    y, scale = ops.npu_dynamic_quant(
        x.npu(), smooth_scales=smooth.npu(), group_index=torch.tensor([2, 5], dtype=torch.int32).npu()
    )
    for row in range(5):
        values = x[row].numpy() * smooth[0 if row < 2 else 1].numpy()
        top = np.abs(values).max() / 127
        assert scale[row].item() == pytest.approx(top, rel=1e-6)
        np.testing.assert_array_equal(y[row].cpu().numpy(), _rint(values / np.float32(top)))
    assert not y[5].any() and scale[5] == 0
    shared, _ = ops.npu_dynamic_quant(x.npu(), smooth_scales=smooth[0].npu())
    torch.testing.assert_close(shared[:2], y[:2])


def test_dynamic_quant_to_int4_and_float8() -> None:
    x = _random(3, 16, seed=5)
    y, scale = ops.npu_dynamic_quant(x.npu(), dst_type=torch.quint4x2)
    top = np.abs(x.numpy()).max(-1) / 7
    _close(scale, top)
    np.testing.assert_array_equal(_nibbles(y), _rint(x.numpy() / top[:, None].astype(np.float32), -8, 7))
    y, scale = ops.npu_dynamic_quant(x.npu(), dst_type=292)
    _close(scale, np.abs(x.numpy()).max(-1) / 448)
    assert y.dtype == torch.float8_e4m3fn and np.abs(y.cpu().float().numpy()).max() == 448
    assert np.abs(y.cpu().float().numpy() * scale.cpu().numpy()[:, None] - x.numpy()).max() < 0.07 * x.abs().max()
    zero, nothing = ops.npu_dynamic_quant(torch.zeros(2, 8).npu())
    assert not zero.any() and not nothing.any()


def test_dynamic_quant_asymmetric() -> None:
    x = _random(4, 8, seed=7) + 3
    y, scale, offset = ops.npu_dynamic_quant_asymmetric(x.npu())
    values = x.double().numpy()
    wanted = (values.max(-1) - values.min(-1)) / 255
    _close(scale, wanted)
    _close(offset, 127 - values.max(-1) / wanted, rtol=1e-4)
    back = (y.cpu().numpy() - offset.cpu().numpy()[:, None]) * scale.cpu().numpy()[:, None]
    assert np.abs(back - values).max() <= wanted.max() * 0.51
    assert y.cpu().amax(-1).tolist() == [127] * 4 and y.cpu().amin(-1).tolist() == [-128] * 4
    one, single, shift = ops.npu_dynamic_quant_asymmetric(x.npu(), quant_mode="pertensor")
    assert one.shape == x.shape and single.shape == shift.shape == (1,)


def test_anti_quant() -> None:
    x = torch.randint(-128, 128, (3, 8), dtype=torch.int8)
    scale, offset = torch.rand(8), torch.randint(-5, 5, (8,)).float()
    y = ops.npu_anti_quant(x.npu(), scale.npu(), offset=offset.npu())
    assert y.dtype == torch.float16
    _close(y, (x.numpy() + offset.numpy()) * scale.numpy().astype(np.float64), rtol=1e-3)
    packed = ops.npu_convert_weight_to_int4pack(torch.arange(-8, 8, dtype=torch.int32).reshape(2, 8).npu())
    y = ops.npu_anti_quant(packed, torch.tensor([2.0]).npu(), dst_dtype=torch.bfloat16, src_dtype=torch.quint4x2)
    assert y.dtype == torch.bfloat16 and y.cpu().reshape(-1).tolist() == [2.0 * one for one in range(-8, 8)]
    with pytest.raises(RuntimeError, match="src_dtype"):
        ops.npu_anti_quant(x.npu(), scale.npu(), src_dtype=torch.quint4x2)


def test_int4_pack_puts_the_first_value_lowest() -> None:
    values = torch.tensor([[1, 2, 3, 4, 5, 6, 7, -8]], dtype=torch.int32)
    packed = torch_npu.npu_convert_weight_to_int4pack(values.npu())
    assert packed.tolist() == [[0x87654321 - 2**32]]
    np.testing.assert_array_equal(_nibbles(packed), values.numpy())
    with pytest.raises(RuntimeError, match="multiple of 8"):
        ops.npu_convert_weight_to_int4pack(values[:, :7].npu())
    with pytest.raises(NotImplementedError, match="float4"):
        ops.npu_convert_weight_to_int4pack(values.float().npu())


def test_trans_quant_param_bit_by_bit() -> None:
    scale, offset = torch.tensor([0.1, 1.0, 3.14159, 1e-8]), torch.tensor([-3.0, 300.0, 2.5, -999.0])
    packed = ops.npu_trans_quant_param(scale.npu(), offset.npu())
    assert packed.dtype == torch.int64
    for one, number, word in zip(scale.numpy(), [-3, 255, 2, -256], packed.tolist(), strict=True):
        assert word & 0xFFFFFFFF == int(one.view(np.uint32)) & 0xFFFFE000
        field = (word >> 37) & 0x1FF
        assert (field - 512 if field >= 256 else field) == number
        assert word >> 46 == 1
    near = ops.npu_trans_quant_param(scale.npu(), round_mode=1).cpu() & 0xFFFFFFFF
    kept = near.to(torch.int32).view(torch.float32)
    assert ((kept - scale).abs() <= scale * 2.0**-11).all() and not (near & 0x1FFF).any()


def test_dequant_bias() -> None:
    x = torch.randint(-(2**20), 2**20, (3, 4), dtype=torch.int32)
    weight, row = torch.rand(4) * 1e-3, torch.rand(3)
    whole = torch.randint(-100, 100, (4,), dtype=torch.int32)
    y = ops.npu_dequant_bias(x.npu(), weight.npu(), row.npu(), whole.npu(), output_dtype=torch.float32)
    wanted = (x + whole).double().numpy() * weight.double().numpy() * row.double().numpy()[:, None]
    _close(y, wanted, rtol=1e-5)
    y = ops.npu_dequant_bias(x.npu(), weight.npu(), None, weight.npu())
    assert y.dtype == torch.float16
    _close(y, x.double().numpy() * weight.double().numpy() + weight.double().numpy(), rtol=2e-3)


def test_group_quant() -> None:
    x, scale = _random(5, 8, scale=20), torch.rand(3, 8) + 0.5
    ends = torch.tensor([1, 1, 4])
    y = ops.npu_group_quant(x.npu(), scale.npu(), ends.npu(), offset=torch.tensor([2.0]).npu())
    rows = [scale[number].numpy() for number in (0, 2, 2, 2)]
    for row, factor in enumerate(rows):
        np.testing.assert_array_equal(y[row].cpu().numpy(), _rint(x[row].numpy() * factor + 2))
    assert not y[4].any()


@pytest.mark.parametrize("by_pairs", [False, True])
def test_quant_scatter(by_pairs: bool) -> None:
    cache = torch.randint(-9, 9, (2, 3, 8, 4), dtype=torch.int8)
    updates, scale, zero = _random(2, 3, 1, 4, scale=10), torch.rand(4) + 0.2, torch.tensor([1.0, 0, -1, 4])
    starts = [(0, 5), (0, 2)] if by_pairs else [(0, 6), (1, 0)]
    indices = torch.tensor(starts if by_pairs else [one[1] for one in starts], dtype=torch.int32)
    wanted = cache.numpy().copy()
    for number, (batch, start) in enumerate(starts):
        wanted[batch, :, start] = _rint(updates[number, :, 0].numpy() / scale.numpy() + zero.numpy())
    given = cache.npu()
    y = ops.npu_quant_scatter(given, indices.npu(), updates.npu(), scale.npu(), zero.npu())
    _equal(y, wanted)
    _equal(given, cache.numpy())
    assert ops.npu_quant_scatter_(given, indices.npu(), updates.npu(), scale.npu(), zero.npu()) is given
    _equal(given, wanted)
    with pytest.raises(RuntimeError, match="reduce"):
        ops.npu_quant_scatter(given, indices.npu(), updates.npu(), scale.npu(), reduce="add")


@pytest.mark.parametrize("code", [1, 291, 292])
def test_dynamic_block_quant(code: int) -> None:
    x = _random(5, 20, seed=9)
    y, scale = ops.npu_dynamic_block_quant(x.npu(), dst_type=code, row_block_size=2, col_block_size=8)
    assert scale.shape == (3, 3) and y.shape == x.shape
    high = {1: 127, 291: 57344, 292: 448}[code]
    for row in range(3):
        for column in range(3):
            block = x[2 * row : 2 * row + 2, 8 * column : 8 * column + 8].double().numpy()
            top = np.abs(block).max() / high
            assert scale[row, column].item() == pytest.approx(top, rel=1e-6)
            back = y[2 * row : 2 * row + 2, 8 * column : 8 * column + 8].cpu().double().numpy() * top
            assert np.abs(back - block).max() <= np.abs(block).max() * (0.005 if code == 1 else 0.13)
    _, floor = ops.npu_dynamic_block_quant(torch.zeros(2, 8).npu(), min_scale=0.25)
    assert floor.min() == 0.25


def _mx(values: np.ndarray, top_exponent: int) -> tuple[float, np.ndarray]:
    top = np.abs(values).max()
    exponent = -127 if top == 0 else int(np.floor(np.log2(top))) - top_exponent
    return exponent, values / 2.0**exponent


@pytest.mark.parametrize(("code", "top"), [(23, 15), (24, 8)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_mx_quant_and_back(code: int, top: int, axis: int) -> None:
    x = _random(70, 70, seed=4, scale=3)
    x[:32, :32] = 0
    y, scale = ops.npu_dynamic_mx_quant(x.npu(), axis=axis, dst_type=code)
    assert scale.dtype == torch.float8_e8m0fnu and scale.shape == ((70, 2, 2) if axis == -1 else (2, 70, 2))
    kind = torch.float8_e5m2 if code == 23 else torch.float8_e4m3fn
    limit = torch.finfo(kind).max
    lines = x if axis == -1 else x.t()
    result = (y if axis == -1 else y.t()).cpu()
    for row in (0, 40, 69):
        codes = scale.cpu().view(torch.uint8)
        codes = codes[row].reshape(-1) if axis == -1 else codes[:, row].reshape(-1)
        for block in range(3):
            exponent, values = _mx(lines[row, 32 * block : 32 * block + 32].double().numpy(), top)
            assert codes[block].item() == exponent + 127
            wanted = torch.from_numpy(values).clamp(-limit, limit).float().to(kind)
            assert torch.equal(result[row, 32 * block : 32 * block + 32].float(), wanted.float())
    back = ops.npu_anti_mx_quant(y, scale, axis=axis, dst_type=6, src_type=code).cpu()
    assert ((back - x).abs() <= 0.13 * x.abs() + 1e-3).all()
    with pytest.raises(NotImplementedError, match="296"):
        ops.npu_dynamic_mx_quant(x.npu())


def test_kronecker_and_rotate_quant() -> None:
    x, p1, p2 = _random(3, 4, 8), _random(4, 4, seed=1), _random(8, 8, seed=2)
    y, scale = ops.npu_kronecker_quant(x.npu(), p1.npu(), p2.npu(), 0.8)
    turned = np.stack([p1.double().numpy() @ one.double().numpy() @ p2.double().numpy() for one in x])
    wanted = np.abs(turned).max((1, 2)) * 0.8 / 7
    _close(scale, wanted)
    np.testing.assert_array_equal(_nibbles(y), _rint(turned / wanted[:, None, None], -8, 7))
    y, scale = ops.npu_rotate_quant(x[0].npu(), p1.npu())
    blocks = np.concatenate(
        [x[0, :, :4].double().numpy() @ p1.double().numpy(), x[0, :, 4:].double().numpy() @ p1.double().numpy()], 1
    )
    _close(scale, np.abs(blocks).max(1) / 127)
    _equal(y, _rint(blocks / np.abs(blocks).max(1, keepdims=True) * 127))


def test_quantize_impl_writes_its_result() -> None:
    x, result = _random(3, 4, scale=9), torch.empty(3, 4, dtype=torch.int8).npu()
    scale, zero = torch.tensor([0.5, 1, 2, 4]), torch.tensor([0, 1, 2, 3])
    assert ops._quantize_per_channel_impl(x.npu(), scale.npu(), zero.npu(), 1, torch.qint8, result=result) is result
    _equal(result, _rint(x.numpy() / scale.numpy() + zero.numpy()))
    ops._quantize_per_tensor_impl(x.npu(), scale[:1].npu(), zero[1:2].npu(), torch.qint8, result=result)
    _equal(result, _rint(x.numpy() / 0.5 + 1))
    with pytest.raises(RuntimeError, match="result of"):
        ops._quantize_per_tensor_impl(x.npu(), scale[:1].npu(), zero[:1].npu(), torch.quint8, result=result)


def test_codes_of_types() -> None:
    """Numbers below 256 are torch's own, the others those of ACL."""
    codes = {
        1: torch.int8,
        14: torch.qint32,
        27: torch.uint16,
        28: torch.uint32,
        29: torch.uint64,
        293: torch.float8_e8m0fnu,
    }
    assert {code: dtype_of(code) for code in codes} == codes


def test_shapes_of_fake_tensors() -> None:
    with FakeTensorMode():
        x = torch.empty(3, 5, 16, device="npu")
        y, scale = ops.npu_dynamic_quant(x, dst_type=16)
        assert y.shape == (3, 5, 2) and scale.shape == (3, 5) and y.dtype == torch.int32
        y, scale = ops.npu_dynamic_mx_quant(x, dst_type=24)
        assert y.shape == x.shape and scale.shape == (3, 5, 1, 2)
        assert ops.npu_trans_quant_param(torch.empty(4, device="npu")).dtype == torch.int64


def test_what_is_refused() -> None:
    x = _random(2, 8).npu()
    for code in (290, 296, 297):
        with pytest.raises(NotImplementedError, match=str(code)):
            ops.npu_dynamic_quant(x, dst_type=code)
    with pytest.raises(NotImplementedError, match="hifloat8"):
        ops.npu_dynamic_quant(x, dst_type_max=15.0)
    with pytest.raises(RuntimeError, match="quant_mode"):
        ops.npu_dynamic_quant(x, quant_mode="perhead")
    with pytest.raises(RuntimeError, match="along dimension"):
        ops.npu_quantize(x, torch.ones(3).npu(), None, torch.qint8)
    with pytest.raises(NotImplementedError, match="round_mode"):
        ops.npu_dynamic_block_quant(x, round_mode="floor")
    with pytest.raises(NotImplementedError, match="npu_matmul_compress_dequant"):
        ops.npu_matmul_compress_dequant(x, x, x, x, x)
