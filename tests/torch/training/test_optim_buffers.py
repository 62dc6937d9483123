"""torch_npu.optim: buffers, gradients that come late or are replaced, checkpoints, groups, clipping, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch_npu
import torch_npu.optim as fused
from torch import nn

from tests.torch.training.test_optim import SHAPES, assert_same, gradients, params, train

ALL = ["Adadelta", "Adam", "AdamP", "AdamW", "BertAdam", "Lamb", "RMSprop", "RMSpropTF", "SGD"]


def make(name: str, ps: Any) -> torch.optim.Optimizer:
    more = {"momentum": 0.9} if name in ("SGD", "RMSprop", "RMSpropTF") else {}
    return getattr(fused, f"NpuFused{name}")(ps, lr=0.01, **more)


def test_parameters_gradients_and_states_are_parts_of_one_buffer() -> None:
    ps = params()
    optimizer = fused.NpuFusedAdam(ps)
    train(optimizer, ps, range(2))
    (flat,), (grads,) = optimizer.get_combined_params(), optimizer.get_combined_grads()
    assert flat.numel() == sum(one.numel() for one in ps)
    assert torch_npu.utils.is_combined_tensor_valid(flat, ps)
    assert torch_npu.utils.is_combined_tensor_valid(grads, [one.grad for one in ps])
    assert len({optimizer.state[one]["exp_avg"].untyped_storage().data_ptr() for one in ps}) == 1
    assert [one.shape for one in ps] == [torch.Size(shape) for shape in SHAPES]
    flat.fill_(3.0)
    assert all((one == 3).all() for one in ps)


def test_the_backward_pass_adds_into_the_buffer() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).npu()
    optimizer = fused.NpuFusedSGD(model.parameters(), 0.1)
    x = torch.randn(5, 3).npu()
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    kept = [one.grad for one in model.parameters()]
    assert not any(one.any() for one in optimizer.get_combined_grads())
    model(x).square().sum().backward()
    assert all(one.grad is grad for one, grad in zip(model.parameters(), kept, strict=True))
    assert optimizer.get_combined_grads()[0].any()


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_gradients_that_come_late_go_away_or_are_replaced(name: str) -> None:
    """Parameters without a gradient stay as they are and keep their own count of steps, as with torch.optim."""
    mine, theirs = params(), params()
    one = make(name, mine)
    other = getattr(torch.optim, name)(theirs, lr=0.01, foreach=False, **({} if name == "Adam" else {"momentum": 0.9}))
    for step in range(40):
        for ps in (mine, theirs):
            for place, (param, grad) in enumerate(zip(ps, gradients(step), strict=True)):
                absent = (place == 2 and step < 10) or (place == 4 and step % 3 == 0) or (place == 5 and step > 20)
                param.grad = None if absent else grad.npu()
        one.step()
        other.step()
    assert_same(mine, theirs)
    assert not one.state[mine[2]] or int(one.state[mine[2]]["step"]) == 30
    assert int(one.state[mine[0]]["step"]) == 40


def test_a_gradient_that_is_none_counts_as_zero_in_the_buffer() -> None:
    ps = params()
    optimizer = fused.NpuFusedSGD(ps, 0.1)
    train(optimizer, ps, range(1))
    ps[0].grad = None
    wanted = torch.cat([one.grad.flatten() for one in ps[1:]]).norm()
    torch.testing.assert_close(optimizer.clip_grad_norm_fused_(1e9), wanted)


@pytest.mark.parametrize("name", ALL)
def test_state_dict_continues_exactly(name: str) -> None:
    straight, first, second = params(), params(), params()
    train(make(name, straight), straight, range(20))
    one = make(name, first)
    train(one, first, range(10))
    saved = copy.deepcopy(one.state_dict())
    other = make(name, second)
    train(other, second, range(3, 7))  # it has buffers of its own before the state comes
    with torch.no_grad():
        for a, b in zip(second, first, strict=True):
            a.copy_(b)
    other.load_state_dict(saved)
    train(other, second, range(10, 20))
    assert_same(second, straight, 0, 0)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD", "Adadelta", "RMSprop"])
def test_checkpoints_of_torch_optim_in_both_directions(name: str) -> None:
    options = {"momentum": 0.9} if name in ("SGD", "RMSprop") else {}
    straight, mine, theirs = params(), params(), params()
    plain = getattr(torch.optim, name)
    train(plain(straight, lr=0.01, foreach=False, **options), straight, range(20))
    one, other = make(name, mine), plain(theirs, lr=0.01, foreach=False, **options)
    train(other, theirs, range(10))
    one.load_state_dict(copy.deepcopy(other.state_dict()))
    with torch.no_grad():
        for a, b in zip(mine, theirs, strict=True):
            a.copy_(b)
    train(one, mine, range(10, 15))
    groups = other.state_dict()["param_groups"]
    other.load_state_dict({"state": copy.deepcopy(one.state_dict()["state"]), "param_groups": groups})
    with torch.no_grad():
        for a, b in zip(mine, theirs, strict=True):
            b.copy_(a)
    train(other, theirs, range(15, 20))
    assert_same(theirs, straight)


def test_groups_with_options_of_their_own_and_one_that_comes_later() -> None:
    def run(cls: Any, **more: Any) -> Any:
        ps = params()
        optimizer = cls([{"params": ps[:2]}, {"params": ps[2:4], "lr": 0.1, "weight_decay": 0.3}], lr=0.01, **more)
        train(optimizer, ps, range(5))
        optimizer.add_param_group({"params": ps[4:], "lr": 0.2})
        optimizer.param_groups[0]["lr"] = 0.05  # what a scheduler does
        train(optimizer, ps, range(5, 15))
        return ps, optimizer

    mine, optimizer = run(fused.NpuFusedAdam)
    assert_same(mine, run(torch.optim.Adam, foreach=False)[0])
    assert len(optimizer.get_combined_params()) == 3


def test_two_dtypes_and_two_devices_have_buffers_of_their_own() -> None:
    ps = [
        nn.Parameter(torch.ones(3, device=device, dtype=dtype))
        for device in ("npu:0", "npu:1")
        for dtype in (torch.float32, torch.float16)
    ]
    optimizer = fused.NpuFusedSGD(ps, 0.5)
    for one in ps:
        one.grad = torch.ones_like(one)
    optimizer.step()
    assert [(one.dtype, one.device.index) for one in optimizer.get_combined_params()] == [
        (one.dtype, one.device.index) for one in ps
    ]
    assert all(one.tolist() == [0.5] * 3 for one in ps)


def test_clipping_is_torchs() -> None:
    for kind in (2, 1, float("inf")):
        mine, theirs = params(), params()
        optimizer = fused.NpuFusedSGD(mine, 1.0)
        for a, b, grad in zip(mine, theirs, gradients(3), strict=True):
            a.grad, b.grad = grad.npu(), grad.npu()
        wanted = nn.utils.clip_grad_norm_(theirs, 1.5, kind)
        torch.testing.assert_close(optimizer.clip_grad_norm_fused_(1.5, kind), wanted)
        assert_same([one.grad for one in mine], [one.grad for one in theirs])


def test_memory_that_a_program_gave_to_a_parameter() -> None:
    """`p.data = x` takes a parameter out of the buffer; the next step brings it back with its new value and its old state."""
    mine, theirs = params(), params()
    one, other = fused.NpuFusedAdam(mine), torch.optim.Adam(theirs, foreach=False)
    for ps, optimizer in ((mine, one), (theirs, other)):
        train(optimizer, ps, range(5))
        ps[1].data = torch.full((4,), 7.0).npu()
        train(optimizer, ps, range(5, 10))
    assert_same(mine, theirs)


def test_schedulers_closures_and_copies() -> None:
    mine, theirs = params(), params()
    losses = []
    for ps, optimizer in ((mine, fused.NpuFusedAdam(mine)), (theirs, torch.optim.Adam(theirs, foreach=False))):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for _ in range(6):

            def closure(ps: Any = ps, optimizer: Any = optimizer) -> Any:
                optimizer.zero_grad()
                loss = sum((one.square()).sum() for one in ps)
                loss.backward()
                return loss.detach()

            losses.append(float(optimizer.step(closure)))
            scheduler.step()
    assert_same(mine, theirs)
    assert losses[:6] == pytest.approx(losses[6:])
    again = copy.deepcopy(fused.NpuFusedSGD(params(), 0.1))
    for one in again.param_groups[0]["params"]:
        one.grad = torch.ones_like(one)
    again.step()


def test_what_is_refused() -> None:
    ps = params()
    optimizer = fused.NpuFusedAdam(ps)
    with pytest.raises(ValueError, match="set_to_none=True is not supported"):
        optimizer.zero_grad(set_to_none=True)
    with pytest.raises(RuntimeError, match="not on NPU but on cpu"):
        train(fused.NpuFusedAdam(params(device="cpu")), params(device="cpu"), range(1))
    bent = nn.Parameter(torch.ones(3, 4).npu().t())
    with pytest.raises(RuntimeError, match="not contiguous"):
        fused.NpuFusedSGD([bent], 0.1).step()
    whole = torch.ones(6).npu()
    shared = [nn.Parameter(whole[:4]), nn.Parameter(whole[3:])]
    with pytest.raises(RuntimeError, match="share memory: those at 0 and 1"):
        fused.NpuFusedSGD(shared, 0.1).step()
    for cls, options in (
        ("Adam", {"lr": -1}),
        ("Adam", {"betas": (1.0, 0.9)}),
        ("SGD", {"lr": 0.1, "nesterov": True}),
        ("BertAdam", {"lr": 0.1, "schedule": "none"}),
        ("RMSprop", {"alpha": -0.1}),
    ):
        with pytest.raises(ValueError, match=r"Invalid|requires"):
            getattr(fused, f"NpuFused{cls}")(ps, **options)
    with pytest.raises(TypeError, match="unexpected"):
        fused.NpuFusedRMSprop(ps, decoupled_decay=True)


def test_combined_tensors() -> None:
    utils = torch_npu.utils
    tensors = [torch.full((2, 3), 1.0).npu(), torch.full((4,), 2.0).npu()]
    flat = utils.npu_combine_tensors(tensors)
    assert flat.tolist() == [1.0] * 6 + [2.0] * 4
    assert utils.is_combined_tensor_valid(flat, tensors)
    utils.get_part_combined_tensor(flat, 6, 4).fill_(9)
    assert tensors[1].tolist() == [9.0] * 4
    tensors[0].zero_()
    assert flat[:6].sum() == 0
    assert not utils.is_combined_tensor_valid(flat, tensors[::-1])
    assert not utils.is_combined_tensor_valid(flat, [tensors[0], None])
    assert not utils.is_combined_tensor_valid(flat, [tensors[0]])
    assert utils.npu_combine_tensors([]) is None
    assert utils.npu_combine_tensors([torch.ones(3).npu()], require_copy_value=False).tolist() == [0.0] * 3
    for bad, message in (
        ([torch.ones(2).npu(), None], "None"),
        ([torch.ones(2).npu(), torch.ones(2).npu().half()], "different dtype"),
        ([torch.ones(2)], "not on NPU"),
        ([torch.ones(2, 3).npu().t()], "not contiguous"),
    ):
        with pytest.raises(RuntimeError, match=message):
            utils.npu_combine_tensors(bad)
    with pytest.raises(ValueError, match="exceeds the combined tensor of 10"):
        utils.get_part_combined_tensor(flat, 8, 4)
