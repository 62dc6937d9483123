"""For programs that run on every rank: named checks, their results as JSON on standard output."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable
from datetime import timedelta

import torch
import torch.distributed as dist
import torch_npu  # noqa: F401

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CHECKS: list[Callable[[], None]] = []


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS.append(function)
    return function


def refused(text: str, call: Callable[[], object], kind: type[Exception] = Exception, line: str = "ERR02") -> None:
    """The call raises, with this text and the line of process groups."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error!r}"
        assert line in str(error), f"{line} is not in {error!r}"
        return
    raise AssertionError(f"nothing was raised; expected {text!r}")


def main(backend: str | None = "hccl", seconds: int = 60) -> None:
    """All checks in their order, which is the same on every rank; one that fails may leave the ranks apart, so it is the last."""
    torch.npu.set_device(RANK)
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    results = {}
    for check in CHECKS:
        try:
            check()
            results[check.__name__] = "ok"
        except Exception:
            results[check.__name__] = traceback.format_exc()
            break
    print("RESULTS " + json.dumps(results), flush=True)
    dist.destroy_process_group()
