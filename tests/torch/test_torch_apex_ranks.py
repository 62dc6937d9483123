"""apex.amp in two processes: one skips, all skip; combine_ddp in the place of DistributedDataParallel."""

from __future__ import annotations

import pytest
from rank_runs import ranks

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
