"""torch.func, hooks, checkpointing, forward and double derivatives, deepcopy: what works above the operators works on npu."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

# torch's own forward-mode formulas use torch.jit.script, which it deprecates itself
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def same(function: object, *inputs: Tensor) -> None:
    """The function gives on npu what it gives on the CPU, on the device of its inputs."""
    torch.manual_seed(0)
    expected = function(*inputs)
    torch.manual_seed(0)
    result = function(*(one.npu() for one in inputs))
    for mine, theirs in zip(
        torch.utils._pytree.tree_leaves(result), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert mine.device.type == "npu"
        torch.testing.assert_close(mine.cpu(), theirs)


def energy(x: Tensor, y: Tensor) -> Tensor:
    return (x.sin() @ y).exp().sum()


def test_grad_and_vmap() -> None:
    x, y = torch.randn(5, 3), torch.randn(3, 2)
    same(grad(energy, argnums=(0, 1)), x, y)
    same(vmap(energy, in_dims=(0, None)), x, y)
    same(vmap(grad(energy), in_dims=(0, None)), x, y)


def test_jacobians_and_products() -> None:
    x, y = torch.randn(3), torch.randn(3, 3)
    for transform in (jacrev, jacfwd, hessian):
        same(transform(energy), x, y)
    same(lambda a, b: jvp(partial(energy, y=b), (a,), (torch.ones_like(a),)), x, y)
    same(lambda a, b: vjp(energy, a, b)[1](torch.ones((), device=a.device)), x, y)


def test_vmap_over_random_numbers_and_in_place() -> None:
    same(vmap(lambda x: x.clone().mul_(2).cumsum(0)), torch.randn(4, 3))
    torch.manual_seed(1)
    noise = vmap(lambda x: x + torch.rand_like(x), randomness="different")(torch.zeros(8, 16, device="npu"))
    assert noise.unique().numel() > 100
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda x: x + torch.rand_like(x))(torch.zeros(2, 2, device="npu"))


def test_per_sample_gradients_of_a_module_and_ensembles() -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 3) for _ in range(3)]
    x, y = torch.randn(6, 4), torch.randn(6, 3)

    def per_sample(device: str) -> dict[str, Tensor]:
        model = copy.deepcopy(models[0]).to(device)
        loss = lambda p, a, b: nn.functional.mse_loss(functional_call(model, p, (a,)), b)  # noqa: E731
        return vmap(grad(loss), in_dims=(None, 0, 0))(dict(model.named_parameters()), x.to(device), y.to(device))

    for name, mine in per_sample("npu").items():
        torch.testing.assert_close(mine.cpu(), per_sample("cpu")[name])
    moved = [copy.deepcopy(one).npu() for one in models]
    parameters, buffers = stack_module_state(moved)
    together = vmap(lambda p, b: functional_call(moved[0], (p, b), (x.npu(),)))(parameters, buffers)
    torch.testing.assert_close(together.cpu(), torch.stack([one(x) for one in models]))


def test_forward_mode() -> None:
    x = torch.randn(3, 4)

    def derivative(a: Tensor) -> tuple[Tensor, Tensor]:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(a, torch.ones_like(a))
            return tuple(forward_ad.unpack_dual((dual.tanh() * dual).sum(0)))

    same(derivative, x)


def test_double_backward_and_gradcheck() -> None:
    def second(a: Tensor) -> Tensor:
        a = a.detach().requires_grad_()
        (first,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
        return torch.autograd.grad(first.sum(), a)[0]

    same(second, torch.randn(5))
    x = torch.randn(3, 4, dtype=torch.double, device="npu", requires_grad=True)
    w = torch.randn(4, 2, dtype=torch.double, device="npu", requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: (a @ b).tanh(), (x, w))
    assert torch.autograd.gradgradcheck(lambda a, b: (a @ b).tanh(), (x, w))


def test_hooks_see_npu_tensors() -> None:
    model, seen = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).npu(), []
    model[0].register_forward_pre_hook(lambda _m, inputs: seen.append(("pre", inputs[0].device.type)))
    model[0].register_forward_hook(lambda _m, _i, out: out * 2)
    model.register_full_backward_hook(lambda _m, _gi, go: seen.append(("back", go[0].device.type)))
    model[0].weight.register_hook(lambda g: g * 0)
    model[0].bias.register_post_accumulate_grad_hook(lambda p: seen.append(("grad", p.grad.device.type)))
    x = torch.randn(2, 3, device="npu", requires_grad=True)
    y = model(x)
    torch.testing.assert_close(y, torch.relu(2 * nn.functional.linear(x, model[0].weight, model[0].bias)))
    y.register_hook(lambda g: seen.append(("tensor", g.device.type)))
    y.sum().backward()
    assert {name for name, device in seen if device == "npu"} == {"pre", "back", "grad", "tensor"}
    assert model[0].weight.grad.abs().sum().item() == 0


def test_saved_tensor_hooks() -> None:
    x = torch.randn(8, device="npu", requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    torch.testing.assert_close(x.grad, x.detach().exp() * (1 + x.detach()))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_repeats_dropout(reentrant: bool) -> None:
    """The second forward draws the same masks, so the gradient fits the output."""
    x = torch.ones(1000, device="npu", requires_grad=True)
    y = checkpoint(lambda a: nn.functional.dropout(a * 3, 0.5), x, use_reentrant=reentrant)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert 0.4 < (y > 0).float().mean().item() < 0.6


def test_checkpoint_of_a_model_is_equal_to_the_plain_one() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(4))).npu()
    twin, x = copy.deepcopy(model), torch.randn(4, 8, device="npu")
    model(x).square().sum().backward()
    checkpoint_sequential(twin, 2, x, use_reentrant=False).square().sum().backward()
    for one, two in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)


def test_own_autograd_function() -> None:
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx: object, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            assert x.device == g.device and g.device.type == "npu"
            return g * (x.abs() < 1)

    x = torch.tensor([-2.0, 0.5, 3.0], device="npu", requires_grad=True)
    Clip.apply(x).sum().backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_a_gradient_that_is_not_there_stays_none_and_anomalies_are_found() -> None:
    x = torch.ones(2, device="npu", requires_grad=True)
    y = torch.ones(2, device="npu", requires_grad=True)
    (x * 2).sum().backward()
    assert y.grad is None
    with torch.autograd.set_detect_anomaly(True, check_nan=True), pytest.warns(UserWarning, match="Error detected in"):
        with pytest.raises(RuntimeError, match="returned nan values"):
            (torch.zeros(2, device="npu", requires_grad=True).sqrt() * 0).sum().backward()


def test_deepcopy_is_another_memory() -> None:
    model = nn.Linear(2, 2).npu()
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.weight.zero_()
    assert twin.weight.device.type == "npu"
    assert model.weight.abs().sum().item() > 0


def test_in_place_on_a_saved_tensor_is_refused() -> None:
    x = torch.ones(3, device="npu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
