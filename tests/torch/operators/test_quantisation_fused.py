"""torch.ops.npu: gated units and norms with quantised results, against float64 formulas written here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor

ops = torch.ops.npu


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _close(found: Tensor, wanted: np.ndarray, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.cpu().double().numpy(), wanted, rtol=rtol, atol=atol)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind", [0, 1])
def test_swiglu_quant_per_group(left: bool, kind: int) -> None:
    x, smooth = _random(6, 16), torch.rand(2, 8) + 0.5
    groups = torch.tensor([2, 5] if kind == 0 else [2, 3], dtype=torch.int32)
    y, scale = ops.npu_swiglu_quant(
        x.npu(),
        smooth_scales=smooth.npu(),
        group_index=groups.npu(),
        activate_left=left,
        quant_mode=1,
        group_list_type=kind,
    )
    a, b = x.double().numpy()[:, :8], x.double().numpy()[:, 8:]
    gated = _silu(a) * b if left else a * _silu(b)
    gated[:5] *= smooth.double().numpy()[[0, 0, 1, 1, 1]]
    top = np.abs(gated).max(1) / 127
    top[5] = 0
    _close(scale, top)
    wanted = np.rint(gated[:5] / top[:5, None])
    assert np.abs(y[:5].cpu().numpy() - wanted).max() <= 1 and (y[:5].cpu().numpy() != wanted).mean() < 0.05
    assert not y[5].any() and y.dtype == torch.int8
    y, _ = ops.npu_swiglu_quant(
        x.npu(), smooth_scales=(smooth * 40).npu(), offsets=smooth.npu(), group_index=groups.npu(),
        activate_left=left, group_list_type=kind,
    )  # fmt: skip
    chosen = smooth.double().numpy()[[0, 0, 1, 1, 1]]
    plain = (_silu(a) * b if left else a * _silu(b))[:5]
    assert np.abs(y[:5].cpu().numpy() - np.clip(plain * 40 * chosen + chosen, -128, 127)).max() <= 0.501


def test_dequant_swiglu_quant() -> None:
    x = torch.randint(-5000, 5000, (5, 16), dtype=torch.int32)
    weight, row, quant = torch.rand(2, 16) * 1e-3, torch.rand(5), torch.rand(2, 8) + 0.5
    whole = torch.randint(-900, 900, (2, 16), dtype=torch.int32)
    counts = torch.tensor([2, 2])
    y, scale = ops.npu_dequant_swiglu_quant(
        x.npu(), weight_scale=weight.npu(), activation_scale=row.npu(), bias=whole.npu(), quant_scale=quant.npu(),
        group_index=counts.npu(), activate_left=True, quant_mode=1,
    )  # fmt: skip
    member = [0, 0, 1, 1]
    numbers = (
        (x[:4].double().numpy() + whole.numpy()[member])
        * weight.double().numpy()[member]
        * row.double().numpy()[:4, None]
    )
    gated = _silu(numbers[:, :8]) * numbers[:, 8:] * quant.double().numpy()[member]
    top = np.abs(gated).max(1) / 127
    _close(scale[:4], top)
    assert np.abs(y[:4].cpu().numpy() - gated / top[:, None]).max() <= 0.501 and not y[4].any() and scale[4] == 0
    y, _ = ops.npu_dequant_swiglu_quant(
        x.npu(),
        weight_scale=weight[0].npu(),
        quant_scale=torch.tensor([0.1]).npu(),
        quant_offset=torch.tensor([2.0]).npu(),
    )
    numbers = x.double().numpy() * weight[0].double().numpy()
    wanted = np.clip(numbers[:, :8] * _silu(numbers[:, 8:]) / 0.1 + 2, -128, 127)
    assert np.abs(y.cpu().numpy() - wanted).max() <= 0.501
    half = _random(3, 8).half() * 5
    y, scale = ops.npu_dequant_swiglu_quant(half.npu(), quant_mode=1, swiglu_mode=1, clamp_limit=2.0)
    gate, linear = np.minimum(half.double().numpy()[:, ::2], 2), np.clip(half.double().numpy()[:, 1::2], -2, 2)
    wanted = gate / (1 + np.exp(-1.702 * gate)) * (linear + 1)
    _close(scale, np.abs(wanted).max(1) / 127)
    with pytest.raises(RuntimeError, match="weight_scale"):
        ops.npu_dequant_swiglu_quant(x.npu(), quant_mode=1)
    with pytest.raises(RuntimeError, match="quant_mode 0"):
        ops.npu_dequant_swiglu_quant(half.npu())


def test_gelu_and_swiglu_in_other_formats() -> None:
    x = _random(4, 64)
    y, scale = ops.npu_gelu_quant(x.npu(), approximate="tanh")
    values = x.double().numpy()
    gelu = 0.5 * values * (1 + np.tanh(np.sqrt(2 / np.pi) * (values + 0.044715 * values**3)))
    _close(scale, np.abs(gelu).max(1) / 127)
    assert np.abs(y.cpu().numpy() - gelu / np.abs(gelu).max(1, keepdims=True) * 127).max() <= 0.501
    y, nothing = ops.npu_gelu_quant(
        x.npu(), input_scale=torch.tensor([20.0]).npu(), input_offset=torch.tensor([3.0]).npu(), approximate="tanh",
        quant_mode="static",
    )  # fmt: skip
    assert np.abs(y.cpu().numpy() - np.clip(gelu * 20 + 3, -128, 127)).max() <= 0.501 and nothing.numel() == 0
    y, scale = ops.npu_swiglu_mx_quant(x.npu(), dst_type=24)
    plain = values[:, :32] * _silu(values[:, 32:])
    back = ops.npu_anti_mx_quant(y, scale, dst_type=6, src_type=24).cpu().numpy()
    assert scale.shape == (4, 1, 2) and np.abs(back - plain).max() < 0.07 * np.abs(plain).max()
    first = ops.npu_dynamic_mx_quant_with_dual_axis(x.npu(), dst_type=24)
    assert [tuple(one.shape) for one in first] == [(4, 64), (4, 1, 2), (4, 64), (1, 64, 2)]


def _norm(x: Tensor, gamma: Tensor, beta: Tensor | None = None) -> np.ndarray:
    values = x.double().numpy()
    y = values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-6) * gamma.double().numpy()
    return y if beta is None else y + beta.double().numpy()


@pytest.mark.parametrize("divide", [True, False])
def test_norms_with_static_scales(divide: bool) -> None:
    x1, x2, gamma, beta = (
        _random(5, 16).half(),
        _random(5, 16, seed=1).half(),
        _random(16, seed=2).half(),
        _random(16, seed=3).half(),
    )
    scale, zero = torch.rand(16) * 0.1 + (0.05 if divide else 20), torch.randint(-5, 5, (16,)).float()

    def wanted(y: np.ndarray, shift: np.ndarray | float) -> np.ndarray:
        factor = scale.double().numpy()
        return np.clip((y / factor if divide else y * factor) + shift, -128, 127)

    first, second, total = ops.npu_add_rms_norm_quant(
        x1.npu(), x2.npu(), gamma.npu(), scale.npu(), zero.npu(), beta.npu(), scale.npu(), div_mode=divide
    )
    assert torch.equal(total.cpu(), x1 + x2)
    y = _norm(x1 + x2, gamma, beta)
    assert np.abs(first.cpu().numpy() - wanted(y, zero.numpy())).max() <= 0.502
    assert np.abs(second.cpu().numpy() - wanted(y, 0)).max() <= 0.502
    single, nothing = ops.npu_rms_norm_quant_v2(x1.npu(), gamma.npu(), scale.npu(), div_mode=divide)
    assert np.abs(single.cpu().numpy() - wanted(_norm(x1, gamma), 0)).max() <= 0.502 and nothing.numel() == 0
    if not divide:
        old = ops.npu_rms_norm_quant(x1.npu(), gamma.npu(), beta.npu(), scale[:1].npu(), zero[:1].npu())
        target = np.clip(_norm(x1, gamma, beta) * float(scale[0]) + float(zero[0]), -128, 127)
        assert np.abs(old.cpu().numpy() - target).max() <= 0.502


def test_norm_with_dynamic_scales() -> None:
    x1, x2, gamma = _random(5, 16), _random(5, 16, seed=1), _random(16, seed=2)
    smooth = torch.rand(2, 16) + 0.5
    y1, y2, total, scale1, scale2 = ops.npu_add_rms_norm_dynamic_quant(
        x1.npu(), x2.npu(), gamma.npu(), smooth_scale1=smooth[0].npu(), smooth_scale2=smooth[1].npu()
    )
    torch.testing.assert_close(total.cpu(), x1 + x2)
    for y, scale, factor in ((y1, scale1, smooth[0]), (y2, scale2, smooth[1])):
        values = _norm(x1 + x2, gamma) * factor.double().numpy()
        _close(scale, np.abs(values).max(1) / 127)
        assert np.abs(y.cpu().numpy() - values / np.abs(values).max(1, keepdims=True) * 127).max() <= 0.501
    result = ops.npu_add_rms_norm_dynamic_quant(x1.npu(), x2.npu(), gamma.npu())
    assert result[1].numel() == result[4].numel() == 0 and result[0].shape == (5, 16)
    masked = ops.npu_add_rms_norm_dynamic_quant(x1.npu(), x2.npu(), gamma.npu(), output_mask=[False, True])
    assert masked[0].numel() == 0 and torch.equal(masked[1], result[0])


def test_norm_gradient_quantised() -> None:
    dy, x, gamma = _random(5, 16), _random(5, 16, seed=1), _random(16, seed=2)
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    dx, dgamma = ops._npu_rms_norm_backward_quant(
        dy.npu(), x.npu(), rstd.npu(), gamma.npu(), torch.tensor([0.02]).npu()
    )
    leaves = [one.double().requires_grad_() for one in (x, gamma)]
    y = leaves[0] * torch.rsqrt(leaves[0].square().mean(-1, keepdim=True) + 1e-6) * leaves[1]
    wanted = torch.autograd.grad(y, leaves, dy.double())
    assert np.abs(dx.cpu().numpy() - np.clip(wanted[0].numpy() / 0.02, -128, 127)).max() <= 0.501
    _close(dgamma, wanted[1].numpy(), 1e-4, 1e-4)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_torchs_own_quantised_tensors() -> None:
    tensor = torch.quantize_per_tensor(_random(3, 4).npu(), 0.5, 3, torch.qint8)
    assert ops.q_scale(tensor) == 0.5 and ops.q_zero_point(tensor) == 3
    np.testing.assert_array_equal(
        ops.int_repr(tensor).cpu().numpy(), np.clip(np.rint(_random(3, 4).numpy() / 0.5 + 3), -128, 127)
    )
    assert torch.equal(ops.dequantize(tensor), (ops.int_repr(tensor).float() - 3) * 0.5)
