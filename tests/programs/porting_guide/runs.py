"""What the tests of the porting guide share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

PROGRAMS = Path(__file__).parent
STAND_INS = PROGRAMS / "stand_ins"
TRAINING = Path(__file__).parents[3] / "examples" / "training"
TIME_LIMIT_S = 120


def run(*words: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A program in a folder, which is also its home."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("SOFTNPU_", "ASCEND_", "TORCH_", "MASTER_"))
    }
    return subprocess.run(
        [sys.executable, "-B", *words],
        cwd=folder,
        env=kept | {"HOME": str(folder), "SOFTNPU_RUNTIME_DIR": str(folder)} | env,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )


class Net(nn.Module):
    """A small network with all that the examples look at: convolution, batch norm, ReLU, linear."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv, self.bn, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 36, classes)

    def forward(self, x: Any) -> Any:
        return self.fc(torch.relu(self.bn(self.conv(x))).flatten(1))


def new_training() -> tuple[Any, Any, Any, Any, Any]:
    """model, input_tensor, target, loss_func, optimizer as the examples call them, on npu."""
    torch.manual_seed(0)
    model = Net().npu()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return model, torch.randn(2, 3, 8, 8).npu(), torch.tensor([1, 2]).npu(), nn.functional.cross_entropy, optimizer
