"""torch.ops.npu: normalisation against torch's own and formulas in float64, derivatives, fake shapes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint

torch_npu.operators.register()
ops = torch.ops.npu


def _random(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype).npu() for shape in shapes]


def _rms(x: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tensor:
    dims = tuple(range(-gamma.dim(), 0))
    return x / torch.sqrt((x * x).mean(dims, keepdim=True) + epsilon) * gamma


@pytest.mark.parametrize("shape", [(8,), (3, 8)])
def test_rms_norm_over_the_dims_of_gamma(shape: tuple[int, ...]) -> None:
    x, gamma = _random((2, 5, 3, 8), shape)
    y, rstd = ops.npu_rms_norm(x, gamma, 1e-3)
    torch.testing.assert_close(y, _rms(x, gamma, 1e-3))
    dims = tuple(range(-len(shape), 0))
    torch.testing.assert_close(rstd, torch.rsqrt(x.square().mean(dims, keepdim=True) + 1e-3))
    leaves = (x[:1, :2].clone().requires_grad_(), gamma.requires_grad_())
    assert gradcheck(lambda a, b: ops.npu_rms_norm(a, b)[0], leaves)
    assert gradgradcheck(lambda a, b: ops.npu_rms_norm(a, b)[0], leaves)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rms_norm_of_halves_rounds_once(dtype: torch.dtype) -> None:
    x, gamma = (one.to(dtype) for one in _random((700, 1024), (1024,)))
    y, rstd = ops.npu_rms_norm(x, gamma)
    wanted = _rms(x.double(), gamma.double()).to(dtype)
    assert y.dtype == dtype and rstd.dtype == torch.float32 and rstd.shape == (700, 1)
    assert (y != wanted).double().mean() < 2e-3
    torch.testing.assert_close(y, wanted)


def test_rms_norm_of_many_rows() -> None:
    """Rows that are contiguous and rows that are not."""
    x, gamma, grad = _random((1100, 1024), (1024,), (1100, 1024), dtype=torch.float32)
    for one in (x, x.t().contiguous().t()):
        mine, theirs = (one.detach().clone().requires_grad_() for _ in range(2))
        weights = [gamma.clone().requires_grad_() for _ in range(2)]
        ops.npu_rms_norm(mine, weights[0])[0].backward(grad)
        _rms(theirs, weights[1]).backward(grad)
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(weights[0].grad, weights[1].grad, rtol=1e-4, atol=1e-3)


def test_rms_norm_with_one_gradient_only() -> None:
    x, gamma = _random((4, 8), (8,))
    x.requires_grad_()
    ops.npu_rms_norm(x, gamma)[0].sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(_rms(x, gamma).sum(), x)[0])
    assert not ops.npu_rms_norm(x, gamma)[1].requires_grad


def test_rms_norm_of_half_data_with_float_weights() -> None:
    x, gamma = _random((4, 8), (8,))
    x, gamma = x.bfloat16().requires_grad_(), gamma.float().requires_grad_()
    y, _ = ops.npu_rms_norm(x, gamma)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == torch.bfloat16 and gamma.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_rms_norm_under_transforms_and_modes() -> None:
    x, gamma = _random((4, 8), (8,))
    wanted = _rms(x, gamma)
    torch.testing.assert_close(torch.vmap(lambda row: ops.npu_rms_norm(row, gamma)[0])(x), wanted)
    (found,) = torch.func.vjp(lambda a: ops.npu_rms_norm(a, gamma)[0], x)[1](torch.ones_like(x))
    torch.testing.assert_close(found, torch.func.vjp(lambda a: _rms(a, gamma), x)[1](torch.ones_like(x))[0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(ops.npu_rms_norm(dual, gamma)[0]).tangent
        torch.testing.assert_close(tangent, forward_ad.unpack_dual(_rms(dual, gamma)).tangent)
    given = (x.half(), gamma.half())
    with FakeTensorMode() as mode:
        y, rstd = ops.npu_rms_norm(*(mode.from_tensor(one) for one in given))
        assert y.shape == (4, 8) and y.dtype == torch.half and rstd.shape == (4, 1) and rstd.dtype == torch.float32


def test_a_block_of_fused_operators_compiles_and_checkpoints() -> None:
    """The three that have a derivative of their own: traced as compositions, computed again where memory is saved."""
    x, gamma, cos, sin = _random((2, 4, 16), (16,), (1, 4, 1, 8), (1, 4, 1, 8), dtype=torch.float32)
    leaves = (x.requires_grad_(), gamma.requires_grad_())

    def block(x: Tensor, gamma: Tensor) -> Tensor:
        y = ops.npu_rms_norm(x, gamma)[0].view(2, 4, 2, 8)
        return ops.npu_swiglu(ops.npu_rotary_mul(y, cos, sin).reshape(2, 4, 16))

    wanted = torch.autograd.grad(block(*leaves).square().sum(), leaves)
    for found in (
        torch.compile(block, backend="aot_eager", fullgraph=True)(*leaves),
        checkpoint(block, *leaves, use_reentrant=False),
    ):
        torch.testing.assert_close(found, block(*leaves))
        for mine, theirs in zip(torch.autograd.grad(found.square().sum(), leaves), wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_rms_norm_of_an_empty_input() -> None:
    x, gamma = _random((0, 8), (8,))
    y, rstd = ops.npu_rms_norm(x, gamma)
    assert y.shape == (0, 8) and rstd.shape == (0, 1)


def test_rms_norm_backward_operator() -> None:
    x, gamma, dy = _random((2, 3, 8), (8,), (2, 3, 8))
    x.requires_grad_()
    gamma.requires_grad_()
    y, rstd = ops.npu_rms_norm(x, gamma)
    wanted = torch.autograd.grad(y, (x, gamma), dy)
    for mine, theirs in zip(ops.npu_rms_norm_backward(dy, x.detach(), gamma.detach(), rstd), wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gemma_and_added_forms() -> None:
    x1, x2, gamma = _random((2, 3, 8), (2, 3, 8), (8,))
    torch.testing.assert_close(ops.npu_gemma_rms_norm(x1, gamma)[0], _rms(x1, 1 + gamma))
    wanted = _rms(x1 + x2, gamma)
    y, rstd, total = ops.npu_add_rms_norm(x1, x2, gamma)
    for mine, theirs in ((y, wanted), (total, x1 + x2)):
        torch.testing.assert_close(mine, theirs)
    v2 = ops.npu_add_rms_norm_v2_functional(x1, x2, gamma)
    for mine, theirs in zip(v2, (rstd, y, total), strict=True):
        torch.testing.assert_close(mine, theirs)
    a, b = x1.clone(), x2.clone()
    torch.testing.assert_close(ops.npu_add_rms_norm_v2(a, b, gamma), rstd)
    torch.testing.assert_close(a, y)
    torch.testing.assert_close(b, total)
    wide, narrow, root, whole = ops.npu_add_rms_norm_cast(x1.half(), x2.half(), gamma.half())
    assert (wide.dtype, narrow.dtype, root.dtype, whole.dtype) == (torch.float32, torch.half, torch.float32, torch.half)
    torch.testing.assert_close(wide.half(), narrow)
    leaves = (x1[0].clone().requires_grad_(), x2[0].clone().requires_grad_(), gamma.requires_grad_())
    assert gradcheck(lambda *given: ops.npu_add_rms_norm(*given)[0::2], leaves)


def test_add_layer_norm() -> None:
    x1, x2, gamma, beta, dy = _random((2, 3, 8), (2, 3, 8), (8,), (8,), (2, 3, 8))
    leaves = [one.requires_grad_() for one in (x1, x2, gamma, beta)]
    y, mean, rstd, total = ops.npu_add_layer_norm(*leaves, 1e-3, True)
    wanted = F.layer_norm(x1 + x2, (8,), gamma, beta, 1e-3)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(total, x1 + x2)
    torch.testing.assert_close(mean, (x1 + x2).mean(-1, keepdim=True))
    torch.testing.assert_close(rstd, ((x1 + x2).var(-1, unbiased=False, keepdim=True) + 1e-3).rsqrt())
    assert ops.npu_add_layer_norm(*leaves)[3].numel() == 0
    theirs = torch.autograd.grad((wanted * dy).sum() + (x1 + x2).sum(), leaves, retain_graph=True)
    for mine, one in zip(torch.autograd.grad((y * dy).sum() + total.sum(), leaves), theirs, strict=True):
        torch.testing.assert_close(mine, one)
    statistics = (rstd.detach(), mean.detach(), gamma.detach())
    result = ops.npu_add_layer_norm_backward(dy, x1.detach(), x2.detach(), *statistics, torch.ones_like(dy))
    for mine, one in zip(result, theirs, strict=True):
        torch.testing.assert_close(mine, one)
    nothing = ops.npu_add_layer_norm_backward(None, x1.detach(), x2.detach(), *statistics, None)
    assert not any(one.any() for one in nothing)


def test_layer_norm_forms() -> None:
    x, gamma, beta, dy = _random((2, 3, 8), (8,), (8,), (2, 3, 8))
    torch.testing.assert_close(ops.npu_layer_norm_eval(x, [8], gamma, beta), F.layer_norm(x, (8,), gamma, beta))
    leaves = [one.requires_grad_() for one in (x, gamma, beta)]
    theirs = torch.autograd.grad(F.layer_norm(x, (8,), gamma, beta), leaves, dy)
    mean, rstd = x.detach().mean(-1), (x.detach().var(-1, unbiased=False) + 1e-5).rsqrt()
    result = ops.npu_layernorm_grad(dy, x.detach(), [8], mean, rstd, gamma.detach(), beta.detach())
    for mine, one in zip(result, theirs, strict=True):
        torch.testing.assert_close(mine, one)
    alone = ops.npu_layernorm_grad(dy, x.detach(), [8], mean, rstd, None, None)
    torch.testing.assert_close(alone[0], torch.autograd.grad(F.layer_norm(x, (8,)), x, dy)[0])
    assert alone[1].numel() == alone[2].numel() == 0


def test_deep_norm() -> None:
    x, gx, beta, gamma, dy = _random((2, 8), (2, 8), (8,), (8,), (2, 8))
    leaves = [one.requires_grad_() for one in (x, gx, beta, gamma)]
    mean, rstd, y = ops.npu_deep_norm(*leaves, 0.5, 1e-4)
    wanted = F.layer_norm(0.5 * x + gx, (8,), gamma, beta, 1e-4)
    torch.testing.assert_close(y, wanted)
    theirs = torch.autograd.grad(wanted, leaves, dy)
    plain = [one.detach() for one in (x, gx, gamma, mean, rstd)]
    for mine, one in zip(ops.npu_deep_norm_backward(dy, *plain, 0.5), theirs, strict=True):
        torch.testing.assert_close(mine, one)


def test_group_norm_forms() -> None:
    x, weight, bias, dy = _random((2, 6, 4, 4), (6,), (6,), (2, 6, 4, 4))
    leaves = [one.requires_grad_() for one in (x, weight, bias)]
    y, mean, rstd = ops.npu_group_norm_silu(x, weight, bias, 3)
    torch.testing.assert_close(y, F.silu(F.group_norm(x, 3, weight, bias)))
    grouped = x.detach().reshape(2, 3, -1)
    torch.testing.assert_close(mean, grouped.mean(-1), check_dtype=False)
    torch.testing.assert_close(rstd, (grouped.var(-1, unbiased=False) + 1e-5).rsqrt())
    y, mean, rstd = ops.npu_group_norm_swish(x, 3, weight, bias, 1e-5, 2.0)
    normal = F.group_norm(x, 3, weight, bias)
    torch.testing.assert_close(y, normal * torch.sigmoid(2 * normal))
    theirs = torch.autograd.grad(y, leaves, dy)
    plain = (dy, x.detach(), 3, weight.detach(), bias.detach(), mean.detach(), rstd.detach())
    result = ops.npu_group_norm_swish_grad(*plain, [True, True, True], 2.0)
    for mine, one in zip(result, theirs, strict=True):
        torch.testing.assert_close(mine, one)
    assert [one.numel() for one in ops.npu_group_norm_swish_grad(*plain, [False, True, False], 2.0)] == [0, 6, 0]


def test_statistics_of_ranks_make_those_of_the_whole_batch() -> None:
    (x,) = _random((10, 3, 4, 4), dtype=torch.float32)
    parts = x.split([4, 6])
    sums, squares = (torch.stack(one) for one in zip(*(ops.batch_norm_reduce(p, 1e-5) for p in parts), strict=True))
    counts = torch.tensor([4.0 * 16, 6.0 * 16]).npu()
    running_mean, running_var = torch.zeros(3).npu(), torch.ones(3).npu()
    mean, invstd = ops.batch_norm_gather_stats_update(x, sums, squares, running_mean, running_var, 0.1, 1e-5, counts)
    module = torch.nn.BatchNorm2d(3).npu()
    module(x)
    torch.testing.assert_close(running_mean, module.running_mean)
    torch.testing.assert_close(running_var, module.running_var)
    torch.testing.assert_close(mean, x.mean((0, 2, 3)))
    torch.testing.assert_close(invstd, (x.var((0, 2, 3), unbiased=False) + 1e-5).rsqrt())


def test_what_norms_refuse() -> None:
    x, gamma = _random((2, 8), (4,))
    with pytest.raises(
        RuntimeError, match=r"npu_rms_norm: gamma \(4,\) must be the last dimensions of the input \(2, 8\)"
    ):
        ops.npu_rms_norm(x, gamma)
    with pytest.raises(RuntimeError, match="must be a multiple of 3 groups"):
        ops.npu_group_norm_silu(x, None, None, 3)
