"""torch.ops.npu: derivatives of aten operators under their own names, and what belongs nowhere else."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu.operators
from torch import Tensor

torch_npu.operators.register()
ops = torch.ops.npu


def _leaves(*shapes: tuple[int, ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64).npu().requires_grad_() for shape in shapes]


def _plain(*tensors: Tensor) -> list[Tensor]:
    return [one.detach() for one in tensors]


def _same(found: Tensor | tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for mine, theirs in zip((found,) if isinstance(found, Tensor) else found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_convolution_gradients() -> None:
    x, depthwise, weight, bias = _leaves((2, 4, 6, 6), (8, 1, 3, 3), (5, 4, 3, 3), (5,))
    y = F.conv2d(x, depthwise, None, 1, 1, 1, 4)
    grad = torch.randn_like(y)
    args = ([3, 3], [1, 1], [1, 1], [1, 1])
    result = ops._conv_depthwise2d_backward(grad, *_plain(x, depthwise), *args, [True, True])
    _same(result, torch.autograd.grad(y, (x, depthwise), grad))
    y = F.conv2d(x, weight, bias, 1, 2, 2)
    grad = torch.randn_like(y)
    args = ([3, 3], [1, 1], [2, 2], [2, 2], [True] * 3)
    result = ops.slow_conv_dilated2d_backward(grad, *_plain(x, weight), *args)
    _same(result, torch.autograd.grad(y, (x, weight, bias), grad))
    turned = weight.transpose(0, 1)
    y = F.conv_transpose2d(x, turned, bias, 2, 1, 1)
    grad = torch.randn_like(y)
    args = ([3, 3], [2, 2], [1, 1], [1, 1], [1, 1], [True] * 3)
    result = ops.slow_conv_transpose2d_backward(grad, *_plain(x, turned), *args)
    _same(result, torch.autograd.grad(y, (x, turned, bias), grad))
    with pytest.raises(RuntimeError, match=r"kernel_size \[2, 2\] is not that of the weight"):
        ops.slow_conv_dilated2d_backward(grad, *_plain(x, weight), [2, 2], [1, 1], [2, 2], [2, 2], [True] * 3)


@pytest.mark.parametrize("size", [7, 8])
def test_fft_gradients(size: int) -> None:
    (x,) = _leaves((3, size))
    y = torch.ops.aten._fft_r2c(x, [1], 0, True)
    grad = torch.randn_like(y)
    result = ops.fft_r2c_backward(grad, [1], 0, True, size)
    _same(result, torch.autograd.grad(y, x, grad))
    z = y.detach().requires_grad_()
    back = torch.ops.aten._fft_c2r(z, [1], 2, size)
    grad = torch.randn_like(back)
    _same(ops.fft_c2r_backward(grad, [1], 2), torch.autograd.grad(back, z, grad))
    whole = torch.ops.aten._fft_r2c(x, [0, 1], 0, False)
    grad = torch.randn_like(whole)
    _same(ops.fft_r2c_backward(grad, [0, 1], 0, False, size), torch.autograd.grad(whole, x, grad))


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides:UserWarning")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_loss_gradients(reduction: str) -> None:
    code = ("none", "mean", "sum").index(reduction)
    x, y, weight = _leaves((4, 3), (4, 3), (3,))
    for log_target in (False, True):
        target = y if log_target else y.detach().abs().requires_grad_()
        loss = F.kl_div(x, target, reduction=reduction, log_target=log_target)
        grad = torch.randn_like(loss)
        dx, dy = torch.autograd.grad(loss, (x, target), grad)
        plain = (grad, *_plain(x, target), code)
        _same(ops.kl_div_backward(*plain, log_target=log_target), (dx,))
        _same(ops.kl_div_target_backward(*plain, log_target=log_target), (dy,))
    loss = F.l1_loss(x, y, reduction=reduction)
    grad = torch.randn_like(loss)
    _same(ops.l1_loss_backward(grad, *_plain(x, y), code), torch.autograd.grad(loss, x, grad))
    positive = weight.detach().abs()
    options = {"weight": positive, "pos_weight": positive + 1, "reduction": reduction}
    loss = F.binary_cross_entropy_with_logits(x, y.detach().sigmoid(), **options)
    result = ops.npu_binary_cross_entropy_with_logits_backward(
        grad, x.detach(), y.detach().sigmoid(), positive, positive + 1, code
    )
    _same(result, torch.autograd.grad(loss, x, grad))
    with pytest.raises(RuntimeError, match=r"reduction must be 0 \(none\), 1 \(mean\) or 2 \(sum\), not 3"):
        ops.l1_loss_backward(grad, *_plain(x, y), 3)


def test_matmul_differentiated_twice() -> None:
    a, b, grad = _leaves((2, 3, 4), (4, 5), (2, 3, 5))
    first = torch.autograd.grad(a @ b, (a, b), grad, create_graph=True)
    grads = [torch.randn_like(one) for one in first]
    wanted = torch.autograd.grad(first, (grad, a, b), grads)
    _same(ops.matmul_double_backward(*grads, *_plain(grad, a, b), [True] * 3), wanted)
    only = ops.matmul_double_backward(grads[0], None, *_plain(grad, a, b), [True, False, False])
    assert only[1] is None and only[2] is None
    torch.testing.assert_close(only[0], grads[0] @ b.detach())


def test_gradients_of_index_operators() -> None:
    (x,) = _leaves((4, 3))
    index = torch.tensor([[0, 2, 1], [3, 2, 1]]).npu()
    grad = torch.randn(2, 3, dtype=torch.float64).npu()
    (wanted,) = torch.autograd.grad(x.gather(0, index), x, grad)
    torch.testing.assert_close(ops.npu_gather_backward(grad, x.shape, 0, index.int(), False), wanted)
    (theirs,) = torch.autograd.grad(torch.repeat_interleave(x, 2, 1), x, torch.ones(4, 6).npu().double())
    torch.testing.assert_close(
        ops.repeat_interleave_backward_int(torch.ones(4, 6).npu().double(), x.detach(), 2, 1), theirs
    )
    repeats = torch.tensor([1, 0, 3, 2]).npu()
    grad = torch.randn(6, 3, dtype=torch.float64).npu()
    (theirs,) = torch.autograd.grad(torch.repeat_interleave(x, repeats, 0), x, grad)
    torch.testing.assert_close(ops.repeat_interleave_backward_tensor(grad, x.detach(), repeats, 0), theirs)
    y = torch.renorm(x, 2, 0, 0.5)
    grad = torch.randn_like(y)
    _same(ops.npu_renorm_backward(grad, x.detach(), 2, 0, 0.5), torch.autograd.grad(y, x, grad))


def test_stft_gradient() -> None:
    (x,) = _leaves((2, 40))
    window = torch.hann_window(16, dtype=torch.float64).npu()
    y = torch.stft(x, 16, 8, 16, window, center=False, onesided=True, return_complex=True)
    grad = torch.randn_like(y)
    (wanted,) = torch.autograd.grad(y, x, grad)
    args = (16, 8, 16, window, False, True)
    torch.testing.assert_close(ops.stft_backward(grad, x.detach(), *args, True), wanted)
    torch.testing.assert_close(ops.stft_backward(torch.view_as_real(grad), x.detach(), *args, False), wanted)


def test_prefetch_is_a_hint() -> None:
    x = torch.ones(4).npu()
    assert ops.npu_prefetch(x, None, 1024) is None
    with pytest.raises(RuntimeError, match="max_size must be positive, 0 is not"):
        ops.npu_prefetch(x, None, 0)


def test_pictures_become_tensors_and_are_normalised() -> None:
    picture = torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3).npu()
    result = ops.img_to_tensor(picture)
    assert result.shape == (3, 2, 4) and math.isclose(
        result[1, 1, 2].item(), picture[1, 2, 1].item() / 255, rel_tol=1e-6
    )
    planes = torch.randn(1, 3, 2, 2).npu()
    wanted = (planes.cpu() - torch.tensor([1.0, 2, 3]).reshape(3, 1, 1)) / torch.tensor([2.0, 4, 8]).reshape(3, 1, 1)
    normal = ops.image_normalize(planes, [1, 2, 3], [2, 4, 8])
    torch.testing.assert_close(normal.cpu(), wanted)
    assert ops.image_normalize(planes, None, None, 1).dtype == torch.float16
    ops.image_normalize_(planes, [1, 2, 3], [2, 4, 8])
    torch.testing.assert_close(planes, normal)
    with pytest.raises(RuntimeError, match="mean has 2 entries for 3 channels"):
        ops.image_normalize(planes, [1, 2], None)


def test_crop_and_resize_samples_corners_and_middles() -> None:
    x = torch.arange(16.0).reshape(1, 1, 4, 4).npu()
    result = ops.crop_and_resize(x, [0, 0, 1, 1, 0, 0, 1 / 3, 1 / 3], [0, 0], [3, 3])
    assert result[0, 0].tolist() == [[0, 1.5, 3], [6, 7.5, 9], [12, 13.5, 15]]
    torch.testing.assert_close(result[1, 0].cpu(), torch.tensor([[0, 0.5, 1], [2, 2.5, 3], [4, 4.5, 5]]))
    outside = ops.crop_and_resize(x, [0, 0, 2, 1], [0], [3, 2], -7.0)
    assert outside[0, 0].tolist() == [[0, 3], [12, 15], [-7, -7]]
    assert ops.crop_and_resize(x, [0, 0, 1, 1], [0], [1, 1]).item() == 7.5
    assert ops.crop_and_resize(x, [0.1, 0, 0.1, 0], [0], [1, 1], 0.0, "nearest").item() == 0
    with pytest.raises(RuntimeError, match="method must be bilinear or nearest, not 'cubic'"):
        ops.crop_and_resize(x, [0, 0, 1, 1], [0], [1, 1], 0.0, "cubic")
