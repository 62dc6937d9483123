"""Hyper-connections with doubly stochastic mixing, against loops in float64; their `_backward` operators against autograd."""

from __future__ import annotations

import pytest
import torch
import torch_npu.operators
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck

torch_npu.operators.register()
ops = torch.ops.npu
N, WIDTH = 4, 5
OUTPUTS = N * N + 2 * N


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)), dtype=torch.float64)


def close(found: Tensor, wanted: Tensor, limit: float = 1e-9) -> None:
    torch.testing.assert_close(found.cpu().double(), wanted.double(), rtol=limit, atol=limit)


def sinkhorn(x: Tensor, eps: float, iterations: int) -> Tensor:
    """One matrix by loops over its rows and columns."""
    m = torch.zeros_like(x)
    for i in range(N):
        total = sum(float(one) for one in x[i].exp())
        m[i] = x[i].exp() / total + eps
    for turn in range(iterations):
        if turn:
            for i in range(N):
                m[i] = m[i] / (m[i].sum() + eps)
        for j in range(N):
            m[:, j] = m[:, j] / (m[:, j].sum() + eps)
    return m


def test_sinkhorn_is_its_iteration() -> None:
    x = rand(2, 3, N, N)
    y, norm, total = ops.npu_mhc_sinkhorn(x.npu(), eps=1e-3, num_iters=5)
    assert norm.numel() == total.numel() == 0
    for at in [(0, 0), (1, 2)]:
        close(y[at], sinkhorn(x[at], 1e-3, 5))
    fine = ops.npu_mhc_sinkhorn(x.npu(), num_iters=50)[0]
    close(fine.sum(-1), torch.ones(2, 3, N), 1e-4)
    close(fine.sum(-2), torch.ones(2, 3, N), 1e-4)


def test_sinkhorn_gradients() -> None:
    x, grad = rand(2, N, N).npu().requires_grad_(), rand(2, N, N, seed=1).npu()
    y, norm, total = ops.npu_mhc_sinkhorn(x, eps=1e-2, num_iters=3, out_flag=1)
    assert norm.shape == (6, 2, N, N) and total.shape == (6, 2, N)
    (wanted,) = torch.autograd.grad(y, x, grad)
    close(ops.npu_mhc_sinkhorn_backward(grad, norm.detach(), total.detach()), wanted.cpu())
    assert gradcheck(lambda one: ops.npu_mhc_sinkhorn(one, num_iters=3)[0], x, fast_mode=True)
    with pytest.raises(RuntimeError, match="out_flag 1"):
        ops.npu_mhc_sinkhorn_backward(grad, norm[:, 0].detach(), total.detach())


def operands() -> dict[str, Tensor]:
    return {
        "x": rand(2, 3, N, WIDTH), "phi": rand(OUTPUTS, N * WIDTH, seed=1) / 4, "alpha": torch.tensor([0.5, 0.7, 1.1]).double(),
        "bias": rand(OUTPUTS, seed=2), "gamma": rand(N, WIDTH, seed=3),
    }  # fmt: skip


def pre(x: Tensor, phi: Tensor, alpha: Tensor, bias: Tensor, gamma: Tensor | None, norm_eps: float, hc_eps: float):
    """One token, by loops over outputs and streams."""
    flat = x.flatten()
    rms = (flat.square().mean() + norm_eps).sqrt()
    scaled = flat / rms * (1 if gamma is None else gamma.flatten())
    out = [alpha[0 if o < N else 1 if o < 2 * N else 2] * (phi[o] @ scaled) + bias[o] for o in range(OUTPUTS)]
    gates = [1 / (1 + torch.exp(-one)) for one in out]
    h_in = sum((gates[n] + hc_eps) * x[n] for n in range(N))
    return h_in, 2 * torch.stack(gates[N : 2 * N]), torch.stack(out[2 * N :]).view(N, N)


@pytest.mark.parametrize("with_gamma", [True, False])
def test_the_step_before_the_block_is_its_formula(with_gamma: bool) -> None:
    given = operands()
    gamma = given.pop("gamma")
    gamma = gamma if with_gamma else None
    moved = [one.npu() for one in given.values()]
    options = {"gamma": None if gamma is None else gamma.npu(), "norm_eps": 1e-2, "hc_eps": 1e-2}
    result = ops.npu_mhc_pre(*moved, **options)
    assert [one.numel() for one in result[3:]] == [0, 0, 0]
    for at in [(0, 0), (1, 2)]:
        wanted = pre(given["x"][at], *list(given.values())[1:], gamma, 1e-2, 1e-2)
        for one, expected in zip(result[:3], wanted, strict=True):
            close(one[at], expected)


@pytest.mark.parametrize("with_gamma", [True, False])
def test_gradients_of_pre(with_gamma: bool) -> None:
    given = {name: one.npu().requires_grad_() for name, one in operands().items()}
    gamma = given.pop("gamma")
    gamma = gamma if with_gamma else None
    h_in, h_post, h_res, *kept = ops.npu_mhc_pre(*given.values(), gamma=gamma, hc_eps=1e-2, out_flag=1)
    grads = [rand(*one.shape, seed=5).npu() for one in (h_in, h_post, h_res)]
    leaves = [*given.values()] + ([gamma] if with_gamma else [])
    wanted = torch.autograd.grad((h_in, h_post, h_res), leaves, grads)
    plain = [given[name].detach() for name in ("x", "phi", "alpha")]
    inv_rms, mix, h_pre = (one.detach() for one in kept)
    result = ops.npu_mhc_pre_backward(
        *plain, *grads, inv_rms, mix, h_pre, h_post.detach(), None if gamma is None else gamma.detach(), 1e-2
    )
    for one, expected in zip(result, wanted, strict=False):
        close(one, expected.cpu())
    assert with_gamma or result[4].numel() == 0
    more = ops.npu_mhc_pre_backward(
        *plain, *grads, inv_rms, mix, h_pre, h_post.detach(), None if gamma is None else gamma.detach(), 1e-2, plain[0]
    )
    close(more[0], (result[0] + plain[0]).cpu())


def test_post_and_its_gradients() -> None:
    given = [rand(2, N, WIDTH), rand(2, N, N, seed=1), rand(2, WIDTH, seed=2), rand(2, N, seed=3)]
    x, h_res, h_out, h_post = given
    leaves = [one.npu().requires_grad_() for one in given]
    y = ops.npu_mhc_post(*leaves)
    for token in range(2):
        for j in range(N):
            wanted = sum(h_res[token, i, j] * x[token, i] for i in range(N)) + h_post[token, j] * h_out[token]
            close(y[token, j], wanted)
    grad = rand(2, N, WIDTH, seed=4).npu()
    result = ops.npu_mhc_post_backward(grad, *(one.detach() for one in leaves))
    for one, expected in zip(result, torch.autograd.grad(y, leaves, grad), strict=True):
        close(one, expected.cpu())


def test_half_precision_keeps_statistics_in_float32() -> None:
    given = operands()
    moved = {name: one.npu().to(torch.bfloat16 if name == "x" else torch.float32) for name, one in given.items()}
    gamma = moved.pop("gamma")
    h_in, h_post, h_res, *kept = ops.npu_mhc_pre(*moved.values(), gamma=gamma, out_flag=1)
    assert h_in.dtype == torch.bfloat16 and {one.dtype for one in (h_post, h_res, *kept)} == {torch.float32}
    x = given["x"][0, 0].bfloat16().double()
    close(h_in[0, 0], pre(x, *list(given.values())[1:4], given["gamma"], 1e-6, 1e-6)[0], 2e-2)
    mixed = ops.npu_mhc_sinkhorn(h_res)[0]
    assert ops.npu_mhc_post(moved["x"], mixed, h_in, h_post).dtype == torch.bfloat16


def test_shapes_of_fake_tensors() -> None:
    moved = {name: one.npu() for name, one in operands().items()}
    gamma = moved.pop("gamma")
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(one) for one in moved.values()]
        h_in, h_post, h_res, inv_rms, mix, h_pre = ops.npu_mhc_pre(*fakes, gamma=mode.from_tensor(gamma), out_flag=1)
        y = ops.npu_mhc_post(fakes[0], ops.npu_mhc_sinkhorn(h_res)[0], h_in, h_post)
    assert h_in.shape == (2, 3, WIDTH) and h_res.shape == (2, 3, N, N) and y.shape == (2, 3, N, WIDTH)
    assert inv_rms.shape == (2, 3, 1) and mix.shape == (2, 3, OUTPUTS) and h_pre.shape == h_post.shape == (2, 3, N)


def test_bad_arguments() -> None:
    moved = {name: one.npu() for name, one in operands().items()}
    gamma = moved.pop("gamma")
    with pytest.raises(RuntimeError, match="end in a square"):
        ops.npu_mhc_sinkhorn(moved["x"])
    with pytest.raises(RuntimeError, match="num_iters must be positive"):
        ops.npu_mhc_sinkhorn(moved["x"][..., :N], num_iters=0)
    with pytest.raises(RuntimeError, match="phi must be"):
        ops.npu_mhc_pre(*(moved | {"phi": moved["phi"].t()}).values())
    with pytest.raises(RuntimeError, match="alpha must have 3"):
        ops.npu_mhc_pre(*(moved | {"alpha": gamma}).values())
    with pytest.raises(NotImplementedError, match="inner_precise 1"):
        ops.npu_mhc_pre(*moved.values(), inner_precise=1)
    with pytest.raises(NotImplementedError, match="without h_res"):
        ops.npu_mhc_post(moved["x"], None, moved["x"][..., 0, :], moved["x"][..., 0])
    with pytest.raises(RuntimeError, match="h_post must be"):
        ops.npu_mhc_post(moved["x"], moved["x"][..., :N], moved["x"][..., 0, :], moved["x"])
