"""torch_npu.optim: the fused optimizers against torch.optim and against formulas written here, over 200 steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu.optim as fused
from torch import Tensor

STEPS = 200
SHAPES = [(4, 3, 3, 3), (4,), (7, 5), (5,), (), (1, 9), (6, 2)]
Params = list[torch.nn.Parameter]


def params(dtype: torch.dtype = torch.float32, device: str = "npu") -> Params:
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape).to(device, dtype)) for shape in SHAPES]


@functools.cache
def gradients(step: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Sizes that change with time and place, so that every option matters."""
    made = torch.Generator().manual_seed(step)
    return [
        (torch.randn(shape, generator=made) * (1 + step % 5) * 3.0 ** (i % 3 - 1)).to(dtype)
        for i, shape in enumerate(SHAPES)
    ]


def train(optimizer: torch.optim.Optimizer, ps: Params, steps: range = range(STEPS)) -> None:
    for step in steps:
        optimizer.zero_grad()
        for one, grad in zip(ps, gradients(step, ps[0].dtype), strict=True):
            if one.grad is None:
                one.grad = grad.to(one.device)
            else:
                one.grad.add_(grad.to(one.device))
        optimizer.step()


def assert_same(found: Params, wanted: list[Tensor] | Params, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach().cpu(), rtol=rtol, atol=atol)


PLAIN = [
    ("Adam", {}),
    ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.02, "weight_decay": 0.2, "amsgrad": True}),
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.01}),
]


@pytest.mark.parametrize(("name", "options"), PLAIN)
def test_torch_optim(name: str, options: dict[str, Any]) -> None:
    mine, theirs = params(), params()
    train(getattr(fused, f"NpuFused{name}")(mine, **options), mine)
    train(getattr(torch.optim, name)(theirs, **options, foreach=False), theirs)
    assert_same(mine, theirs)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float16, 5e-3)])
def test_other_dtypes(dtype: torch.dtype, tolerance: float) -> None:
    """Halves round where a vector register ends elsewhere: some last bits differ."""
    mine, theirs = params(dtype), params(dtype)
    train(fused.NpuFusedSGD(mine, 0.01, momentum=0.9), mine, range(50))
    train(torch.optim.SGD(theirs, 0.01, momentum=0.9, foreach=False), theirs, range(50))
    assert_same(mine, theirs, tolerance, tolerance)
    assert mine[0].dtype == dtype


Formula = Callable[[Tensor, Tensor, dict[str, Tensor], int], Tensor]


def by_formula(formula: Formula) -> list[Tensor]:
    """Each parameter alone, in float64: formula(weight, gradient, its states, step from 1) gives the new weight."""
    results = []
    for place, one in enumerate(params(torch.float64, "cpu")):
        weight, state = one.detach(), {"m": torch.zeros_like(one).detach(), "v": torch.zeros_like(one).detach()}
        for step in range(STEPS):
            weight = formula(weight, gradients(step)[place].double(), state, step + 1)
        results.append(weight.float())
    return results


def moments(grad: Tensor, s: dict[str, Tensor], b1: float = 0.9, b2: float = 0.999) -> None:
    s["m"] = b1 * s["m"] + (1 - b1) * grad
    s["v"] = b2 * s["v"] + (1 - b2) * grad * grad


@pytest.mark.parametrize("adam", [False, True])
def test_lamb_steps_by_its_formula(adam: bool) -> None:
    def formula(w: Tensor, g: Tensor, s: dict[str, Tensor], _step: int) -> Tensor:
        moments(g, s)
        step = s["m"] / (s["v"].sqrt() + 1e-6) + 0.01 * w
        norm = min(float(w.norm()), 10.0)
        ratio = 1.0 if adam or norm == 0 or step.norm() == 0 else norm / float(step.norm())
        return w - 0.01 * ratio * step

    mine = params()
    train(fused.NpuFusedLamb(mine, lr=0.01, weight_decay=0.01, adam=adam), mine)
    assert_same(mine, by_formula(formula), 1e-4, 1e-5)


def test_lamb_with_the_global_norm() -> None:
    """Gradients above norm 1 (over all parameters) are brought to it, smaller ones stay."""
    mine, theirs = params(), params()
    one = fused.NpuFusedLamb(mine, use_global_grad_norm=True)
    other = fused.NpuFusedLamb(theirs)
    for step in range(20):
        grads = [grad * (1e-3 if step % 2 else 1.0) for grad in gradients(step)]
        norm = max(1.0, float(torch.cat([grad.flatten() for grad in grads]).norm()))
        for a, b, grad in zip(mine, theirs, grads, strict=True):
            a.grad, b.grad = grad.npu(), (grad / norm).npu()
        one.step()
        other.step()
    assert_same(mine, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("schedule", "warmup"), [("warmup_linear", 0.1), ("warmup_cosine", 0.2), ("warmup_constant", -1)]
)
def test_bert_adam(schedule: str, warmup: float) -> None:
    def rate(step: int) -> float:
        x = (step - 1) / (2 * STEPS)
        if x < warmup:
            return x / warmup
        return {"warmup_linear": (1 - x) / (1 - warmup), "warmup_cosine": (1 + math.cos(math.pi * x)) / 2}.get(
            schedule, 1.0
        )

    def formula(w: Tensor, g: Tensor, s: dict[str, Tensor], step: int) -> Tensor:
        g = g * min(1.0, 0.5 / (float(g.norm()) + 1e-6))
        moments(g, s)
        return w - 0.01 * rate(step) * (s["m"] / (s["v"].sqrt() + 1e-6) + 0.01 * w)

    mine = params()
    optimizer = fused.NpuFusedBertAdam(
        mine, 0.01, warmup=warmup, t_total=2 * STEPS, schedule=schedule, max_grad_norm=0.5
    )
    assert optimizer.get_lr() == [0]
    train(optimizer, mine)
    assert_same(mine, by_formula(formula), 1e-4, 1e-5)
    assert optimizer.get_lr() == pytest.approx([0.01 * rate(STEPS + 1)] * len(mine))


@pytest.mark.parametrize("nesterov", [False, True])
def test_adamp_steps_by_its_formula(nesterov: bool) -> None:
    projected = []

    def formula(w: Tensor, g: Tensor, s: dict[str, Tensor], step: int) -> Tensor:
        moments(g, s)
        top = 0.9 * s["m"] + 0.1 * g if nesterov else s["m"]
        move = top / ((s["v"] / (1 - 0.999**step)).sqrt() + 1e-8)
        share = 1.0
        for rows in (len(w), 1) if w.dim() > 1 else ():
            x, y = w.reshape(rows, -1), g.reshape(rows, -1)
            angle = torch.nn.functional.cosine_similarity(x, y, dim=1, eps=1e-8).abs().max()
            if angle < 0.9 / math.sqrt(x.shape[1]):
                unit = x / (x.norm(dim=1, keepdim=True) + 1e-8)
                along = (unit * move.reshape(rows, -1)).sum(1, keepdim=True)
                move = move - (unit * along).reshape(w.shape)
                share = 0.1
                projected.append(rows)
                break
        return w * (1 - 0.01 * 0.1 * share) - 0.01 / (1 - 0.9**step) * move

    mine = params()
    train(fused.NpuFusedAdamP(mine, lr=0.01, weight_decay=0.1, delta=0.9, nesterov=nesterov), mine)
    assert_same(mine, by_formula(formula), 1e-4, 1e-5)
    assert 1 in projected and max(projected) > 1  # both kinds were met


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_tf(inside: bool, centered: bool) -> None:
    def formula(w: Tensor, g: Tensor, s: dict[str, Tensor], step: int) -> Tensor:
        if step == 1:
            s["v"] = torch.ones_like(w)
            s["mean"] = torch.zeros_like(w)
        g = g if inside else g + 0.01 * w
        w = w * (1 - 0.01 * 0.01) if inside else w
        s["v"] = 0.9 * s["v"] + 0.1 * g * g
        s["mean"] = 0.9 * s["mean"] + 0.1 * g
        root = (s["v"] - (s["mean"] ** 2 if centered else 0) + 1e-3).sqrt()
        s["m"] = 0.8 * s["m"] + (0.01 if inside else 1) * g / root
        return w - (1 if inside else 0.01) * s["m"]

    mine = params()
    options = {"momentum": 0.8, "centered": centered, "weight_decay": 0.01, "eps": 1e-3}
    train(fused.NpuFusedRMSpropTF(mine, decoupled_decay=inside, lr_in_momentum=inside, **options), mine)
    assert_same(mine, by_formula(formula), 1e-4, 1e-5)
