"""What the tests of apex share: small models, data, training, and a torch that is its own again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from apex import amp
from apex.amp import _amp_state
from torch import Tensor, nn

CLASSES = 4


@pytest.fixture(autouse=True)
def fresh_amp() -> Iterator[None]:
    """amp belongs to the process: each test begins without, and leaves none behind."""
    yield
    if _amp_state.handle is not None:
        _amp_state.handle.deactivate()
    _amp_state.__init__()


def cnn() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 9, CLASSES),
    ).npu()  # fmt: skip


class Former(nn.Module):
    """A transformer of two layers that sums its words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.layers(self.words(words)).mean(1))


def former() -> nn.Module:
    torch.manual_seed(0)
    return Former().npu()


def pictures(step: int, count: int = 16) -> tuple[Tensor, Tensor]:
    """Noise with a bright quarter, which is the class."""
    generator = torch.Generator().manual_seed(step)
    target = torch.randint(0, CLASSES, (count,), generator=generator)
    x = torch.randn(count, 3, 8, 8, generator=generator)
    for image, place in zip(x, target.tolist(), strict=True):
        image[:, place // 2 * 4 : place // 2 * 4 + 4, place % 2 * 4 : place % 2 * 4 + 4] += 0.4
    return x.npu(), target.npu()


def sentences(step: int, count: int = 16) -> tuple[Tensor, Tensor]:
    """Words; the class is the most frequent of four of them."""
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(0, 20, (count, 12), generator=generator)
    counts = torch.stack([(words == word).sum(1) for word in range(CLASSES)], 1) + torch.arange(CLASSES) * 0.1
    return words.npu(), counts.argmax(1).npu()


Data = Callable[[int], tuple[Tensor, Tensor]]


def run(model: nn.Module, optimizer: Any, data: Data, steps: range, scaled: bool = True) -> list[float]:
    """Train and return the losses."""
    losses = []
    for step in steps:
        x, target = data(step)
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        if scaled:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        else:
            loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
