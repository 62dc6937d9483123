"""A thousand collectives of every kind: memory of the device and of the process stay as they are."""

from __future__ import annotations

import gc
from pathlib import Path

import torch
import torch.distributed as dist
from checks import RANK, SIZE, check, main

KIND = (
    lambda x: dist.all_reduce(x),
    lambda x: dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True),
    lambda x: dist.all_reduce(x.short()),
    lambda x: dist.broadcast(x, 0),
    lambda x: dist.all_gather([torch.empty_like(x) for _ in range(SIZE)], x),
    lambda x: dist.reduce(x, 1),
    lambda x: dist.reduce_scatter(torch.empty_like(x), [x] * SIZE),
    lambda x: dist.all_to_all_single(torch.empty_like(x), x),
    lambda x: dist.isend(x, 1 - RANK) if RANK == 0 else dist.recv(x, 0),
    lambda x: dist.barrier(async_op=True).wait(),
)


def resident() -> int:
    """Bytes of this process in memory that it shares with nobody."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no Rss in smaps_rollup")


def things() -> dict[str, int]:
    """What a process has that it could forget to give back."""
    shared = [one for one in Path("/proc/self/maps").read_text().splitlines() if "softnpu-hccl-" in one]
    return {
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "boards": len(shared),
        "files in /dev/shm": len(list(Path("/dev/shm").glob("softnpu-hccl-*"))),
    }


def round_of(count: int) -> tuple[int, int]:
    for number in range(count):
        KIND[number % len(KIND)](torch.ones(20_000).npu())
    dist.barrier()
    gc.collect()
    return torch.npu.memory_allocated(), resident()


@check
def a_thousand_collectives_leave_nothing() -> None:
    round_of(300)
    held, before = round_of(100)
    had = things()
    after_held, after = round_of(1000)
    assert things() == had, (had, things())
    assert after_held == held, (held, after_held)
    assert after - before < 8 << 20, (
        f"{after - before} bytes more"
    )  # one kept 80 KB tensor per collective would be 80 MB


@check
def groups_leave_nothing() -> None:
    for _ in range(2):
        dist.destroy_process_group(dist.new_group(list(range(SIZE))))
    gc.collect()
    had = things()
    for _ in range(5):
        group = dist.new_group(list(range(SIZE)))
        dist.all_reduce(torch.ones(3).npu(), group=group)
        dist.destroy_process_group(group)
        del group
    gc.collect()
    dist.barrier()
    result = things()
    assert all(result[name] <= count + 2 * (name == "files") for name, count in had.items()), (had, result)


if __name__ == "__main__":
    main()
