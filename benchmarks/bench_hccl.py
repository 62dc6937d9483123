"""Collectives on npu against Gloo's own on CPU tensors of the same size, in the same two processes, in turns."""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ != "__main__":
    from _tools import Result

RANKS = 2
LIMIT = 1.1
LARGE = 100 << 20  # bytes
ROWS = (
    ("all_reduce of 100 MB", "large", 9, f"≤ {LIMIT}"),
    ("all_reduce of 4 KB", "small", 300, "–"),
    ("all_reduce of 10 MB, bfloat16", "half", 15, "–"),
    ("reduce_scatter of 20 MB", "scatter", 9, "–"),
)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def results() -> list[Result]:
    """Start the processes and read what rank 0 measured."""
    base = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(_free_port()), WORLD_SIZE=str(RANKS))
    base.setdefault("SOFTNPU_DEVICES", str(RANKS))
    command = [sys.executable, str(Path(__file__))]
    ranks = [
        subprocess.Popen(command, env=dict(base, RANK=str(rank)), stdout=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    texts = [rank.communicate(timeout=600)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise RuntimeError(f"a rank of the measurement failed: {[rank.returncode for rank in ranks]}")
    measured = json.loads(texts[0].splitlines()[-1])
    rows = []
    for title, key, _, wish in ROWS:
        ours, plain = measured[key]
        ratio = ours / plain
        rows.append(
            Result(
                f"{title}, 2 ranks",
                f"{ours * 1e3:.2f} ms",
                f"Gloo on the CPU {plain * 1e3:.2f} ms",
                f"{ratio:.2f}",
                wish,
                ratio <= LIMIT if wish != "–" else True,
            )
        )
    return rows


def _in_turns(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[float, float]:
    """The medians of both, after a round that is not counted. Which of the two begins changes from round to round."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for index in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            (first, second)[index]()
            if turn:
                times[index].append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def _rank() -> None:
    import torch
    import torch.distributed as dist
    import torch_npu  # noqa: F401

    torch.npu.set_device(int(os.environ["RANK"]))
    dist.init_process_group("cpu:gloo,npu:hccl")

    def reduced(count: int, dtype: torch.dtype) -> tuple[Callable[[], None], Callable[[], None]]:
        host = torch.ones(count, dtype=dtype)
        device = host.npu()
        return lambda: dist.all_reduce(device, dist.ReduceOp.MAX), lambda: dist.all_reduce(host, dist.ReduceOp.MAX)

    def scattered(count: int) -> tuple[Callable[[], None], Callable[[], None]]:
        host, part = torch.ones(count), torch.empty(count // RANKS)
        device, device_part = host.npu(), part.npu()
        return (
            lambda: dist.reduce_scatter_tensor(device_part, device),
            lambda: dist.reduce_scatter_tensor(part, host),
        )

    calls = {
        "large": reduced(LARGE // 4, torch.float32),
        "small": reduced(1024, torch.float32),
        "half": reduced(5 << 20, torch.bfloat16),
        "scatter": scattered(5 << 20),
    }
    print(json.dumps({key: _in_turns(*calls[key], rounds) for _, key, rounds, _ in ROWS}))
    dist.destroy_process_group()


if __name__ == "__main__":
    _rank()
