"""apex.fp16_utils, apex.parallel, copies of prepared models."""

from __future__ import annotations

import copy
import io
import pickle
import statistics
from typing import Any

import apex.optimizers
import pytest
import torch
from apex import amp, fp16_utils
from apex.parallel import DistributedDataParallel
from torch import nn

from tests.torch.apex.runs import cnn, fresh_amp, pictures, run  # noqa: F401

HALF, FULL = torch.float16, torch.float32


def test_networks_in_half_precision() -> None:
    x = pictures(0)[0]
    for model in (fp16_utils.network_to_half(cnn()), fp16_utils.FP16Model(cnn())):
        assert model(x).dtype == HALF
        kinds = {
            type(one).__name__: next(one.parameters()).dtype
            for one in model.modules()
            if not list(one.children()) and list(one.parameters())
        }
        assert kinds == {"Conv2d": HALF, "BatchNorm2d": FULL, "Linear": HALF}
    lstm = fp16_utils.convert_network(nn.LSTM(3, 4).npu(), HALF)
    assert lstm(torch.ones(2, 1, 3).npu().half())[0].dtype == HALF


@pytest.mark.parametrize("flat", [False, True])
def test_masters_by_hand(flat: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).npu().half()
    params, masters = fp16_utils.prep_param_lists(model, flat_master=flat)
    assert len(masters) == (1 if flat else 4) and all(one.dtype == FULL for one in masters)
    optimizer = torch.optim.SGD(masters, 0.5)
    model(torch.ones(1, 4).npu().half()).sum().backward()
    wanted = [(one - 0.5 * one.grad).detach().clone() for one in params]
    fp16_utils.model_grads_to_master_grads(params, masters, flat_master=flat)
    optimizer.step()
    fp16_utils.master_params_to_model_params(params, masters, flat_master=flat)
    for one, value in zip(params, wanted, strict=True):
        torch.testing.assert_close(one.detach(), value, rtol=1e-3, atol=1e-3)
    assert fp16_utils.to_python_float(torch.ones(1).npu()) == 1.0
    with pytest.raises(ValueError, match="needs parameters of one dtype"):
        fp16_utils.prep_param_lists(fp16_utils.FP16Model(cnn()), flat_master=True)


def test_copies_of_a_prepared_model_are_their_own() -> None:
    """What a moving average of weights does: the copy keeps its values while the original trains."""
    model = cnn()
    model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), 0.1), opt_level="O2", verbosity=0)
    run(model, optimizer, pictures, range(2))
    kept = copy.deepcopy(model).eval()
    again = pickle.loads(pickle.dumps(model)).eval()
    x = pictures(9)[0]
    before = kept(x).detach().clone()
    assert before.dtype == FULL and torch.equal(again(x), before)
    run(model, optimizer, pictures, range(2, 4))
    assert torch.equal(kept(x), before)
    assert not torch.equal(model.eval()(x), before)
    assert all(value.dtype != HALF for value in kept.state_dict().values())


def test_optimizers_can_be_pickled() -> None:
    optimizer = apex.optimizers.NpuFusedSGD(cnn().parameters(), 0.1)
    again = pickle.loads(pickle.dumps(optimizer))
    assert type(again) is apex.optimizers.NpuFusedSGD and again.param_groups[0]["lr"] == 0.1


def test_options_of_the_parallel_wrapper_are_not_ignored() -> None:
    for options in ({"gradient_average": False}, {"allreduce_always_fp32": True}):
        with pytest.raises(ValueError, match="not supported"):
            DistributedDataParallel(cnn(), **options)


def prepared(**options: Any) -> tuple[nn.Module, fp16_utils.FP16_Optimizer]:
    model = fp16_utils.network_to_half(cnn())
    return model, fp16_utils.FP16_Optimizer(torch.optim.Adam(model.parameters(), 2e-3), **options)


def train(model: nn.Module, optimizer: fp16_utils.FP16_Optimizer, steps: range, bad: int = -1) -> list[float]:
    losses = []
    for step in steps:
        x, target = pictures(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).float(), target)
        optimizer.backward(loss * float("inf") if step == bad else loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "options",
    [{"static_loss_scale": 128.0}, {"dynamic_loss_scale": True, "dynamic_loss_args": {"init_scale": 2.0**16}}],
)
def test_the_optimizer_of_halves_trains_as_float32(options: dict[str, Any]) -> None:
    model, optimizer = prepared(**options)
    assert {one.dtype for group in optimizer.param_groups for one in group["params"]} == {FULL}
    result = train(model, optimizer, range(150))
    plain = cnn()
    wanted = run(plain, torch.optim.Adam(plain.parameters(), 2e-3), pictures, range(150), scaled=False)
    assert statistics.mean(wanted[-50:]) < 0.7 * statistics.mean(wanted[:10])  # it learns at all
    for part in (slice(0, 50), slice(100, 150)):
        assert statistics.mean(result[part]) == pytest.approx(statistics.mean(wanted[part]), rel=0.05, abs=0.02)


def test_an_overflow_of_the_optimizer_of_halves(capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = prepared(dynamic_loss_scale=True, dynamic_loss_args={"init_scale": 256.0, "scale_window": 3})
    train(model, optimizer, range(2))
    before = [one.detach().clone() for one in [*model.parameters(), *amp.master_params(optimizer)]]
    train(model, optimizer, range(2, 3), bad=2)
    assert capsys.readouterr().out == "OVERFLOW! Skipping step. Attempted loss scale: 256.0, reducing to 128.0\n"
    assert optimizer.overflow and optimizer.clip_master_grads(1.0) == -1
    after = [*model.parameters(), *amp.master_params(optimizer)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    train(model, optimizer, range(3, 6))
    assert not optimizer.overflow and optimizer.loss_scale == 256.0
    assert not torch.equal(before[0], next(model.parameters()))
    norm = torch.linalg.vector_norm(torch.cat([one.grad.flatten() for one in amp.master_params(optimizer)]))
    torch.testing.assert_close(optimizer.clip_master_grads(0.01), norm)


def test_the_optimizer_of_halves_continues_exactly() -> None:
    options: dict[str, Any] = {"dynamic_loss_scale": True, "dynamic_loss_args": {"init_scale": 64.0, "scale_window": 4}}
    model, optimizer = prepared(**options)
    train(model, optimizer, range(6))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    wanted = train(model, optimizer, range(6, 12))
    again, other = prepared(**options)
    train(again, other, range(50, 52))
    saved = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    again.load_state_dict(saved["model"])
    other.load_state_dict(saved["optimizer"])
    assert train(again, other, range(6, 12)) == wanted and other.loss_scale == optimizer.loss_scale != 64.0
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    with pytest.raises(ValueError, match="dynamic_loss_scale=True, this optimizer not"):
        prepared()[1].load_state_dict(saved["optimizer"])


def test_closures_several_losses_and_what_is_refused() -> None:
    layer = nn.Linear(3, 1).npu().half()
    weight = layer.weight.detach().float()
    optimizer = fp16_utils.FP16_Optimizer(torch.optim.SGD(layer.parameters(), 0.5), static_loss_scale=8.0)
    x = torch.ones(1, 3).npu().half()
    optimizer.backward(layer(x).sum(), update_master_grads=False)
    optimizer.backward(2 * layer(x).sum(), update_master_grads=False)
    optimizer.update_master_grads()
    optimizer.step()
    torch.testing.assert_close(layer.weight.detach().float(), weight - 1.5, rtol=1e-3, atol=1e-3)
    layer = nn.Linear(3, 1).npu().half()
    optimizer = fp16_utils.FP16_Optimizer(torch.optim.LBFGS(layer.parameters(), 0.5, max_iter=5), verbose=False)

    def closure() -> torch.Tensor:
        optimizer.zero_grad(set_grads_to_None=True)
        loss = (layer(x).float() - 4.0).square().mean()
        optimizer.backward(loss)
        return loss

    first = optimizer.step(closure).item()
    assert closure().item() < 0.1 * first
    with pytest.raises(TypeError, match=r"not torch\.FloatTensor"):
        fp16_utils.FP16_Optimizer(torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1))
    with pytest.raises(ValueError, match="need dynamic_loss_scale=True"):
        fp16_utils.FP16_Optimizer(torch.optim.SGD(layer.parameters(), 0.1), dynamic_loss_args={"init_scale": 2.0})
    with pytest.raises(ValueError, match="scale_factor > 1"):
        fp16_utils.DynamicLossScaler(scale_factor=1.0)
