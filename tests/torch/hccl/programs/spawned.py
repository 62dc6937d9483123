"""A program that starts its own ranks, as the guide's main.py does; under torchrun it is one of them."""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch_npu  # noqa: F401


def work(rank: int, size: int, url: str, backend: str | None) -> None:
    torch.npu.set_device(rank)
    dist.init_process_group(backend, init_method=url, rank=rank, world_size=size, timeout=timedelta(seconds=60))
    x = torch.full((3,), rank + 1.0).npu()
    dist.all_reduce(x)
    told = [str(dist.get_backend_config()), x.device.index, x.tolist()]
    if backend != "hccl":
        y = torch.ones(2)
        dist.all_reduce(y)
        told.append(y.tolist())
    sys.stdout.write(" ".join(map(str, ["TOLD", rank, *told])) + "\n")  # in one piece: the ranks share the output
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "torchrun":
        work(int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"]), "env://", "hccl")
    else:
        chosen = {"none": None, "both": "cpu:gloo,npu:hccl"}.get(how, how)
        mp.spawn(work, (2, sys.argv[2], chosen), 2)
