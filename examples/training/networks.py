"""ResNet for the trainers and ShuffleNet V2 for the tuning chapter, written out: torchvision is not needed.

Both keep the names of torchvision's parameters. `width` makes them small; the default is the real network.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

ARCHITECTURES = ("resnet18", "resnet50", "shufflenet_v2_x1_0")
SHUFFLENET_REPEATS = (4, 8, 4)


def conv(channels: int, wanted: int, size: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size but for its stride; what follows it has the bias."""
    return nn.Conv2d(channels, wanted, size, stride, size // 2, groups=groups, bias=False)


def start_weights(network: nn.Module) -> None:
    """Weights with which the variance stays the same from layer to layer; blocks begin as if only their way around were there."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, BasicBlock | Bottleneck):
            nn.init.zeros_((module.bn2 if isinstance(module, BasicBlock) else module.bn3).weight)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and the way around them."""

    expansion = 1

    def __init__(self, channels: int, middle: int, stride: int, around: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(channels, middle, 3, stride), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, middle, 3), nn.BatchNorm2d(middle)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = around

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 and the way around them."""

    expansion = 4

    def __init__(self, channels: int, middle: int, stride: int, around: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(channels, middle, 1), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = conv(middle, middle, 3, stride), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = conv(middle, middle * self.expansion, 1), nn.BatchNorm2d(middle * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = around

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """A stem, four stages of blocks, a classifier."""

    def __init__(self, block: type[BasicBlock | Bottleneck], counts: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.maxpool = nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        channels = width
        for number, count in enumerate(counts):
            stage, channels = self._stage(block, channels, width << number, count, 2 if number else 1)
            self.add_module(f"layer{number + 1}", stage)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)
        start_weights(self)

    @staticmethod
    def _stage(
        block: type[BasicBlock | Bottleneck], channels: int, middle: int, count: int, stride: int
    ) -> tuple[nn.Sequential, int]:
        wanted = middle * block.expansion
        blocks = []
        for number in range(count):
            step = 1 if number else stride
            around = None
            if step != 1 or channels != wanted:
                around = nn.Sequential(conv(channels, wanted, 1, step), nn.BatchNorm2d(wanted))
            blocks.append(block(channels, middle, step, around))
            channels = wanted
        return nn.Sequential(*blocks), wanted

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(width: int = 64, num_classes: int = 1000) -> nn.Module:
    """Basic blocks, two in each stage."""
    return ResNet(BasicBlock, (2, 2, 2, 2), width, num_classes)


def resnet50(width: int = 64, num_classes: int = 1000) -> nn.Module:
    """Bottlenecks, the network of the guide's quick start."""
    return ResNet(Bottleneck, (3, 4, 6, 3), width, num_classes)


# ---- ShuffleNet V2 ---------------------------------------------------------------------------------------------------


def channel_shuffle(x: Tensor, groups: int = 2) -> Tensor:
    """Channel i of group g goes to i * groups + g, by turning the two: the form that is slow on a chip."""
    batch, channels, height, width = x.shape
    x = x.view(batch, groups, channels // groups, height, width)
    return x.transpose(1, 2).contiguous().view(batch, channels, height, width)


def branches(channels: int, wanted: int, stride: int) -> tuple[nn.Sequential, nn.Sequential]:
    """The two halves of a block; the first is empty where the block keeps the size."""
    half = wanted // 2
    first = nn.Sequential()
    if stride > 1:
        first = nn.Sequential(
            conv(channels, channels, 3, stride, channels), nn.BatchNorm2d(channels),
            conv(channels, half, 1), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
        )  # fmt: skip
    second = nn.Sequential(
        conv(channels if stride > 1 else half, half, 1), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
        conv(half, half, 3, stride, half), nn.BatchNorm2d(half),
        conv(half, half, 1), nn.BatchNorm2d(half), nn.ReLU(inplace=True),
    )  # fmt: skip
    return first, second


class InvertedResidual(nn.Module):
    """A block as everybody writes it: split, one half through convolutions, put together, shuffled."""

    def __init__(
        self, channels: int, wanted: int, stride: int, shuffle: Callable[[Tensor], Tensor] = channel_shuffle
    ) -> None:
        super().__init__()
        self.stride, self.shuffle = stride, shuffle
        self.branch1, self.branch2 = branches(channels, wanted, stride)

    def forward(self, x: Tensor) -> Tensor:
        if self.stride == 1:
            first, second = x.chunk(2, dim=1)
            return self.shuffle(torch.cat((first, self.branch2(second)), dim=1))
        return self.shuffle(torch.cat((self.branch1(x), self.branch2(x)), dim=1))


class ShuffleNetV2(nn.Module):
    """A stem, three stages, a classifier. `block(channels, wanted, stride, last)` makes the blocks."""

    def __init__(
        self, block: Callable[[int, int, int, bool], nn.Module], stages: tuple[int, ...], classes: int
    ) -> None:
        super().__init__()
        stem, *wanted, last = stages
        self.conv1 = nn.Sequential(nn.Conv2d(3, stem, 3, 2, 1, bias=False), nn.BatchNorm2d(stem), nn.ReLU(inplace=True))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = stem
        for number, (count, size) in enumerate(zip(SHUFFLENET_REPEATS, wanted, strict=True)):
            blocks = [block(channels, size, 2, False)]
            blocks += [block(size, size, 1, index == count - 2) for index in range(count - 1)]
            self.add_module(f"stage{number + 2}", nn.Sequential(*blocks))
            channels = size
        self.conv5 = nn.Sequential(conv(channels, last, 1), nn.BatchNorm2d(last), nn.ReLU(inplace=True))
        self.fc = nn.Linear(last, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.conv1(x))
        x = self.conv5(self.stage4(self.stage3(self.stage2(x))))
        return self.fc(x.mean([2, 3]))


def shufflenet_stages(width: int) -> tuple[int, ...]:
    """The channels of ShuffleNet V2 x1.0 for 24 channels of the stem, fewer in proportion; always even halves."""
    return tuple(max(4, size * width // 24 // 4 * 4) for size in (24, 116, 232, 464, 1024))


def shufflenet_v2_x1_0(width: int = 24, num_classes: int = 1000) -> nn.Module:
    """The network of the guide's tuning chapter, before it is tuned."""
    return ShuffleNetV2(
        lambda channels, wanted, stride, _: InvertedResidual(channels, wanted, stride),
        shufflenet_stages(width),
        num_classes,
    )
