"""Whole models on npu give what they give on the CPU: outputs, gradients, and the losses of a training."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_npu  # noqa: F401
from torch import Tensor, nn

from tests.torch.networks import FULL, SMALL, Case, loss_of  # isort: skip


def pair(case: Case) -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    model = case.make()
    inputs, targets = case.batch()
    return model, copy.deepcopy(model).npu(), inputs, targets


def check(case: Case, tolerance: float) -> None:
    """Forward and backward once: the outputs, the loss, every gradient and every buffer."""
    cpu, npu, inputs, targets = pair(case)
    here, there = cpu(inputs), npu(inputs.npu())
    assert there.device.type == "npu"
    torch.testing.assert_close(there.cpu(), here, rtol=tolerance, atol=tolerance)
    loss_of(here, targets).backward()
    loss_of(there, targets.npu()).backward()
    for (name, mine), theirs in zip(npu.named_parameters(), cpu.parameters(), strict=True):
        assert mine.grad is not None and mine.grad.device.type == "npu", name
        torch.testing.assert_close(
            mine.grad.cpu(), theirs.grad, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )
    for (name, mine), theirs in zip(npu.named_buffers(), cpu.buffers(), strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, msg=lambda m, n=name: f"{n}: {m}")


def losses(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[tuple[Tensor, Tensor]], steps: int
) -> list[float]:
    curve = []
    for step in range(steps):
        inputs, targets = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


def check_training(case: Case, steps: int, optimizer: str = "AdamW", rate: float = 1e-3, **options: float) -> None:
    cpu, npu, *_ = pair(case)
    batches = [case.batch() for _ in range(4)]
    make = getattr(torch.optim, optimizer)
    expected = losses(cpu, make(cpu.parameters(), lr=rate, **options), batches, steps)
    there = [(inputs.npu(), targets.npu()) for inputs, targets in batches]
    result = losses(npu, make(npu.parameters(), lr=rate, **options), there, steps)
    assert result == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert steps < 100 or expected[-1] < expected[0] * 0.8, (
        "the training does not learn: equal curves would say nothing"
    )


@pytest.mark.parametrize("name", SMALL)
def test_forward_and_backward(name: str) -> None:
    check(SMALL[name], 1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_steps_have_the_same_losses(name: str) -> None:
    check_training(SMALL[name], 200)


@pytest.mark.parametrize(
    ("optimizer", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {}), ("Adagrad", {})]
)
def test_other_optimizers(optimizer: str, options: dict[str, float]) -> None:
    check_training(SMALL["vit"], 10, optimizer, **options)


def test_dropout_has_equal_masks_when_seeded_alike() -> None:
    """The same seed gives the same masks in two runs on npu, and another seed others."""
    layer, x = nn.Dropout(0.5), torch.ones(1000, device="npu")
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(layer(x))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert 0.4 < (masks[0] > 0).float().mean().item() < 0.6


def test_the_optimizer_made_before_the_move_trains_the_moved_model() -> None:
    """`model.npu()` keeps the Parameter objects, and tied weights stay tied."""
    torch.manual_seed(0)
    model = SMALL["gpt2"].make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.npu()
    assert model.head.weight is model.word.weight
    before = model.head.weight.detach().clone()
    inputs, targets = SMALL["gpt2"].batch()
    loss_of(model(inputs.npu()), targets.npu()).backward()
    optimizer.step()
    assert not torch.equal(model.word.weight, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_full_size(name: str) -> None:
    check(FULL[name], 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet50", "bert_base"])
def test_full_size_trains_alike(name: str) -> None:
    check_training(FULL[name], 3, "SGD")
