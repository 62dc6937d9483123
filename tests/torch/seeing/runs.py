"""What the tests of profilers share: a step of a training, a profile of steps, a table."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch_npu import profiler

STEPS = 5


def training_step() -> Callable[[], None]:
    """A step of a training: one convolution, one linear layer, forward and backward, and the update."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def run() -> None:
        images, target = torch.randn(2, 3, 8, 8).npu(), torch.tensor([1, 2]).npu()
        loss = nn.functional.cross_entropy(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run()
    return run


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def profiled(step: Any, folder: Path, **options: Any) -> Path:
    """The output folder of a profile of steps 2 and 3."""
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    handler = profiler.tensorboard_trace_handler(str(folder), options.pop("worker", None))
    with profiler.profile(schedule=plan, on_trace_ready=handler, **options) as prof:
        for _ in range(STEPS):
            step()
            prof.step()
    (result_folder,) = folder.glob("*_ascend_pt")
    return result_folder
