"""torch.ops.npu: products and convolutions against torch's and against loops."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

torch_npu.operators.register()
ops = torch.ops.npu


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).npu() for shape in shapes]


def _same(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_linear_and_its_gradients() -> None:
    x, weight, bias, grad = _random((2, 3, 4), (5, 4), (5,), (2, 3, 5))
    leaves = (x.requires_grad_(), weight.requires_grad_())
    y = ops.npu_linear(*leaves, bias)
    torch.testing.assert_close(y, x @ weight.t() + bias)
    _same(ops.npu_linear_backward(grad, x.detach(), weight.detach()), torch.autograd.grad(y, leaves, grad))
    half = ops.npu_linear(x.half(), weight.half())
    torch.testing.assert_close(half.float(), F.linear(x.half().float(), weight.half().float()), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("shapes", [((3, 2, 4), (3, 4, 5)), ((3, 2, 4), (4, 5)), ((1, 2, 4), (3, 4, 5))])
def test_bmm_v2_with_its_sizes(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (one.requires_grad_() for one in _random(*shapes))
    y = ops.npu_bmmV2(a, b, [3, 10])
    torch.testing.assert_close(y, (a @ b).reshape(3, 10))
    assert ops.npu_bmmV2(a, b, []).shape == (3, 2, 5)
    grad = torch.randn_like(y)
    wanted = torch.autograd.grad(y, (a, b), grad)
    plain = (grad, a.detach(), b.detach())
    results = (ops.npu_bmm_v2_mat1_backward(*plain, a.shape), ops.npu_bmm_v2_mat2_backward(*plain, b.shape))
    _same(results, wanted)


@pytest.mark.parametrize("name", ["npu_conv2d", "npu_convolution", "npu_conv3d", "npu_convolution 3"])
def test_convolutions_and_their_gradients_are_those_of_torch(name: str) -> None:
    operator, dims = name.split()[0], 3 if "3" in name else 2
    x, weight, bias = _random((2, 4, *[6] * dims), (6, 2, *[3] * dims), (6,))
    options = ([2, 1, 2][:dims], [1, 0, 2][:dims], [1, 2, 1][:dims], 2)
    leaves = [one.requires_grad_() for one in (x, weight, bias)]
    wanted = (F.conv2d if dims == 2 else F.conv3d)(x, weight, bias, *options)
    y = getattr(ops, operator)(*leaves, *options)
    torch.testing.assert_close(y, wanted)
    grad = torch.randn_like(y)
    theirs = torch.autograd.grad(wanted, leaves, grad)
    backward = getattr(ops, f"{operator}_backward")
    plain = (x.detach(), grad, weight.detach())
    _same(backward(*plain, *options, [True, True, True]), theirs)
    only = backward(*plain, *options, [False, True, False])
    assert only[0] is None and only[2] is None
    torch.testing.assert_close(only[1], theirs[1])


def test_convolution_into_out() -> None:
    x, weight = _random((1, 2, 5, 5), (3, 2, 3, 3))
    out = torch.empty(0, dtype=torch.float64).npu()
    ops.npu_conv2d.out(x, weight, None, [1, 1], [0, 0], [1, 1], 1, out=out)
    torch.testing.assert_close(out, F.conv2d(x, weight))


@pytest.mark.parametrize("dims", [2, 3])
def test_transposed_convolutions_have_the_padding_first(dims: int) -> None:
    x, weight, bias = _random((2, 4, *[4] * dims), (4, 3, *[3] * dims), (6,))
    padding, more, stride, dilation = [1, 0, 1][:dims], [1, 0, 1][:dims], [2, 1, 2][:dims], [1, 2, 1][:dims]
    leaves = [one.requires_grad_() for one in (x, weight, bias)]
    function = F.conv_transpose2d if dims == 2 else F.conv_transpose3d
    wanted = function(x, weight, bias, stride, padding, more, 2, dilation)
    options = (padding, more, stride, dilation, 2)
    torch.testing.assert_close(ops.npu_convolution_transpose(*leaves, *options), wanted)
    if dims == 2:
        torch.testing.assert_close(ops.npu_conv_transpose2d(*leaves, *options), wanted)
    grad = torch.randn_like(wanted)
    theirs = torch.autograd.grad(wanted, leaves, grad)
    plain = (x.detach(), grad, weight.detach(), *options, [True] * 3)
    _same(ops.npu_convolution_transpose_backward(*plain), theirs)
    _same(getattr(ops, f"npu_conv_transpose{dims}d_backward")(*plain), theirs)


def _deformable(
    x: Tensor, weight: Tensor, offset: Tensor, bias: Tensor, stride: int, pad: int, dilation: int, groups: int
) -> Tensor:
    """The definition, sample by sample: x offsets, then y offsets, then factors."""
    count, channels, height, width = x.shape
    outs, _, tall, broad = weight.shape
    rows, columns = offset.shape[2:]
    taps = tall * broad
    parts = offset.reshape(count, 3, groups, taps, rows, columns)
    result = torch.zeros(count, outs, rows, columns, dtype=x.dtype)

    def pixel(n: int, c: int, i: int, j: int) -> float:
        return float(x[n, c, i, j]) if 0 <= i < height and 0 <= j < width else 0.0

    for n in range(count):
        for r in range(rows):
            for s in range(columns):
                for c in range(channels):
                    group = c // (channels // groups)
                    for tap in range(taps):
                        dx, dy, factor = (float(one) for one in parts[n, :, group, tap, r, s])
                        i = r * stride - pad + tap // broad * dilation + dy
                        j = s * stride - pad + tap % broad * dilation + dx
                        top, left = math.floor(i), math.floor(j)
                        value = sum(
                            pixel(n, c, top + a, left + b) * (1 - abs(i - top - a)) * (1 - abs(j - left - b))
                            for a in (0, 1)
                            for b in (0, 1)
                        )
                        result[n, :, r, s] += weight[:, c, tap // broad, tap % broad] * value * factor
    return result + bias.reshape(1, -1, 1, 1)


def test_deformable_convolution_is_its_definition() -> None:
    x, weight, bias, offset = _random((2, 4, 5, 6), (3, 4, 3, 2), (3,), (2, 36, 3, 3))
    args = ([3, 2], [1, 1, 2, 2], [1, 1, 1, 1], [1, 1, 1, 1], 1, 2, True)
    y, sampled = ops.npu_deformable_conv2d(x, weight, offset, bias, *args)
    wanted = _deformable(x.cpu(), weight.cpu(), offset.cpu(), bias.cpu(), 2, 1, 1, 2)
    torch.testing.assert_close(y.cpu(), wanted)
    assert sampled.shape == (2, 4, 9, 6)
    assert torch.allclose(F.conv2d(sampled, weight, bias, (3, 2)), y)


def test_deformable_convolution_without_offsets_is_a_convolution() -> None:
    x, weight = _random((2, 4, 6, 6), (6, 2, 3, 3))
    offset = torch.zeros(2, 27, 6, 6, dtype=torch.float64).npu()
    offset[:, 18:] = 1
    args = ([3, 3], [1, 1, 1, 1], [2, 2, 2, 2], [1, 1, 2, 2], 2)
    y, _ = ops.npu_deformable_conv2d(x, weight, offset, None, *args)
    wanted = F.conv2d(x, weight, None, 1, 2, 2, 2)
    torch.testing.assert_close(y, wanted)
    plain, _ = ops.npu_deformable_conv2d(x, weight, offset[:, :18], None, *args, 1, False)
    torch.testing.assert_close(plain, wanted)


def test_deformable_derivatives_and_errors() -> None:
    x, weight, bias, offset = _random((1, 2, 4, 4), (2, 2, 2, 2), (2,), (1, 12, 3, 3))
    args = ([2, 2], [1, 1, 1, 1], [0, 0, 0, 0])
    leaves = [one.requires_grad_() for one in (x, weight, offset, bias)]
    assert gradcheck(lambda *given: ops.npu_deformable_conv2d(*given, *args)[0], leaves)
    y, sampled = ops.npu_deformable_conv2d(*leaves, *args)
    grad = torch.randn_like(y)
    theirs = torch.autograd.grad(y, leaves, grad)
    plain = (x.detach(), grad, sampled.detach(), weight.detach(), offset.detach())
    _same(ops.npu_deformable_conv2dbk(*plain, *args), theirs)
    half, _ = ops.npu_deformable_conv2d(*(one.detach().half() for one in leaves), *args)
    torch.testing.assert_close(half.double(), y.detach(), rtol=2e-2, atol=2e-2)
    with pytest.raises(RuntimeError, match=r"must have 24 channels: x, y and factor for each of 2 deformable groups"):
        ops.npu_deformable_conv2d(*leaves, *args, [1, 1, 1, 1], 1, 2)
    with pytest.raises(RuntimeError, match=r"stride must have 4 entries, \[1, 1\] has 2"):
        ops.npu_deformable_conv2d(*leaves, [2, 2], [1, 1], [0, 0, 0, 0])


def test_adapters_chosen_by_index() -> None:
    y, x, b, a = _random((4, 10), (4, 6), (3, 2, 5, 2), (3, 2, 2, 6))
    indices = torch.tensor([2, -1, 0, 2]).npu()
    wanted = y.clone()
    for row, index in enumerate(indices.tolist()):
        if index >= 0:
            wanted[row, 3:8] += 0.5 * (b[index, 1] @ (a[index, 1] @ x[row]))
    options = {"weight_a": a, "layer_idx": 1, "scale": 0.5, "y_offset": 3, "y_slice_size": 5}
    before = y.clone()
    torch.testing.assert_close(ops.npu_batch_gather_matmul(y, x, b, indices, **options), wanted)
    assert torch.equal(y, before)
    ops.npu_batch_gather_matmul_(y, x, b, indices, **options)
    torch.testing.assert_close(y, wanted)
    with pytest.raises(RuntimeError, match="columns 8 to 13 of 10"):
        ops.npu_batch_gather_matmul(y, x, b, indices, y_offset=8, y_slice_size=5)


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        ("", lambda y, z: y),
        ("add", lambda y, z: y + z),
        ("mul", lambda y, z: y * z),
        ("relu", lambda y, z: y.clamp(min=0)),
        ("gelu_erf", lambda y, z: F.gelu(y)),
        ("gelu_tanh", lambda y, z: F.gelu(y, approximate="tanh")),
    ],
)
def test_fused_matmul(kind: str, after: Callable[[Tensor, Tensor], Tensor]) -> None:
    a, b, bias, z = _random((3, 4), (4, 5), (5,), (3, 5))
    given = z if kind in ("add", "mul") else None
    result = ops.npu_fused_matmul(a, b, bias=bias, x3=given, fused_op_type=kind)
    torch.testing.assert_close(result, after(a @ b + bias, z))


def test_fused_matmul_refuses() -> None:
    a, b = _random((3, 4), (4, 5))
    with pytest.raises(RuntimeError, match=r"fused_op_type must be one of .* not 'tanh'"):
        ops.npu_fused_matmul(a, b, fused_op_type="tanh")
    with pytest.raises(RuntimeError, match="'add' needs x3"):
        ops.npu_fused_matmul(a, b, fused_op_type="add")
    with pytest.raises(RuntimeError, match="x3 has no meaning for fused_op_type 'relu'"):
        ops.npu_fused_matmul(a, b, x3=a, fused_op_type="relu")


def test_masked_causal_convolution() -> None:
    x, weight, grad = _random((5, 2, 3), (3, 3), (5, 2, 3))
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool).npu()
    wanted = F.conv1d(F.pad(x.permute(1, 2, 0), (2, 0)), weight.t().unsqueeze(1), groups=3).permute(2, 0, 1)
    torch.testing.assert_close(ops.npu_masked_causal_conv1d(x, weight), wanted)
    leaves = (x.requires_grad_(), weight.requires_grad_())
    y = ops.npu_masked_causal_conv1d(*leaves, mask=mask)
    torch.testing.assert_close(y, wanted * mask.t().unsqueeze(-1))
    assert gradcheck(lambda a, b: ops.npu_masked_causal_conv1d(a, b, mask=mask), leaves)
    result = ops.npu_masked_causal_conv1d_backward(grad, x.detach(), weight.detach(), mask=mask)
    _same(result, torch.autograd.grad(y, leaves, grad))


def test_transposed_batch_matmul() -> None:
    a, b, bias = _random((4, 3, 2), (4, 2, 5), (5,))
    torch.testing.assert_close(ops.npu_transpose_batchmatmul(a, b, bias=bias), ((a @ b) + bias).transpose(0, 1))
    turned = ops.npu_transpose_batchmatmul(a.permute(1, 0, 2), b, perm_x1=[1, 0, 2], perm_y=[0, 1, 2])
    torch.testing.assert_close(turned, a @ b)
    split = ops.npu_transpose_batchmatmul(a, b, batch_split_factor=2)
    whole = (a @ b).transpose(0, 1).reshape(3, 20)
    torch.testing.assert_close(split, torch.stack(whole.chunk(2, 1)))
    with pytest.raises(NotImplementedError, match=r"scale[\s\S]*ERR01007"):
        ops.npu_transpose_batchmatmul(a, b, scale=bias)


def test_fake_shapes() -> None:
    x, weight, offset = _random((2, 4, 5, 6), (3, 4, 3, 2), (2, 18, 3, 3))
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(one) for one in (x, weight, offset)]
        y, sampled = ops.npu_deformable_conv2d(*fakes, None, [3, 2], [1, 1, 2, 2], [1, 1, 1, 1])
        assert y.shape == (2, 3, 3, 3) and sampled.shape == (2, 4, 9, 6)
        assert ops.npu_conv2d(fakes[0], fakes[1], None, [1, 1], [0, 0], [1, 1], 1).shape == (2, 3, 3, 5)


def test_an_operator_that_is_only_declared_says_so() -> None:
    x = torch.ones(1, 1).npu()
    with pytest.raises(NotImplementedError, match="npu::obfuscation_finalize is declared but not supported"):
        ops.obfuscation_finalize(x)
