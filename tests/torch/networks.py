"""The models that the tests and the benchmark run on npu and on the CPU, written out: ResNet, ViT, BERT, GPT-2, LSTM.

Each has a full size (`resnet50()` …) and a small one of the same make; `FULL` and `SMALL` name them with a batch to feed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """ResNet's block: 1x1, 3x3 (with the stride), 1x1, and the shortcut."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * 4
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        stem = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        self.stem = nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1))
        stages, inputs = [], width
        for level, count in enumerate(blocks):
            for index in range(count):
                stages.append(Bottleneck(inputs, width << level, 2 if level and not index else 1))
                inputs = (width << level) * 4
        self.stages = nn.Sequential(*stages)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.fc(self.pool(self.stages(self.stem(images))).flatten(1))


class Attention(nn.Module):
    """Attention with several heads; `causal` as in GPT, `mask` as in BERT."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A transformer layer; the norm comes before (ViT, GPT-2) or after (BERT) each half."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, norm_first: bool = True) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class ViT(nn.Module):
    def __init__(self, size: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    """BERT with a classifier on the pooled first token; id 0 is padding."""

    def __init__(self, words: int, length: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(words, width, padding_idx=0), nn.Embedding(length, width)
        self.segment, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(Layer(width, heads, norm_first=False) for _ in range(depth))
        self.pooler, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.word(ids) + self.position(places) + self.segment(torch.zeros_like(ids)))
        mask = (ids != 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.classifier(torch.tanh(self.pooler(x[:, 0])))


class Gpt2(nn.Module):
    """GPT-2: causal layers, the head shares its weights with the embedding."""

    def __init__(self, words: int, length: int, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads, causal=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.word.weight
        nn.init.normal_(self.word.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.word(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.layers(x)))


class Lstm(nn.Module):
    """A language model on stacked LSTMs."""

    def __init__(self, words: int, width: int, depth: int) -> None:
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.lstm, self.head = nn.LSTM(width, width, depth, batch_first=True), nn.Linear(width, words)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.word(ids))[0])


def resnet50() -> ResNet:
    return ResNet((3, 4, 6, 3), 64, 1000)


def bert_base() -> Bert:
    return Bert(30522, 512, 768, 12, 12, 2)


@dataclass(frozen=True)
class Case:
    """How to make a model and what to feed it: `batch` gives inputs and targets on the CPU."""

    make: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]


def pictures(count: int, size: int, classes: int) -> Callable[[], tuple[Tensor, Tensor]]:
    return lambda: (torch.randn(count, 3, size, size), torch.randint(classes, (count,)))


def words(count: int, length: int, known: int, classes: int | None = None) -> Callable[[], tuple[Tensor, Tensor]]:
    """Sentences, and their class, or without classes the next words."""

    def make() -> tuple[Tensor, Tensor]:
        ids = torch.randint(1, known, (count, length + 1))
        if classes is None:
            return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        ids[0, length // 2 :] = 0
        return ids[:, :-1].contiguous(), torch.randint(classes, (count,))

    return make


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten())


SMALL = {
    "resnet": Case(lambda: ResNet((1, 1), 4, 5), pictures(4, 16, 5)),
    "vit": Case(lambda: ViT(16, 4, 32, 1, 4, 5), pictures(4, 16, 5)),
    "bert": Case(lambda: Bert(50, 16, 32, 1, 4, 3), words(4, 12, 50, 3)),
    "gpt2": Case(lambda: Gpt2(50, 16, 32, 1, 4), words(4, 12, 50)),
    "lstm": Case(lambda: Lstm(50, 32, 2), words(4, 12, 50)),
}

FULL = {
    "resnet50": Case(resnet50, pictures(2, 224, 1000)),
    "vit_base": Case(lambda: ViT(224, 16, 768, 12, 12, 1000), pictures(1, 224, 1000)),
    "bert_base": Case(bert_base, words(2, 64, 30522, 2)),
    "gpt2": Case(lambda: Gpt2(50257, 1024, 768, 12, 12), words(1, 64, 50257)),
    "lstm": Case(lambda: Lstm(10000, 650, 2), words(8, 35, 10000)),
}
