"""One way to fail, named on the command line: what the ranks that live on are told."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

RANK = int(os.environ["RANK"])


def kill() -> None:
    """The last rank dies while the others wait for it."""
    x = torch.ones(1000).npu()
    dist.all_reduce(x)
    if dist.get_world_size() - 1 == RANK:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def kill_in_training() -> None:
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(torch.nn.Linear(100, 100).npu())
    for step in range(1000):
        if step == 5 and RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        model(torch.ones(4, 100).npu()).sum().backward()


def _die_soon(rank: int) -> None:
    if rank == RANK:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()


def kill_in_a_large_broadcast() -> None:
    """Rank 0 dies with part of a tensor sent, which Gloo does not notice."""
    x = torch.ones(5_000_000).npu()
    dist.broadcast(x, 0)
    _die_soon(0)
    while True:
        dist.broadcast(x, 0)


def kill_in_a_barrier() -> None:
    dist.barrier()
    _die_soon(1)
    while True:
        dist.barrier()


def kill_in_a_transfer() -> None:
    x = torch.ones(5_000_000).npu()
    dist.barrier()
    _die_soon(0)
    while True:
        dist.send(x, 1) if RANK == 0 else dist.recv(x, 0)


def kill_between() -> None:
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    dist.barrier()


def leave_with_works_under_way() -> None:
    """An error of the program while a collective waits for the others: the process ends all the same."""
    dist.all_reduce(torch.ones(4).npu())
    if RANK == 0:
        dist.all_reduce(torch.ones(4).npu(), async_op=True)
        raise ValueError("of the program")
    time.sleep(15)


def one_device() -> None:
    x = torch.ones(4).npu()
    dist.all_reduce(x)
    print(x.tolist())


def kill_before_receive() -> None:
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(torch.ones(3).npu(), 1)


def late() -> None:
    """A rank that does not come: the timeout ends the others."""
    if RANK == 1:
        time.sleep(4)
        return
    dist.all_reduce(torch.ones(4).npu())


if __name__ == "__main__":
    torch.npu.set_device(0 if sys.argv[1] == "one_device" else RANK)
    dist.init_process_group("hccl", timeout=timedelta(seconds=float(sys.argv[2])))
    try:
        globals()[sys.argv[1]]()
    except Exception as error:
        print(f"{type(error).__name__} {error}", flush=True)
        sys.exit(3)
