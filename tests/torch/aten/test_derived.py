"""Derivatives of all kinds on npu in float64: gradcheck, gradgradcheck, forward mode, vmap, for a sample of the operator families."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_npu")
from torch import Tensor, nn  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.func import functional_call, hessian, jacfwd, jacrev, jvp, vmap  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated"
)  # torch's own, at the first dual number

Shapes = tuple[tuple[int, ...], ...]

FAMILIES: dict[str, tuple[Callable[..., Tensor], Shapes]] = {
    "matmul": (lambda a, b: torch.tanh(a @ b), ((3, 4), (4, 2))),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), ((1, 2, 4, 4), (3, 2, 3, 3), (3,))),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), ((1, 2, 4), (2, 3, 3))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))),
    "batch_norm": (lambda x, w: F.batch_norm(x, None, None, w, training=True), ((4, 3), (3,))),
    "group_norm": (lambda x, w: F.group_norm(x, 2, w), ((2, 4, 3), (4,))),
    "softmax": (lambda x: F.log_softmax(x, -1) * F.softmax(x, 0), ((3, 4),)),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4))),
    "avg_pool": (lambda x: F.avg_pool2d(x, 2).square(), ((1, 2, 4, 4),)),
    "adaptive_pool": (lambda x: F.adaptive_avg_pool2d(x, 2).square(), ((1, 2, 5, 4),)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic").square(), ((1, 1, 3, 3),)),
    "index": (lambda x: x[torch.tensor([0, 2, 2], device=x.device)].square() + x[:, None, :2].sum(-1), ((3, 3),)),
    "scatter": (lambda x, y: x.scatter_add(0, torch.tensor([[0, 1, 0]], device=x.device), y).square(), ((2, 3), (1, 3))),
    "norm": (lambda x: torch.linalg.vector_norm(x, 3, 0) + x.std(0), ((4, 2),)),
    "inverse": (lambda x: torch.linalg.inv(x + 4 * torch.eye(3, device=x.device, dtype=x.dtype)), ((3, 3),)),
    "cumulative": (lambda x: x.cumsum(0) * x.cumprod(1).logsumexp(0), ((3, 3),)),
    "where": (lambda x, y: torch.where(x > y, x * y, x.sin()).lerp(y, 0.3), ((3, 3), (3, 3))),
    "fft": (lambda x: torch.fft.rfft(x).abs().square(), ((2, 6),)),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 0.1), ((2, 3),)),
    "addmv": (lambda x, m, v: torch.addmv(x, m, v).exp(), ((3,), (3, 2), (2,))),
    "hardswish": (lambda x: F.mish(x) + F.silu(x) + F.gelu(x) + F.softplus(x), ((5,),)),
    "loss": (lambda x, y: F.huber_loss(x, y) + F.mse_loss(x, y) + F.binary_cross_entropy_with_logits(x, y.sigmoid()), ((5,), (5,))),
    "bilinear": (F.bilinear, ((2, 3), (2, 2), (4, 3, 2))),
}  # fmt: skip


def arguments(shapes: Shapes) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=torch.float64).npu().requires_grad_() for shape in shapes]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_first_and_second_derivatives(family: str) -> None:
    function, shapes = FAMILIES[family]
    given = arguments(shapes)
    with torch.nn.attention.sdpa_kernel(
        torch.nn.attention.SDPBackend.MATH
    ):  # the flash kernel has no second derivative
        assert gradcheck(function, given, check_forward_ad=family not in ("attention",), fast_mode=True)
        assert gradgradcheck(function, given, fast_mode=True)


@pytest.mark.parametrize(
    "family", ["matmul", "conv2d", "layer_norm", "softmax", "index", "scatter", "where", "fft", "norm"]
)
def test_vmap_equals_a_loop_and_modes_agree(family: str) -> None:
    function, shapes = FAMILIES[family]
    single = [x.detach() for x in arguments(shapes)]
    batch = [torch.stack([x, x * 0.5, x - 0.1]) for x in single]
    looped = torch.stack([function(*one) for one in zip(*batch, strict=True)])
    mapped = vmap(function)(*batch)
    assert mapped.device.type == "npu"
    torch.testing.assert_close(mapped, looped)
    backward, forward = jacrev(function)(*single), jacfwd(function)(*single)
    torch.testing.assert_close(backward, forward)
    here = jacrev(function)(*[x.cpu() for x in single])
    torch.testing.assert_close(backward.cpu(), here)
    direction = [torch.ones_like(x) for x in single]
    value, change = jvp(function, tuple(single), tuple(direction))
    torch.testing.assert_close(value, function(*single))
    step = 1e-6
    ahead, behind = (function(*(x + s * d for x, d in zip(single, direction, strict=True))) for s in (step, -step))
    torch.testing.assert_close(change, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-6)


def test_hessian_of_a_module_equals_the_cpu() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    weights = {name: p.detach().clone() for name, p in network.named_parameters()}
    x = torch.randn(5, 3, dtype=torch.float64)

    def curvature(device: str) -> dict[str, dict[str, Tensor]]:
        there = {name: value.to(device) for name, value in weights.items()}
        model, batch = network.to(device), x.to(device)
        return hessian(lambda w: functional_call(model, w, (batch,)).square().sum())(there)

    found, wanted = curvature("npu"), curvature("cpu")
    for a in weights:
        for b in weights:
            assert found[a][b].device.type == "npu"
            torch.testing.assert_close(found[a][b].cpu(), wanted[a][b])


def test_recurrent_cells_have_gradients_that_check() -> None:
    torch.manual_seed(0)
    for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
        cell, x = kind(3, 4).double().npu(), torch.randn(2, 3, dtype=torch.float64).npu().requires_grad_()

        def step(value: Tensor, cell: nn.Module = cell) -> Tensor:
            result = cell(value)
            return torch.cat(result) if isinstance(result, tuple) else result

        assert gradcheck(step, x, fast_mode=True) and gradgradcheck(step, x, fast_mode=True)
