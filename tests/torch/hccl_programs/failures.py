"""One way to fail, named on the command line: what the ranks that live on are told."""

from __future__ import annotations

import os
import signal
import sys
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


def kill_before_receive() -> None:
    dist.barrier()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.recv(torch.ones(3).npu(), 1)


def sizes() -> None:
    dist.all_reduce(torch.ones(4 + 1000 * RANK).npu())


def kinds() -> None:
    x = torch.ones(4).npu()
    if RANK == 0:
        dist.broadcast(x, 0)
    else:
        dist.all_reduce(x)


def dtypes() -> None:
    dist.all_reduce(torch.ones(4, dtype=torch.int32 if RANK else torch.float32).npu())


def late() -> None:
    """A rank that does not come: the timeout ends the others."""
    if RANK == 1:
        time.sleep(4)
        return
    dist.all_reduce(torch.ones(4).npu())


if __name__ == "__main__":
    torch.npu.set_device(RANK)
    dist.init_process_group("hccl", timeout=timedelta(seconds=float(sys.argv[2])))
    try:
        globals()[sys.argv[1]]()
    except Exception as error:
        print(f"{type(error).__name__} {error}", flush=True)
        sys.exit(3)
