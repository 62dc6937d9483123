"""What stands on the collectives: DistributedDataParallel, SyncBatchNorm, fully_shard, DTensor."""

from __future__ import annotations

import copy
import warnings

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

DEVICE = torch.device("npu", RANK)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of all ranks together."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(4 * SIZE, 6, generator=generator), torch.randn(4 * SIZE, 3, generator=generator)


def mine(whole: torch.Tensor) -> torch.Tensor:
    return whole.chunk(SIZE)[RANK].to(DEVICE)


def train(model: nn.Module, steps: int, part: object) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        x, y = (part(tensor) for tensor in batch(step))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def close(result: torch.Tensor, wanted: torch.Tensor, limit: float = 1e-6) -> None:
    torch.testing.assert_close(result.detach().cpu(), wanted.detach(), rtol=1e-5, atol=limit)


@check
def ddp_gradients_are_those_of_the_large_batch() -> None:
    for options in ({}, {"bucket_cap_mb": 0.0001}, {"gradient_as_bucket_view": True}, {"static_graph": True}):
        alone = network()
        model = DistributedDataParallel(network().to(DEVICE), device_ids=[RANK], **options)
        x, y = batch(0)
        nn.functional.mse_loss(alone(x), y).backward()
        nn.functional.mse_loss(model(mine(x)), mine(y)).backward()
        for parameter, wanted in zip(model.module.parameters(), alone.parameters(), strict=True):
            close(parameter.grad, wanted.grad)


@check
def ddp_training_is_that_of_one_process() -> None:
    alone = network()
    train(alone, 10, lambda tensor: tensor)
    model = DistributedDataParallel(network().to(DEVICE))
    train(model, 10, mine)
    for parameter, wanted in zip(model.module.parameters(), alone.parameters(), strict=True):
        close(parameter, wanted, 1e-5)


@check
def ddp_brings_different_parameters_together() -> None:
    torch.manual_seed(RANK)
    model = DistributedDataParallel(nn.Linear(3, 3).to(DEVICE))
    weights = [torch.empty_like(model.module.weight) for _ in range(SIZE)]
    dist.all_gather(weights, model.module.weight.detach())
    assert all(torch.equal(weight, weights[0]) for weight in weights)


@check
def ddp_unused_parameters_no_sync_and_join() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(x)

    torch.manual_seed(2)
    model = DistributedDataParallel(Half().to(DEVICE), find_unused_parameters=True)
    x = torch.full((2, 3), float(RANK + 1)).to(DEVICE)
    with model.no_sync():
        model(x).sum().backward()
    assert float(model.module.used.weight.grad[0, 0]) == 2 * (RANK + 1)
    model(x).sum().backward()
    assert float(model.module.used.weight.grad[0, 0]) == 4 * (SIZE + 1) / 2
    assert model.module.unused.weight.grad is None
    uneven = DistributedDataParallel(nn.Linear(3, 3).to(DEVICE))
    with uneven.join():
        for _ in range(RANK + 1):
            uneven(x).sum().backward()


@check
def ddp_communication_hook_and_half() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    for hook in (default_hooks.fp16_compress_hook, default_hooks.allreduce_hook):
        model = DistributedDataParallel(network().to(DEVICE))
        model.register_comm_hook(None, hook)
        alone = network()
        x, y = batch(3)
        nn.functional.mse_loss(alone(x), y).backward()
        nn.functional.mse_loss(model(mine(x)), mine(y)).backward()
        for parameter, wanted in zip(model.module.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad.cpu(), wanted.grad, rtol=2e-2, atol=2e-3)


@check
def ddp_does_not_warn() -> None:
    model = DistributedDataParallel(network().to(DEVICE))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(12):
            model(mine(batch(step)[0])).sum().backward()
    seen = model._get_ddp_logging_data()
    assert seen["avg_backward_compute_time"] > 0, seen


@check
def sync_batch_norm_is_that_of_the_large_batch() -> None:
    alone = nn.BatchNorm2d(3)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).to(DEVICE)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2 * SIZE, 3, 4, 4, generator=generator)
    whole, part = x.clone().requires_grad_(), x.chunk(SIZE)[RANK].to(DEVICE).requires_grad_()
    wanted, result = alone(whole), model(part)
    close(result, wanted.chunk(SIZE)[RANK], 1e-5)
    wanted.pow(3).sum().backward()
    result.pow(3).sum().backward()
    close(part.grad, whole.grad.chunk(SIZE)[RANK], 1e-4)
    close(model.running_var, alone.running_var, 1e-5)
    gradient = model.weight.grad.clone()
    dist.all_reduce(gradient)
    torch.testing.assert_close(gradient.cpu(), alone.weight.grad, rtol=1e-4, atol=1e-4)


@check
def fully_shard_trains_as_one_process() -> None:
    from torch.distributed.fsdp import fully_shard

    alone = network()
    train(alone, 3, lambda tensor: tensor)
    model = network().to(DEVICE)
    mesh = init_device_mesh("npu", (SIZE,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    assert model[0].weight.to_local().shape[0] == 16 // SIZE
    train(model, 3, mine)
    for parameter, wanted in zip(model.parameters(), alone.parameters(), strict=True):
        close(parameter.full_tensor(), wanted, 1e-5)


@check
def dtensor_basics() -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("npu", (SIZE,), mesh_dim_names=("all",))
    whole = torch.arange(8.0 * SIZE).reshape(2 * SIZE, 4)
    x = distribute_tensor(whole.to(DEVICE), mesh, [Shard(0)])
    assert isinstance(x, DTensor) and x.to_local().shape == (2, 4)
    close((x @ x.t()).full_tensor(), whole @ whole.t())
    close(x.sum().full_tensor(), whole.sum())
    close(x.redistribute(mesh, [Replicate()]).to_local(), whole)
    close(x.redistribute(mesh, [Shard(1)]).to_local(), whole.chunk(SIZE, 1)[RANK])
    alone = network()
    model = parallelize_module(network().to(DEVICE), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    data = torch.ones(2, 6)
    close(model(data.to(DEVICE)), alone(data), 1e-5)


if __name__ == "__main__":
    main()
