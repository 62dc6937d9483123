"""What training scripts of several processes use beside DistributedDataParallel itself, against one process with the whole batch."""

from __future__ import annotations

import copy
import io
import os
import tempfile
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main, refused
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

DEVICE = torch.device("npu", RANK)
SPLITS = tuple(map(int, torch.__version__.split(".")[:2])) >= (
    2,
    12,
)  # before, torch asks for cuda's group whatever there is
ODD_AND_EVEN = [[rank for rank in range(SIZE) if rank % 2 == rest] for rest in range(2)]


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def batch(step: int) -> tuple[Tensor, Tensor]:
    """The batch of all ranks together."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(4 * SIZE, 6, generator=generator), torch.randn(4 * SIZE, 3, generator=generator)


def mine(whole: Tensor) -> Tensor:
    return whole.chunk(SIZE)[RANK].to(DEVICE)


def steps(model: nn.Module, optimizer: Any, numbers: Iterable[int], part: Callable[[Tensor], Tensor] = mine) -> float:
    loss = torch.zeros(())
    for step in numbers:
        x, y = (part(tensor) for tensor in batch(step))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x).float(), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def alone(make: Callable[..., Any], numbers: Iterable[int], **options: Any) -> nn.Module:
    """One process with all batches, on the CPU."""
    model = network()
    steps(model, make(model.parameters(), **options), numbers, lambda tensor: tensor)
    return model


def close(result: Tensor, wanted: Tensor, limit: float = 1e-5) -> None:
    torch.testing.assert_close(result.detach().cpu(), wanted.detach().cpu(), rtol=1e-4, atol=limit)


def all_close(trained: nn.Module, wanted: nn.Module, limit: float = 1e-5) -> None:
    for mine, theirs in zip(trained.parameters(), wanted.parameters(), strict=True):
        close(mine.full_tensor() if hasattr(mine, "full_tensor") else mine, theirs, limit)


@check
def ddp_resumes_exactly() -> None:
    def make() -> tuple[nn.Module, Any]:
        model = DistributedDataParallel(network().to(DEVICE))
        return model, torch.optim.Adam(model.parameters(), 0.01)

    model, optimizer = make()
    steps(model, optimizer, range(5))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    steps(model, optimizer, range(5, 9))
    again, other = make()
    steps(
        again, other, [50]
    )  # DDP orders its buckets after the first step, and the order of a sum of four is in its last digit
    saved = torch.load(io.BytesIO(file.getvalue()), map_location=DEVICE)
    again.load_state_dict(saved["model"])
    other.load_state_dict(saved["optimizer"])
    steps(again, other, range(5, 9))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


@check
def power_sgd_learns_and_its_ranks_agree() -> None:
    if torch.cuda.is_available():  # beside a GPU the hook of torch synchronises it with the device of the gradient
        return
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    model = DistributedDataParallel(network().to(DEVICE))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    first = steps(model, optimizer, [0])
    assert steps(model, optimizer, [0] * 30) < 0.9 * first
    weights = [torch.empty_like(model.module[2].weight) for _ in range(SIZE)]
    dist.all_gather(weights, model.module[2].weight.detach())
    assert all(torch.equal(weight, weights[0]) for weight in weights)


@check
def static_graph_with_activation_checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    class Saved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def forward(self, x: Tensor) -> Tensor:
            once = checkpoint(lambda y: self.net[0](y)[:, :6], x, use_reentrant=False)
            return checkpoint(self.net, once, use_reentrant=True)  # the first layer's gradient comes twice

    model, plain = DistributedDataParallel(Saved().to(DEVICE), static_graph=True), Saved()
    x, y = batch(0)
    for _ in range(2):
        nn.functional.mse_loss(plain(x.requires_grad_()), y).backward()
        nn.functional.mse_loss(model(mine(x).detach().requires_grad_()), mine(y)).backward()
    for parameter, wanted in zip(model.module.parameters(), plain.parameters(), strict=True):
        close(parameter.grad, wanted.grad)


@check
def join_of_uneven_inputs() -> None:
    """Rank r has r + 1 batches; gradients are divided by all ranks, also when only some have a batch."""
    model, plain = DistributedDataParallel(network().to(DEVICE)), network()
    optimizer, other = torch.optim.SGD(model.parameters(), 0.1), torch.optim.SGD(plain.parameters(), 0.1)
    with model.join():
        steps(model, optimizer, range(RANK + 1))
    for step in range(SIZE):
        parts = list(zip(*(tensor.chunk(SIZE) for tensor in batch(step)), strict=True))[step:]
        other.zero_grad()
        (sum(nn.functional.mse_loss(plain(a), b) for a, b in parts) / SIZE).backward()
        other.step()
    all_close(model.module, plain)


@check
def zero_redundancy_optimizer_is_the_plain_one() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network().to(DEVICE))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    steps(model, optimizer, range(5))
    all_close(model.module, alone(torch.optim.Adam, range(5), lr=0.01))
    assert 0 < len(optimizer.optim.state) < 6  # a part of it on each rank
    optimizer.consolidate_state_dict(0)
    assert RANK != 0 or len(optimizer.state_dict()["state"]) == 6


def sharded() -> tuple[nn.Module, Any]:
    from torch.distributed.fsdp import fully_shard

    model, mesh = network().to(DEVICE), init_device_mesh("npu", (SIZE,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), 0.01)


@check
def fully_shard_state_and_distributed_checkpoint() -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_state_dict,
        set_state_dict,
    )

    model, optimizer = sharded()
    steps(model, optimizer, range(4))
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    for name, value in alone(torch.optim.AdamW, range(4), lr=0.01).state_dict().items():
        close(whole[name], value)
    folders = [tempfile.mkdtemp() if RANK == 0 else ""]
    dist.broadcast_object_list(folders, 0)
    folder = folders[0]
    checkpoint.save(
        dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True)), checkpoint_id=folder
    )
    steps(model, optimizer, range(4, 7))
    again, other = sharded()
    state = dict(zip(("model", "optimizer"), get_state_dict(again, other), strict=True))
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(again, other, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    steps(again, other, range(4, 7))
    for parameter, wanted in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(parameter.to_local(), wanted.to_local())


@check
def fully_shard_in_bfloat16() -> None:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = network().to(DEVICE)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model, mesh=init_device_mesh("npu", (SIZE,)), mp_policy=policy)
    steps(model, torch.optim.SGD(model.parameters(), 0.1), range(3))
    assert model[0].weight.dtype == torch.float32
    all_close(model, alone(torch.optim.SGD, range(3), lr=0.1), 0.02)


@check
def the_older_fsdp() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    wanted = alone(torch.optim.SGD, range(4), lr=0.1)
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
        model = FullyShardedDataParallel(network().to(DEVICE), device_id=DEVICE, sharding_strategy=strategy)
        steps(model, torch.optim.SGD(model.parameters(), 0.1), range(4))
        result = model.state_dict()
        assert list(result) == list(wanted.state_dict())
        for name, value in wanted.state_dict().items():
            close(result[name], value)


@check
def tensor_parallel_training() -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("npu", (SIZE,), mesh_dim_names=("tp",))
    model = parallelize_module(network().to(DEVICE), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    steps(model, torch.optim.SGD(model.parameters(), 0.1, foreach=False), range(3), lambda tensor: tensor.to(DEVICE))
    assert model[0].weight.to_local().shape[0] == 16 // SIZE
    all_close(model, alone(torch.optim.SGD, range(3), lr=0.1))


@check
def pipelines() -> None:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    x = batch(0)[0]
    for kind in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(0)
        whole = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(SIZE)))
        stage = PipelineStage(copy.deepcopy(whole[RANK]).to(DEVICE), RANK, SIZE, DEVICE)
        schedule = kind(stage, 2 * SIZE, loss_fn=nn.functional.mse_loss)
        inputs = (x.to(DEVICE),) if RANK == 0 else ()
        result = schedule.step(*inputs, **({"target": torch.zeros_like(x).to(DEVICE)} if RANK == SIZE - 1 else {}))
        if RANK == SIZE - 1:
            close(result, whole(x))
        nn.functional.mse_loss(whole(x), torch.zeros_like(x)).backward()
        for parameter, wanted in zip(stage.submod.parameters(), whole[RANK].parameters(), strict=True):
            close(parameter.grad, wanted.grad)


@check
def distributed_sampler() -> None:
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    data = TensorDataset(torch.arange(10 * SIZE))
    sampler = DistributedSampler(data, shuffle=True)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        mine_ = torch.cat([one.npu() for (one,) in DataLoader(data, 5, sampler=sampler)])
        together = [torch.empty_like(mine_) for _ in range(SIZE)]
        dist.all_gather(together, mine_)
        assert sorted(torch.cat(together).tolist()) == list(range(10 * SIZE))
        seen.append(mine_.tolist())
    assert seen[0] != seen[1]


@check
def functional_collectives() -> None:
    import torch.distributed._functional_collectives as functional

    everyone, total = dist.group.WORLD, SIZE * (SIZE + 1) / 2
    x = torch.full((2 * SIZE, 2), RANK + 1.0).npu()
    close(functional.all_reduce(x, "sum", everyone), torch.full((2 * SIZE, 2), total))
    close(functional.all_reduce(x, "avg", everyone), torch.full((2 * SIZE, 2), total / SIZE))
    close(functional.broadcast(x, 1, everyone), torch.full((2 * SIZE, 2), 2.0))
    rows = torch.arange(1.0, SIZE + 1).repeat_interleave(2)
    close(functional.all_to_all_single(x, None, None, everyone)[:, 0], rows)
    ops = torch.ops._c10d_functional
    name = everyone.group_name
    close(ops.wait_tensor(ops.all_gather_into_tensor(x[:2], SIZE, name))[:, 0], rows)
    close(ops.wait_tensor(ops.reduce_scatter_tensor(x, "sum", SIZE, name)), torch.full((2, 2), total))
    for reduced in ops.all_reduce_coalesced([x, 2 * x], "sum", name):
        assert float(ops.wait_tensor(reduced)[0, 0]) in (total, 2 * total)
    y = torch.ones(3).npu().requires_grad_()
    (functional.all_to_all_single_autograd(y.repeat(SIZE), None, None, everyone) * (RANK + 1)).sum().backward()
    close(y.grad, torch.full((3,), total))


@check
def parts_of_the_group() -> None:
    half = max(1, SIZE // 2)
    mine_, _ = dist.new_subgroups(half)
    x = torch.ones(2).npu()
    dist.all_reduce(x, group=mine_)
    assert x.tolist() == [half] * 2
    other, _ = dist.new_subgroups_by_enumeration(ODD_AND_EVEN)
    x = torch.full((2,), float(RANK)).npu()
    dist.all_reduce(x, group=other)
    assert x.tolist() == [sum(ODD_AND_EVEN[RANK % 2])] * 2
    if SIZE == 4:
        mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("a", "b"))
        x = torch.full((2,), float(RANK)).npu()
        dist.all_reduce(x, group=mesh.get_group("b"))
        assert x.tolist() == [1.0 if RANK < 2 else 5.0] * 2
    refused("monitored_barrier is only implemented for GLOO", dist.monitored_barrier, ValueError, line="")


@check
def a_timeout_of_a_group_that_exists() -> None:
    group = dist.new_group(list(range(SIZE)))
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), group)
    x = torch.ones(2).npu()
    if RANK == 0:
        refused("Timed out waiting 1000ms", lambda: dist.all_reduce(x, group=group), dist.DistBackendError, "ERR02011")
    dist.barrier()
    assert group._get_backend(x.device).options.op_timeout == timedelta(seconds=1)


@check
def destroyed_made_again_split_aborted() -> None:
    store = dist.distributed_c10d._get_default_store()
    world = {"timeout": timedelta(seconds=60), "device_id": DEVICE, "rank": RANK, "world_size": SIZE}
    dist.destroy_process_group()
    refused("has not been initialized", lambda: dist.all_reduce(torch.ones(2).npu()), ValueError, line="")
    dist.init_process_group("hccl", store=dist.PrefixStore("second", store), **world)
    x = torch.ones(2).npu()
    dist.all_reduce(x)
    assert x.tolist() == [SIZE] * 2
    if SPLITS:
        part = dist.split_group(split_ranks=ODD_AND_EVEN)
        x = torch.full((2,), float(RANK)).npu()
        dist.all_reduce(x, group=part)
        assert x.tolist() == [sum(ODD_AND_EVEN[RANK % 2])] * 2
        assert dist.get_process_group_ranks(part) == ODD_AND_EVEN[RANK % 2]
    dist.barrier()
    dist.distributed_c10d._abort_process_group()
    assert not dist.is_initialized()
    dist.init_process_group("hccl", store=dist.PrefixStore("third", store), **world)
    dist.all_reduce(x)


if __name__ == "__main__":
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    main()
