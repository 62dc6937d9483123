"""torch.ops.npu: activations against formulas in float64, their derivatives, shapes of fake tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad, gradcheck, gradgradcheck

torch_npu.operators.register()
ops = torch.ops.npu


def _x(*shape: int) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64) * 2


def _swiglu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a / (1 + torch.exp(-a)) * b


FORMULAS: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], Tensor]]] = {
    "fast_gelu": (lambda x: ops.fast_gelu(x), lambda x: x / (1 + torch.exp(-1.702 * x))),
    "npu_fast_gelu": (lambda x: ops.npu_fast_gelu(x), lambda x: x / (1 + torch.exp(-1.702 * x))),
    "npu_gelu": (lambda x: ops.npu_gelu(x), lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
    "npu_gelu tanh": (
        lambda x: ops.npu_gelu(x, approximate="tanh"),
        lambda x: x * 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    ),
    "npu_mish": (lambda x: ops.npu_mish(x), lambda x: x * torch.tanh(torch.log1p(torch.exp(x)))),
    "npu_silu": (lambda x: ops.npu_silu(x), lambda x: x / (1 + torch.exp(-x))),
    "npu_silu_": (lambda x: ops.npu_silu_(x.clone()), lambda x: x / (1 + torch.exp(-x))),
    "npu_swiglu": (lambda x: ops.npu_swiglu(x), _swiglu),
    "npu_swiglu 0": (lambda x: ops.npu_swiglu(x, 0), lambda x: _swiglu(x, 0)),
    "npu_swiglu -2": (lambda x: ops.npu_swiglu(x, -2), lambda x: _swiglu(x, -2)),
    "npu_gelu_mul": (lambda x: ops.npu_gelu_mul(x), lambda x: F.gelu(x[..., :4]) * x[..., 4:]),
    "npu_geglu": (lambda x: ops.npu_geglu(x)[0], lambda x: x[..., :4] * F.gelu(x[..., 4:], approximate="tanh")),
    "npu_geglu left": (
        lambda x: ops.npu_geglu(x, 0, 0, True)[0],
        lambda x: F.gelu(x[:1]) * x[1:],
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_derivatives_and_shapes(name: str) -> None:
    operator, formula = FORMULAS[name]
    x = _x(2, 6, 8)
    torch.testing.assert_close(operator(x.npu()).cpu(), formula(x))
    small = x[:, :2].npu().requires_grad_()
    assert gradcheck(operator, small) and gradgradcheck(operator, small)
    half = operator(x.npu().half())
    assert half.dtype == torch.half
    torch.testing.assert_close(half.cpu().double(), formula(x.half().double()), rtol=5e-3, atol=5e-3)
    moved = x.npu()
    with FakeTensorMode() as mode:
        fake = operator(mode.from_tensor(moved))
    assert fake.shape == formula(x).shape and fake.device.type == "npu"


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        (lambda x: ops.npu_fast_gelu(x), lambda g, x: ops.npu_fast_gelu_backward(g, x)),
        (lambda x: ops.npu_gelu(x, approximate="tanh"), lambda g, x: ops.npu_gelu_backward(g, x, approximate="tanh")),
        (lambda x: ops.npu_mish(x), lambda g, x: ops.npu_mish_backward(g, x)),
        (lambda x: ops.npu_silu(x), lambda g, x: ops.npu_silu_backward(g, x, ops.npu_silu(x))),
        (lambda x: ops.npu_swiglu(x, 1), lambda g, x: ops.npu_swiglu_backward(g, x, 1)),
        (lambda x: ops.npu_geglu(x)[0], lambda g, x: ops.npu_geglu_grad(g, x, ops.npu_geglu(x)[1])),
        (
            lambda x: ops.npu_geglu(x, 1, 0, True)[0],
            lambda g, x: ops.npu_geglu_grad(g, x, ops.npu_geglu(x, 1, 0, True)[1], 1, 0, True),
        ),
    ],
)
def test_backward_operators_are_the_derivatives(
    forward: Callable[[Tensor], Tensor], backward: Callable[[Tensor, Tensor], Tensor]
) -> None:
    x = _x(3, 8).npu().requires_grad_() if forward(_x(2, 8).npu()).shape != (2, 8) else _x(2, 8).npu().requires_grad_()
    y = forward(x)
    grad = torch.randn_like(y)
    torch.testing.assert_close(backward(grad, x.detach()), torch.autograd.grad(y, x, grad)[0])


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_swiglu_under_transforms_is_the_same() -> None:
    x = _x(4, 8).npu()
    torch.testing.assert_close(torch.vmap(ops.npu_swiglu)(x), ops.npu_swiglu(x))
    torch.testing.assert_close(torch.func.jacrev(ops.npu_swiglu)(x), torch.func.jacrev(_swiglu)(x))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        tangent = forward_ad.unpack_dual(ops.npu_swiglu(dual)).tangent
        torch.testing.assert_close(tangent, forward_ad.unpack_dual(_swiglu(dual)).tangent)


def test_swiglu_of_a_view_that_is_not_contiguous() -> None:
    x = _x(8, 6).t().npu().requires_grad_()
    torch.testing.assert_close(ops.npu_swiglu(x), _swiglu(x))
    weights = torch.randn(6, 4, dtype=torch.float64).npu()
    (mine,) = torch.autograd.grad((ops.npu_swiglu(x) * weights).sum(), x)
    (theirs,) = torch.autograd.grad((_swiglu(x) * weights).sum(), x)
    torch.testing.assert_close(mine, theirs)


def test_swiglu_leaves_its_input_alone() -> None:
    x = _x(2, 8).npu()
    before = x.clone()
    ops.npu_swiglu(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("interleaved", [True, False])
def test_clipped_swiglu(interleaved: bool) -> None:
    x = _x(5, 8) * 4
    a, b = (x[:, ::2], x[:, 1::2]) if interleaved else x.chunk(2, -1)
    a, b = a.clamp(max=3), b.clamp(-3, 3)
    wanted = a * torch.sigmoid(2 * a) * (b + 0.5)
    options = {"alpha": 2.0, "limit": 3.0, "bias": 0.5, "interleaved": interleaved}
    torch.testing.assert_close(ops.npu_clipped_swiglu(x.npu(), **options).cpu(), wanted)
    groups = torch.tensor([1, 2]).npu()
    result = ops.npu_clipped_swiglu(x.npu(), group_index=groups, **options).cpu()
    torch.testing.assert_close(result[:3], wanted[:3])
    assert not result[3:].any()


def test_clipped_swiglu_along_another_dimension() -> None:
    x = _x(8, 3)
    result = ops.npu_clipped_swiglu(x.npu(), dim=0).cpu()
    torch.testing.assert_close(result, ops.npu_clipped_swiglu(x.t().contiguous().npu()).cpu().t())


def test_what_activations_refuse() -> None:
    x = torch.ones(2, 3, device="npu")
    with pytest.raises(RuntimeError, match=r"dimension -1 has 3 elements; it must be even[\s\S]*ERR01003"):
        ops.npu_swiglu(x)
    with pytest.raises(RuntimeError, match="dim 2 is out of range for 2 dimensions"):
        ops.npu_swiglu(x, 2)
    with pytest.raises(RuntimeError, match="must be 'none' or 'tanh', not 'erf'"):
        ops.npu_gelu(x, approximate="erf")
    with pytest.raises(RuntimeError, match=r"approximate must be 0 \(none\) or 1 \(tanh\), not 2"):
        ops.npu_geglu(x[:, :2], -1, 2)
    with pytest.raises(RuntimeError, match="it must be even"):
        ops.npu_clipped_swiglu(x)
