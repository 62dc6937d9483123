"""apex.amp with combined gradients and fused optimizers, LARC, and checkpoints that continue exactly."""

from __future__ import annotations

import io
from typing import Any

import apex.optimizers
import pytest
import torch
from apex import amp
from apex.contrib import combine_tensors
from apex.parallel import LARC, SyncBatchNorm, convert_syncbn_model
from torch import nn

from tests.torch.apex.runs import cnn, former, fresh_amp, pictures, run, sentences  # noqa: F401

FUSED = [name for name in apex.optimizers.__all__ if name.startswith("Npu")]


def fused(name: str, model: nn.Module) -> Any:
    return getattr(apex.optimizers, name)(model.parameters(), lr=2e-3)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_combined_gradients_change_nothing(level: str, kind: str) -> None:
    results = []
    for combine in (None, True):
        model = cnn()
        optimizer = fused("NpuFusedAdam", model) if kind == "fused" else torch.optim.Adam(model.parameters(), 2e-3)
        model, optimizer = amp.initialize(
            model, optimizer, opt_level=level, combine_grad=combine, check_combined_tensors=combine, verbosity=0
        )
        losses = run(model, optimizer, pictures, range(20))
        results.append((losses, [one.detach().clone() for one in amp.master_params(optimizer)]))
        grads = [one.grad for one in model.parameters() if one.grad is not None and one.dtype == torch.float16]
        if combine and level == "O2":
            assert len({one.untyped_storage().data_ptr() for one in grads}) == 1
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-3, abs=1e-4)
    for one, other in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("name", FUSED)
def test_fused_optimizers_under_amp(name: str, level: str) -> None:
    """The same as the optimizer alone in float32, within what halves can hold."""
    model = cnn()
    optimizer = fused(name, model)
    assert optimizer.is_npu_fused_optimizer and optimizer.is_fused_optimizer
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, combine_grad=True, verbosity=0)
    result = run(model, optimizer, pictures, range(10))
    plain = cnn()
    with amp.disable_casts():
        wanted = run(plain, fused(name, plain), pictures, range(10), scaled=False)
    assert result == pytest.approx(wanted, rel=0.02, abs=0.01)


def test_defaults_that_differ_from_torch_npu() -> None:
    options = apex.optimizers.NpuFusedBertAdam(cnn().parameters(), lr=0.1).defaults
    assert (options["b2"], options["max_grad_norm"]) == (0.99, -1)


def test_lamb_without_buffers_is_the_fused_one() -> None:
    one, other = cnn(), cnn()
    a = apex.optimizers.Lamb(one.parameters(), lr=0.01, weight_decay=0.1)
    b = apex.optimizers.NpuFusedLamb(other.parameters(), lr=0.01, weight_decay=0.1)
    assert run(one, a, pictures, range(10), scaled=False) == pytest.approx(
        run(other, b, pictures, range(10), scaled=False), rel=1e-4
    )


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_clipping_of_the_combined_gradients(level: str, kind: str) -> None:
    model = cnn()
    optimizer = fused("NpuFusedSGD", model) if kind == "fused" else torch.optim.SGD(model.parameters(), 0.1)
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, combine_grad=True, verbosity=0)
    with amp.scale_loss(nn.functional.cross_entropy(model(pictures(0)[0]), pictures(0)[1]), optimizer) as loss:
        loss.backward()
    masters = list(amp.master_params(optimizer))
    wanted = torch.linalg.vector_norm(torch.cat([one.grad.flatten() for one in masters]))
    torch.testing.assert_close(optimizer.clip_optimizer_grad_norm_fused(0.1), wanted)
    clipped = torch.linalg.vector_norm(torch.cat([one.grad.flatten() for one in masters]))
    assert clipped.item() == pytest.approx(0.1, rel=1e-3)
    optimizer.step()


def test_gradients_must_stay_in_their_buffer() -> None:
    model = cnn()
    model, optimizer = amp.initialize(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        opt_level="O1",
        combine_grad=True,
        check_combined_tensors=True,
        verbosity=0,
    )
    for call in (model.zero_grad, optimizer.zero_grad):
        with pytest.raises(ValueError, match="set_to_none=True does not work with combine_grad"):
            call(set_to_none=True)
    run(model, optimizer, pictures, range(2))
    model.zero_grad()
    assert all(one.grad is not None and not one.grad.any() for one in model.parameters())
    model[7].bias.grad.data = torch.zeros(4).npu()
    with pytest.raises(RuntimeError, match=r"shape \[\(4,\)\] left their combined buffer"):
        run(model, optimizer, pictures, range(1))


def test_parameters_that_cannot_be_combined() -> None:
    model = nn.Conv2d(3, 2, 3).npu()
    model.weight.data = model.weight.data.to(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="not contiguous"):
        amp.initialize(model, torch.optim.SGD(model.parameters(), 0.1), combine_grad=True, verbosity=0)


def test_names_of_combined_tensors() -> None:
    tensors = [torch.ones(3).npu(), torch.ones(2, 2).npu()]
    flat = combine_tensors.combine_npu(tensors)
    assert combine_tensors.is_combined_tensor_valid(flat, tensors)
    assert combine_tensors.get_part_combined_tensor(flat, 3, 4).data_ptr() == tensors[1].data_ptr()
    assert combine_tensors.get_aligned_storage_size(torch.ones(100).npu()) == 144


def save(model: nn.Module, optimizer: Any) -> bytes:
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, file)
    return file.getvalue()


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("kind", ["plain", "fused"])
@pytest.mark.parametrize("make", [cnn, former])
def test_a_checkpoint_continues_exactly(level: str, kind: str, make: Any) -> None:
    data = pictures if make is cnn else sentences

    def prepare() -> Any:
        model = make()
        if level == "O3":  # the epsilon of Adam is zero as a half
            plain = torch.optim.SGD(model.parameters(), 2e-3, momentum=0.9)
            optimizer = fused("NpuFusedSGD", model) if kind == "fused" else plain
        else:
            optimizer = fused("NpuFusedAdam", model) if kind == "fused" else torch.optim.Adam(model.parameters(), 2e-3)
        combine = kind == "fused" and level in ("O1", "O2")
        return amp.initialize(model, optimizer, opt_level=level, verbosity=0, combine_grad=combine or None)

    model, optimizer = prepare()
    run(model, optimizer, data, range(8))
    amp.load_state_dict({"loss_scaler0": {"loss_scale": 1024.0, "unskipped": 5}})
    file = save(model, optimizer)
    wanted = run(model, optimizer, data, range(8, 16))
    last = save(model, optimizer)
    again, other = prepare()
    run(again, other, data, range(100, 102))
    saved = torch.load(io.BytesIO(file))
    assert level == "O3" or {value.dtype for value in saved["model"].values() if value.is_floating_point()} == {
        torch.float32
    }
    again.load_state_dict(saved["model"])
    other.load_state_dict(saved["optimizer"])
    amp.load_state_dict(saved["amp"])
    assert run(again, other, data, range(8, 16)) == wanted
    found, expected = torch.load(io.BytesIO(save(again, other))), torch.load(io.BytesIO(last))
    assert found["amp"] == expected["amp"] and found["amp"]["loss_scaler0"]["unskipped"] == 13 * (
        level in ("O1", "O2")
    ) + 5 * (level in ("O0", "O3"))
    for key, value in expected["model"].items():
        assert torch.equal(found["model"][key], value), key
    for place, state in expected["optimizer"]["state"].items():
        assert all(torch.equal(found["optimizer"]["state"][place][key], value) for key, value in state.items())


def test_larc_steps_by_its_formula() -> None:
    """One step by the formula, and a training under amp."""
    for clip in (True, False):
        layer = nn.Linear(4, 3).npu()
        weight = layer.weight.detach().clone()
        optimizer = LARC(torch.optim.SGD(layer.parameters(), 0.5, weight_decay=0.1), trust_coefficient=0.02, clip=clip)
        layer(torch.ones(2, 4).npu()).sum().backward()
        grad = layer.weight.grad.clone()
        optimizer.step()
        rate = 0.02 * weight.norm() / (grad.norm() + 0.1 * weight.norm() + 1e-8)
        wanted = weight - (torch.clamp(rate, max=0.5) if clip else 0.5 * rate) * (grad + 0.1 * weight)
        torch.testing.assert_close(layer.weight.detach(), wanted)
        assert optimizer.param_groups[0]["weight_decay"] == 0.1
    for level in ("O0", "O1", "O2", "O3"):
        model = cnn()
        model, optimizer = amp.initialize(
            model, LARC(torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)), opt_level=level, verbosity=0
        )
        losses = run(model, optimizer, pictures, range(20))
        assert losses[-1] < losses[0]


def test_batch_norms_over_ranks() -> None:
    model = convert_syncbn_model(cnn())
    assert isinstance(model[1], SyncBatchNorm)
    with pytest.raises(ValueError, match="channel_last=True is not supported"):
        convert_syncbn_model(cnn(), channel_last=True)
