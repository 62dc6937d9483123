"""torch.npu.amp: GradScaler with plain and fused optimizers, on chips whose halves saturate, and over ranks; autocast around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu.optim
from torch import Tensor, nn

from tests.torch.device.chip_runs import python
from tests.torch.processes.rank_runs import ranks


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).npu()


def data(step: int) -> Tensor:
    return torch.randn(10, 6, generator=torch.Generator().manual_seed(step)).npu()


def adam(net: nn.Module, fused: bool) -> Any:
    return (
        torch_npu.optim.NpuFusedAdam(net.parameters()) if fused else torch.optim.Adam(net.parameters(), foreach=False)
    )


def train(net: nn.Module, optimizer: Any, scaler: Any, steps: range, bad: int = -1, unscale: bool = False) -> None:
    for step in steps:
        optimizer.zero_grad()
        with torch.npu.amp.autocast():
            loss = net(data(step)).float().square().mean()
        scaler.scale(loss * (float("inf") if step == bad else 1.0)).backward()
        if unscale:
            scaler.unscale_(optimizer)
            if isinstance(optimizer, torch_npu.optim.NpuFusedOptimizerBase):
                optimizer.clip_grad_norm_fused_(0.1)
            else:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


SCALERS = {"npu": lambda: torch.npu.amp.GradScaler(), "torch": lambda: torch.amp.GradScaler("npu")}


@pytest.mark.parametrize("which", SCALERS)
@pytest.mark.parametrize("unscale", [False, True])
def test_fused_optimizers_are_the_plain_ones(which: str, unscale: bool) -> None:
    results = []
    for fused in (False, True):
        net, scaler = model(), SCALERS[which]()
        optimizer = adam(net, fused)
        train(net, optimizer, scaler, range(6), bad=3, unscale=unscale)
        results.append([one.detach().clone() for one in net.parameters()])
        assert scaler.get_scale() == 2.0**15
        assert int(optimizer.state[net[0].weight]["step"]) == 5
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fused", [False, True])
def test_a_checkpoint_continues_exactly(fused: bool) -> None:
    net, scaler = model(), torch.npu.amp.GradScaler(growth_interval=3)
    optimizer = adam(net, fused)
    train(net, optimizer, scaler, range(4))
    saved = [
        {key: value.clone() for key, value in net.state_dict().items()},
        optimizer.state_dict(),
        scaler.state_dict(),
    ]
    assert saved[2] == {
        "scale": 2.0**17, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3, "_growth_tracker": 1, "dynamic": True
    }  # fmt: skip
    saved[1] = {
        "state": {k: {n: v.clone() for n, v in s.items()} for k, s in saved[1]["state"].items()},
        "param_groups": saved[1]["param_groups"],
    }
    train(net, optimizer, scaler, range(4, 9), bad=6)
    again, other = model(), torch.npu.amp.GradScaler()
    second = adam(again, fused)
    for part, state in zip((again, second, other), saved, strict=True):
        part.load_state_dict(state)
    train(again, second, other, range(4, 9), bad=6)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))
    assert other.state_dict() == scaler.state_dict()


def test_a_static_scale() -> None:
    net, scaler = model(), torch.npu.amp.GradScaler(init_scale=128.0, dynamic=False, growth_interval=1)
    optimizer = adam(net, False)
    train(net, optimizer, scaler, range(4), bad=2)
    assert scaler.get_scale() == 128.0
    assert int(optimizer.state[net[0].weight]["step"]) == 3  # the one with inf is left out all the same
    scaler.update(64.0)
    assert scaler.get_scale() == 64.0
    scaler.load_state_dict(torch.amp.GradScaler("npu", init_scale=4.0).state_dict())
    assert scaler.get_scale() == 4.0 and scaler.state_dict()["dynamic"] is False


def test_what_is_refused() -> None:
    scaler = torch.npu.amp.GradScaler()
    for outputs in (torch.ones(1), [torch.ones(1).npu(), [torch.ones(1)]], (one for one in (torch.ones(1),))):
        with pytest.raises(ValueError, match=r"Device type of outputs should be npu\."):
            scaler.scale(outputs)
    assert [one.item() for one in scaler.scale(torch.ones(()).npu() for _ in range(2))] == [2.0**16] * 2
    halves = nn.Linear(2, 2).npu().half()
    for optimizer in (torch.optim.SGD(halves.parameters(), 0.1), torch_npu.optim.NpuFusedSGD(halves.parameters(), 0.1)):
        scaler.scale(halves(torch.ones(1, 2).npu().half()).sum().float()).backward()
        with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
            scaler.unscale_(optimizer)
    still = torch.npu.amp.GradScaler()
    still.scale(torch.ones(()).npu())
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        still.step(torch.optim.SGD(model().parameters(), 0.1))
    assert torch.npu.amp.GradScaler(enabled=False).scale(torch.ones(1)).item() == 1.0


SATURATED = """
import torch
from torch import nn
assert not torch.npu.utils.is_support_inf_nan()
def once(net, scaler, optimizer, factor):
    optimizer.zero_grad()
    with torch.npu.amp.autocast():
        out = net(torch.ones(2, 4, device="npu"))
        mask = torch.zeros(2, 2, device="npu").half().masked_fill_(torch.ones(2, 2, device="npu").bool(), float("-inf")) * 2  # forward
    loss = out.float().sum() * factor
    before = net.weight.detach().clone()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return not torch.equal(before, net.weight), scaler.get_scale(), bool(torch.isfinite(net.weight).all())
net = nn.Linear(4, 3).npu()
print([once(net, s, torch.optim.SGD(net.parameters(), 1e-4), f) for s in [torch.npu.amp.GradScaler(init_scale=1024.0)] for f in (1.0, 1e6, 1.0)])
from apex import amp
for level in ("O1", "O2"):
    net = nn.Linear(4, 3).npu()
    net, opt = amp.initialize(net, torch.optim.SGD(net.parameters(), 1e-2), opt_level=level, verbosity=0, dynamic_init_scale=1024.0)
    found = []
    for factor in (1.0, 1e6, 1.0):
        before = next(amp.master_params(opt)).detach().clone()
        out = net(torch.ones(2, 4).npu())
        loss = out.float().sum() * factor
        opt.zero_grad()
        with amp.scale_loss(loss, opt) as scaled:
            scaled.backward()
        opt.step()
        found.append((not torch.equal(before, next(amp.master_params(opt))), amp.state_dict()["loss_scaler0"]["loss_scale"], True))
    print(found)
"""


def test_saturated_halves_are_found_by_the_flag() -> None:
    """A gradient of 65504 is finite and wrong; overflows of the forward pass do not count."""
    done = python(SATURATED, INF_NAN_MODE_ENABLE="0", INF_NAN_MODE_FORCE_DISABLE="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str([(True, 1024.0, True), (False, 512.0, True), (True, 512.0, True)])] * 3


RANKS = """
net = torch.nn.Linear(3, 2).npu()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.npu.amp.GradScaler(init_scale=64.0)
found = []
for step in range(3):
    optimizer.zero_grad()
    loss = net(torch.ones(1, 3).npu()).sum() * (float("nan") if (step, rank) == (1, 1) else 1.0)
    before = net.weight.detach().clone()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    found.append((not torch.equal(before, net.weight), scaler.get_scale()))
print(found)
"""


def test_all_ranks_skip_together() -> None:
    assert ranks(RANKS) == [str([(True, 64.0), (False, 32.0), (True, 32.0)])] * 2
