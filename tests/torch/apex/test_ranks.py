"""apex.amp in two processes: one skips, all skip; combine_ddp in the place of DistributedDataParallel."""

from __future__ import annotations

import pytest

from tests.torch.processes.rank_runs import ranks

AGREE = """
from apex import amp
net = torch.nn.Linear(3, 2).npu()
net, optimizer = amp.initialize(net, torch.optim.SGD(net.parameters(), 0.1), opt_level="O2", verbosity=1)
for step in range(3):
    loss = net(torch.ones(1, 3).npu()).sum() * 0.1 * (float("inf") if (step, rank) == (1, 1) else 1.0)
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
print(amp.state_dict()["loss_scaler0"])
"""


def test_all_ranks_skip_together() -> None:
    first, second = ranks(AGREE)
    line = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0"
    assert first.splitlines()[-2:] == second.splitlines()[-2:] == [line, "{'loss_scale': 32768.0, 'unskipped': 1}"]
    assert "Selected optimization level O2" in first and "Selected" not in second  # the first process tells


COMBINED = """
import apex.optimizers
from apex import amp
torch.manual_seed(rank)  # different parameters, which the first process's replace
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, track_running_stats=False), torch.nn.Linear(4, 2)).npu()
if {fused}:
    optimizer = apex.optimizers.NpuFusedSGD(net.parameters(), 0.1, momentum=0.9)
else:
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
net, optimizer = amp.initialize(
    net, optimizer, opt_level="{level}", verbosity=0, combine_grad=True, combine_ddp=True, ddp_replica_count=3, loss_scale=128.0)
start = [one.detach().cpu().clone() for one in amp.master_params(optimizer)]
made = torch.Generator().manual_seed(7)
batches = [torch.randn(2, 6, 3, generator=made) for _ in range(5)]
for batch in batches:
    loss = net(batch[rank].npu()).float().square().mean()
    if rank == 0 and batch is batches[1]:
        loss = net[1](net[0](batch[0].to(net[0].weight))).float().square().mean()  # the last layer has no gradient here
    optimizer.zero_grad()
    with amp.scale_loss(loss, optimizer) as scaled:
        scaled.backward()
    optimizer.step()
mine = [one.detach().cpu() for one in amp.master_params(optimizer)]
with amp.disable_casts():  # one process with both batches
    plain = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, track_running_stats=False), torch.nn.Linear(4, 2))
    for one, value in zip(plain.parameters(), start):
        one.data.copy_(value)
    peer = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9)
    for batch in batches:
        peer.zero_grad()
        outs = [plain[:2](half) if (i, batch is batches[1]) == (0, True) else plain(half) for i, half in enumerate(batch)]
        sum(out.square().mean() / 2 for out in outs).backward()
        peer.step()
for one, other in zip(mine, plain.parameters()):
    torch.testing.assert_close(one, other.detach(), rtol=0.02, atol=5e-3)
print([one.double().sum().item() for one in mine])
"""


@pytest.mark.parametrize(
    ("level", "fused"),
    [("O2", True), pytest.param("O1", True, marks=pytest.mark.slow), pytest.param("O2", False, marks=pytest.mark.slow)],
)
def test_combine_ddp_is_one_process_with_both_batches(level: str, fused: bool) -> None:
    first, second = ranks(COMBINED.replace("{fused}", str(fused)).replace("{level}", level))
    assert first == second


PARALLEL = """
import copy
from apex import amp
from apex.parallel import DistributedDataParallel, Reducer, convert_syncbn_model, create_syncbn_process_group
def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
torch.manual_seed(0)
plain = network()
torch.manual_seed(rank)  # the first process's parameters replace the others'
made = torch.Generator().manual_seed(7)
x = torch.randn(8, 3, generator=made)
mine = x.chunk(2)[rank].npu()
plain(x).square().mean().backward()
def check(model, wrapped, average):
    wrapped(mine).square().mean().backward()
    average()
    for one, other in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)
model = convert_syncbn_model(network()).npu()
check(model, DistributedDataParallel(model, delay_allreduce={delay}), lambda: None)
torch.testing.assert_close(model[1].running_var.cpu(), plain[1].running_var, rtol=1e-4, atol=1e-6)
torch.manual_seed(rank)
model = convert_syncbn_model(network()).npu()
reducer = Reducer(model)
check(model, model, reducer.reduce)
alone = create_syncbn_process_group(1)  # each rank by itself
norm = convert_syncbn_model(torch.nn.BatchNorm1d(3), process_group=alone).npu()
torch.testing.assert_close(norm(mine).cpu(), torch.nn.BatchNorm1d(3)(mine.cpu()), rtol=1e-4, atol=1e-5)
grads = [torch.full((2,), rank + 1.0).npu(), torch.full((3,), rank + 1).npu().half()]
Reducer(grads).reduce()
print([one.tolist() for one in grads])
"""


@pytest.mark.parametrize("delay", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_modules_of_apex_parallel_are_one_process_with_both_batches(delay: bool) -> None:
    first, second = ranks(PARALLEL.replace("{delay}", str(delay)))
    assert first == second == "[[1.5, 1.5], [1.5, 1.5, 1.5]]"


O2_DDP = """
import io
from apex import amp
from torch.nn.parallel import DistributedDataParallel
made = torch.Generator().manual_seed(3)
batches = [(torch.randn(8, 6, generator=made), torch.randint(0, 3, (8,), generator=made)) for _ in range(12)]
def prepare():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).npu()
    net, optimizer = amp.initialize(net, torch.optim.Adam(net.parameters(), 0.01), opt_level="O2", verbosity=0)
    return DistributedDataParallel(net, device_ids=[rank]), optimizer
def train(net, optimizer, steps):
    losses = []
    for step in steps:
        x, target = (one.chunk(2)[rank].npu() for one in batches[step])
        loss = torch.nn.functional.cross_entropy(net(x), target)
        optimizer.zero_grad()
        with amp.scale_loss(loss * (float("inf") if (step, rank) == (2, 1) else 1.0), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
net, optimizer = prepare()
train(net, optimizer, range(6))
file = io.BytesIO()
torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}, file)
wanted = train(net, optimizer, range(6, 12))
last = [one.detach().clone() for one in amp.master_params(optimizer)]
amp._amp_state.handle.deactivate() if amp._amp_state.handle is not None else None
net, optimizer = prepare()
saved = torch.load(io.BytesIO(file.getvalue()), map_location=f"npu:{rank}")
net.load_state_dict(saved["net"])
optimizer.load_state_dict(saved["optimizer"])
amp.load_state_dict(saved["amp"])
assert train(net, optimizer, range(6, 12)) == wanted
masters = list(amp.master_params(optimizer))
assert all(torch.equal(one, other) for one, other in zip(masters, last))
print(saved["amp"]["loss_scaler0"], [one.double().sum().item() for one in masters])
"""


def test_halves_under_ddp_continue_exactly_after_an_overflow() -> None:
    first, second = ranks(O2_DDP)
    assert first == second and first.startswith("{'loss_scale': 32768.0, 'unskipped': 3}"), (first, second)


SHARDED = """
from apex import amp
from torch.distributed.fsdp import fully_shard
def made():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 3)).npu()
torch.manual_seed(5)
x, y = torch.randn(8, 6).npu(), torch.randn(8, 3).npu()
amp.initialize(made(), opt_level="O1", verbosity=0)
plain = made()
peer = torch.optim.SGD(plain.parameters(), 0.1)
for _ in range(6):
    peer.zero_grad()
    torch.nn.functional.mse_loss(plain(x), y).backward()
    peer.step()
for _ in range(3):
    net = made()
    for layer in (net[0], net[2]):
        fully_shard(layer)
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(6):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x), y).backward()
        lost = [name for name, one in net.named_parameters() if one.grad is None]
        assert not lost, (step, lost)
        optimizer.step()
    for one, two in zip(net.parameters(), plain.parameters()):
        torch.testing.assert_close(one.full_tensor(), two.detach(), rtol=1e-2, atol=1e-3)
print("same")
"""


def test_sharded_weights_keep_their_gradients_without_scale_loss() -> None:
    assert [one.splitlines()[-1] for one in ranks(SHARDED)] == ["same", "same"]
