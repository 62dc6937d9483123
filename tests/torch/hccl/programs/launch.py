"""Starts a program of this folder once per rank, and gathers what the ranks say."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_OF_A_JOB = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "HCCL_", "TORCH_DISTRIBUTED", "SOFTNPU_TORCH")


@dataclass(frozen=True)
class Ended:
    """One rank: how it ended, what it wrote, when (seconds after the start)."""

    code: int
    output: str
    errors: str
    seconds: float


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    """Of this process, without what another job may have left in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_JOB)}
    return kept | {"SOFTNPU_DEVICES": "8", "OMP_NUM_THREADS": "1"} | more


def ranks(program: str, size: int, *arguments: str, timeout: float = 120, **more: str) -> list[Ended]:
    """The ranks of one job, all ended."""
    shared = environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE=str(size), **more)
    command = [sys.executable, str(HERE / program), *arguments]
    start = time.monotonic()
    jobs = [
        subprocess.Popen(
            command, env=shared | {"RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(size)
    ]
    try:
        ended = []
        for job in jobs:
            output, errors = job.communicate(timeout=timeout)
            ended.append(Ended(job.returncode, output, errors, time.monotonic() - start))
        return ended
    finally:
        for job in jobs:
            job.kill()
            job.wait()


def checked(program: str, size: int, **more: str) -> dict[str, list[str]]:
    """The result of every check of a program on every rank; a rank without one has its standard error."""
    results: dict[str, list[str]] = {}
    for rank, ended in enumerate(ranks(program, size, **more)):
        lines = [line for line in ended.output.splitlines() if line.startswith("RESULTS ")]
        assert ended.code == 0 and lines, f"rank {rank} ended with {ended.code}: {ended.errors}"
        for name, result in json.loads(lines[0].removeprefix("RESULTS ")).items():
            results.setdefault(name, []).append(result)
    return results


def names(program: str) -> list[str]:
    """The checks of a program, without importing it: it needs ranks."""
    lines = (HERE / program).read_text().splitlines()
    marked = [lines[number + 1] for number, line in enumerate(lines) if line == "@check"]
    return [line.removeprefix("def ").partition("(")[0] for line in marked]


def passed(results: dict[str, list[str]], name: str, size: int) -> None:
    """The check ran on all ranks and held."""
    assert name in results, f"an earlier check failed: {[check for check in results if set(results[check]) != {'ok'}]}"
    assert results[name] == ["ok"] * size, "\n".join(results[name])
