"""apex.amp in training: convergence against float32, overflows, accumulation, several losses, groups, master weights."""

from __future__ import annotations

import argparse
import statistics
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from apex import amp
from torch import nn

from tests.torch.apex.runs import cnn, former, fresh_amp, pictures, run, sentences  # noqa: F401

MODELS = {"cnn": (cnn, pictures), "transformer": (former, sentences)}
_reference: dict[str, list[float]] = {}


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), 2e-3)


def in_float32(name: str) -> list[float]:
    if name not in _reference:
        make, data = MODELS[name]
        model = make()
        _reference[name] = run(model, adam(model), data, range(300), scaled=False)
    return _reference[name]


@pytest.mark.parametrize(
    ("level", "name", "combine"),
    [
        ("O1", "cnn", None),
        ("O2", "cnn", None),
        ("O2", "cnn", True),
        ("O1", "transformer", None),
        ("O2", "transformer", None),
    ],
)
def test_steps_converge_as_float32_does(level: str, name: str, combine: bool | None) -> None:
    wanted = in_float32(name)
    make, data = MODELS[name]
    model = make()
    model, optimizer = amp.initialize(model, adam(model), opt_level=level, verbosity=0, combine_grad=combine)
    result = run(model, optimizer, data, range(300))
    assert statistics.mean(wanted[-50:]) < 0.7 * statistics.mean(wanted[:10])  # it learns at all
    for part in (slice(0, 50), slice(100, 150), slice(250, 300)):
        assert statistics.mean(result[part]) == pytest.approx(statistics.mean(wanted[part]), rel=0.05, abs=0.02)
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 300}}


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("combine", [None, True])
def test_an_overflow_is_skipped_and_the_scale_halved(
    level: str, combine: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    model = cnn()
    model, optimizer = amp.initialize(model, adam(model), opt_level=level, combine_grad=combine)
    run(model, optimizer, pictures, range(3))
    capsys.readouterr()
    before = [one.detach().clone() for one in [*amp.master_params(optimizer), *model.parameters()]]
    state = optimizer.state[next(amp.master_params(optimizer))]["step"].item()
    loss = nn.functional.cross_entropy(model(pictures(3)[0]), pictures(3)[1])
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
        model[7].weight.grad[1, 2] = float("inf")
    optimizer.step()
    assert capsys.readouterr().out == (
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n"
    )
    after = [*amp.master_params(optimizer), *model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert optimizer.state[next(amp.master_params(optimizer))]["step"].item() == state
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 32768.0, "unskipped": 0}}
    run(model, optimizer, pictures, range(4, 6))
    assert not any(torch.equal(a, b) for a, b in zip(before[:2], list(amp.master_params(optimizer))[:2], strict=True))
    assert all(torch.isfinite(one).all() for one in model.parameters())
    assert amp.state_dict()["loss_scaler0"]["unskipped"] == 2


def test_the_scale_grows_falls_and_keeps_its_limits() -> None:
    model = cnn()
    options: dict[str, Any] = {
        "dynamic_init_scale": 16.0,
        "scale_window": 2,
        "scale_growth_factor": 4.0,
        "max_loss_scale": 100.0,
    }
    model, optimizer = amp.initialize(
        model, adam(model), opt_level="O1", verbosity=0, min_loss_scale=20.0, scale_backoff_factor=0.25, **options
    )
    scales = []
    for step in range(9):
        x, target = pictures(step)
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        with amp.scale_loss(loss * (float("nan") if step in (5, 6) else 1.0), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        scales.append(amp.state_dict()["loss_scaler0"]["loss_scale"])
    assert scales == [16.0, 64.0, 64.0, 100.0, 100.0, 25.0, 20.0, 20.0, 80.0]


def test_a_static_scale_neither_looks_nor_changes() -> None:
    results = []
    for scale in (1.0, 128.0):
        model = cnn()
        model, optimizer = amp.initialize(model, adam(model), opt_level="O2", loss_scale=scale, verbosity=0)
        run(model, optimizer, pictures, range(5))
        results.append(next(amp.master_params(optimizer)).detach().clone())
        assert amp.state_dict()["loss_scaler0"]["loss_scale"] == scale
    torch.testing.assert_close(*results, rtol=1e-2, atol=1e-3)
    loss = nn.functional.cross_entropy(model(pictures(0)[0]), pictures(0)[1]) * float("inf")
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
    assert next(amp.master_params(optimizer)).isnan().any()


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("combine", [None, True])
def test_gradients_add_up_over_backward_passes(level: str, delay: bool, combine: bool | None) -> None:
    model = cnn()
    model, optimizer = amp.initialize(
        model, adam(model), opt_level=level, verbosity=0, loss_scale=128.0, combine_grad=combine
    )
    model.eval()  # the same network in every pass
    optimizer.zero_grad()
    for step in range(3):
        x, target = pictures(step)
        with amp.scale_loss(
            nn.functional.cross_entropy(model(x), target), optimizer, delay_unscale=delay and step < 2
        ) as loss:
            loss.backward()
        if delay and step == 1:
            with pytest.raises(RuntimeError, match=r"still carry the loss scale 128\.0"):
                optimizer.step()
    plain = cnn().eval()
    with amp.disable_casts():
        for step in range(3):
            x, target = pictures(step)
            nn.functional.cross_entropy(plain(x), target).backward()
    for one, other in zip(amp.master_params(optimizer), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0.02, atol=3e-3)


def test_two_models_two_optimizers_three_losses(capsys: pytest.CaptureFixture[str]) -> None:
    """The scheme of a GAN: each loss has a scale, one overflows and only its optimizer skips."""
    one, two = cnn(), cnn()
    (one, two), (first, second) = amp.initialize([one, two], [adam(one), adam(two)], opt_level="O2", num_losses=3)
    capsys.readouterr()
    x, target = pictures(0)
    a = nn.functional.cross_entropy(one(x), target)
    b = nn.functional.cross_entropy(two(x), target)
    with amp.scale_loss(a, first, loss_id=0) as loss:
        loss.backward(retain_graph=True)
    with amp.scale_loss(b * float("inf"), second, loss_id=1) as loss:
        loss.backward()
    before = [[each.detach().clone() for each in amp.master_params(opt)] for opt in (first, second)]
    first.step()
    second.step()
    moved = [not torch.equal(before[i][0], next(amp.master_params(opt))) for i, opt in enumerate((first, second))]
    assert moved == [True, False]
    assert "loss scaler 1 reducing loss scale to 32768.0" in capsys.readouterr().out
    x, target = pictures(1)
    first.zero_grad()
    second.zero_grad()
    both = nn.functional.cross_entropy(one(x) + two(x), target)
    with amp.scale_loss(both, [first, second], loss_id=2) as loss:
        loss.backward()
    first.step()
    second.step()
    assert not torch.equal(before[1][0], next(amp.master_params(second)))
    assert [state["unskipped"] for state in amp.state_dict().values()] == [1, 0, 1]


def test_losses_of_different_scales_meet_in_one_optimizer() -> None:
    model = cnn()
    model, optimizer = amp.initialize(model, adam(model), opt_level="O1", num_losses=2, verbosity=0)
    amp.load_state_dict(
        {"loss_scaler0": {"loss_scale": 8.0, "unskipped": 0}, "loss_scaler1": {"loss_scale": 512.0, "unskipped": 0}}
    )
    model.eval()
    for place in range(2):
        x, target = pictures(place)
        with amp.scale_loss(
            nn.functional.cross_entropy(model(x), target), optimizer, loss_id=place, delay_unscale=place == 0
        ) as loss:
            loss.backward()
    plain = cnn().eval()
    with amp.disable_casts():
        sum(nn.functional.cross_entropy(plain(pictures(i)[0]), pictures(i)[1]) for i in range(2)).backward()
    torch.testing.assert_close(model[0].weight.grad, plain[0].weight.grad, rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("combine", [None, True])
def test_add_param_group(level: str, combine: bool | None) -> None:
    results = []
    for late in (False, True):
        model = cnn()
        start = [*model[:4].parameters()] if late else [*model.parameters()]
        model, optimizer = amp.initialize(
            model, torch.optim.SGD(start, 0.1), opt_level=level, verbosity=0, combine_grad=combine
        )
        if late:
            optimizer.add_param_group({"params": [*model[4:].parameters()], "lr": 0.1})
        run(model, optimizer, pictures, range(3))
        results.append([one.detach().float() for one in model.parameters()])
        assert {one.dtype for one in amp.master_params(optimizer)} == {torch.float32}
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-3)


def test_master_weights_begin_with_all_their_digits() -> None:
    model = cnn()
    wanted = [one.detach().clone() for one in model.parameters()]
    model, optimizer = amp.initialize(model, adam(model), opt_level="O2", verbosity=0)
    masters = list(amp.master_params(optimizer))
    assert all(torch.equal(a, b) for a, b in zip(masters, wanted, strict=True))
    run(model, optimizer, pictures, range(2))
    for one, master in zip(model.parameters(), masters, strict=True):
        assert torch.equal(one, master.to(one.dtype))
    with pytest.raises(RuntimeError, match="does not support closure use"):
        optimizer.step(lambda: 0.0)


def test_zero_grad_and_schedulers() -> None:
    for before in (True, False):
        model = cnn()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5) if before else None
        model, optimizer = amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
        scheduler = scheduler or torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        loss = nn.functional.cross_entropy(model(pictures(0)[0]), pictures(0)[1]) * float("inf")
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()  # skipped, and still the scheduler may follow without a warning
        scheduler.step()
        assert optimizer.param_groups[0]["lr"] == 0.05
        run(model, optimizer, pictures, range(1))
        optimizer.zero_grad(set_to_none=False)
        assert all(
            one.grad is None or not one.grad.any() for one in [*model.parameters(), *amp.master_params(optimizer)]
        )
        optimizer.zero_grad()
        assert all(one.grad is None for one in [*model.parameters(), *amp.master_params(optimizer)])


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("combine", [None, True])
def test_parameters_that_begin_to_train_later(level: str, combine: bool | None) -> None:
    results = []
    for amped in (True, False):
        model = cnn()
        model[:4].requires_grad_(False)
        optimizer: Any = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        if amped:
            model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0, combine_grad=combine)
        with amp.disable_casts() if not amped else nullcontext():
            run(model, optimizer, pictures, range(2), scaled=amped)
            still = model[0].weight.detach().float().clone()
            model.requires_grad_(True)
            run(model, optimizer, pictures, range(2, 5), scaled=amped)
        assert not torch.equal(still, model[0].weight.float())
        results.append([one.detach().float() for one in model.parameters()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0.05, atol=5e-3)


def test_the_lines_of_the_porting_guide(tmp_path: Path) -> None:
    """main_worker of the porting guide: initialize with the script's options, train, save, and resume."""
    args = argparse.Namespace(amp=True, opt_level="O2", loss_scale=1024.0, lr=0.05, momentum=0.9, weight_decay=1e-4)
    file = tmp_path / "checkpoint.pth.tar"

    def worker(resume: bool) -> list[float]:
        model = cnn()
        optimizer: Any = torch.optim.SGD(
            model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay
        )
        if args.amp:
            model, optimizer = amp.initialize(
                model, optimizer, opt_level=args.opt_level, loss_scale=args.loss_scale, verbosity=0
            )
        if resume:
            checkpoint = torch.load(file, map_location="npu:0")
            model.load_state_dict(checkpoint["state_dict"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            amp.load_state_dict(checkpoint["amp"])
            return run(model, optimizer, pictures, range(5, 10))
        run(model, optimizer, pictures, range(5))
        torch.save(
            {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, file
        )
        return run(model, optimizer, pictures, range(5, 10))

    assert worker(resume=False) == worker(resume=True)
    assert amp.state_dict()["loss_scaler0"]["loss_scale"] == 1024.0
    args.loss_scale = -1.0  # "-1 means dynamic"
    worker(resume=False)
    assert amp.state_dict()["loss_scaler0"] == {"loss_scale": 65536.0, "unskipped": 10}


def test_the_chapter_on_mixed_precision() -> None:
    model = cnn()
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    model, optimizer = amp.initialize(model, optimizer, combine_grad=True, verbosity=0)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for step in range(40):
        images, target = pictures(step)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert statistics.mean(losses[-10:]) < statistics.mean(losses[:10])
