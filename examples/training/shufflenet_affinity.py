"""ShuffleNet V2 made to suit the chip, step by step as in the tuning chapter of the porting guide; the conversions are counted.

Two kinds of steps: the program is rewritten with equal results (channels shuffled by selection, concatenation and split fused with
it), which ends the copies of tensors that do not lie in one piece, and the layers below are repaired (`chip_formats.py`), which ends
conversions of format (TransData). Each step trains once on the same batch, with the loss and gradients of the plain network on the CPU.

    python shufflenet_affinity.py                  # the real network is --width 24 --image-size 224
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networks
import torch
import torch_npu
from chip_formats import ChipFormats, Repairs
from torch import Tensor, nn
from torch_npu import Format, formats

CLASSES = 10
UNREPAIRED = Repairs()
Block = Callable[[int, int, int, bool], nn.Module]


def shuffled(channels: int, groups: int = 2) -> Tensor:
    """Where each channel of a shuffled tensor comes from."""
    return torch.arange(channels).view(groups, -1).t().reshape(-1)


def channel_shuffle_index_select(x: Tensor, groups: int = 2) -> Tensor:
    """The same as `networks.channel_shuffle`, as one selection: no view, nothing to copy together."""
    return x.index_select(1, shuffled(x.shape[1], groups).to(x.device))


class SelectShuffle(torch.autograd.Function):
    """Concatenation, shuffle and, for two indices, the split of the next block. The way back is a selection too."""

    @staticmethod
    def forward(
        ctx: Any, x1: Tensor, x2: Tensor, back: tuple[Tensor, Tensor], ahead: tuple[Tensor, ...], plain: bool
    ) -> Any:
        ctx.back, ctx.plain = back, plain
        x = torch.cat((x1, x2), dim=1)
        halves = tuple(x.index_select(1, index) for index in ahead)
        return halves if len(halves) > 1 else halves[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        grad = torch.cat(grads, dim=1) if len(grads) > 1 else grads[0]
        if ctx.plain:  # once, instead of once for each selection
            grad = torch_npu.npu_format_cast(grad, int(Format.NCHW))
        return *(grad.index_select(1, index) for index in ctx.back), None, None, None


class ChannelShuffle(nn.Module):
    """The indices as buffers: they move with the model once, not with every call."""

    def __init__(self, channels: int, split: bool, plain: bool) -> None:
        super().__init__()
        self.split, self.plain = split, plain
        ahead = shuffled(channels).int()
        back = ahead.argsort().int()
        for name, part in (("ahead", ahead), ("back", back)):
            self.register_buffer(f"{name}1", part[: channels // 2].clone(), persistent=False)
            self.register_buffer(f"{name}2", part[channels // 2 :].clone(), persistent=False)
        self.register_buffer("ahead", ahead, persistent=False)

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        ahead = (self.ahead1, self.ahead2) if self.split else (self.ahead,)
        return SelectShuffle.apply(x1, x2, (self.back1, self.back2), ahead, self.plain)


class AffinityBlock(nn.Module):
    """A block that takes its two halves as they come and gives two, but for the last of a stage."""

    def __init__(self, channels: int, wanted: int, stride: int, last: bool, plain: bool) -> None:
        super().__init__()
        self.stride = stride
        self.branch1, self.branch2 = networks.branches(channels, wanted, stride)
        self.channel_shuffle = ChannelShuffle(wanted, split=not last, plain=plain)

    def forward(self, x: Any) -> Any:
        first, second = x if self.stride == 1 else (self.branch1(x), x)
        return self.channel_shuffle(first, self.branch2(second))


def plain_block(shuffle: Callable[[Tensor], Tensor]) -> Block:
    return lambda channels, wanted, stride, _: networks.InvertedResidual(channels, wanted, stride, shuffle)


def affinity_block(plain: bool) -> Block:
    return lambda channels, wanted, stride, last: AffinityBlock(channels, wanted, stride, last, plain)


@dataclass(frozen=True)
class Step:
    """One line of the tables: what is done, the block as it is then, the repairs below, whether weights have their format."""

    text: str
    block: Block
    repairs: Repairs = UNREPAIRED
    weights: bool = False


STEPS = (
    Step("as everybody writes it", plain_block(networks.channel_shuffle)),
    Step("channel_shuffle by index_select (1.1)", plain_block(channel_shuffle_index_select)),
    Step("two index_select instead of chunk (1.2, 2.7)", affinity_block(False)),
    Step("cat gives NCHW (1.3)", affinity_block(False), Repairs(True)),
    Step("weights in their format from the start (1.4)", affinity_block(False), Repairs(True), True),
    Step("depthwise convolution gives 5HD (1.5)", affinity_block(False), Repairs(True, True), True),
    Step("ReluGrad in 5HD (2.8)", affinity_block(False), Repairs(True, True, True), True),
    Step("one cast before two selections (2.9)", affinity_block(True), Repairs(True, True, True), True),
)


@dataclass(frozen=True)
class Costs:
    """What a training step takes on the chip beside the arithmetic."""

    copies: int
    forward: int
    backward: int

    @property
    def transdata(self) -> int:
        return self.forward + self.backward


def train_once(step: Step, start: nn.Module, stages: tuple[int, ...], images: Tensor, target: Tensor) -> Any:
    """One step on npu: the loss, the gradients, the costs."""
    torch.npu.set_compile_mode(jit_compile=step.weights)  # only then does `npu()` lay weights out for the chip
    model = networks.ShuffleNetV2(step.block, stages, CLASSES)
    model.load_state_dict(start.state_dict())
    model = model.npu().train()
    images, target = images.npu(), target.npu()
    formats.reset_conversions()
    with ChipFormats(step.repairs) as chip:
        loss = nn.functional.cross_entropy(model(images), target)
        forward = sum(formats.conversions().values()) - chip.free
        loss.backward()
    everything = sum(formats.conversions().values()) - chip.free
    gradients = [parameter.grad.cpu() for parameter in model.parameters()]
    return loss.item(), gradients, Costs(chip.copies, forward, everything - forward)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=24, help="channels of the first layer")
    parser.add_argument("--image-size", type=int, default=64, help="pixels")
    parser.add_argument("-b", "--batch-size", type=int, default=8)
    args = parser.parse_args()
    warnings.filterwarnings(
        "ignore", "a view with 5 dimensions of a tensor in format", UserWarning
    )  # what step 1 removes
    torch.manual_seed(0)
    torch.npu.config.allow_internal_format = True
    stages = networks.shufflenet_stages(args.width)
    start = networks.ShuffleNetV2(STEPS[0].block, stages, CLASSES).train()
    images = torch.randn(args.batch_size, 3, args.image_size, args.image_size)
    target = torch.randint(0, CLASSES, (args.batch_size,))
    cpu = copy.deepcopy(start)
    wanted = nn.functional.cross_entropy(cpu(images), target)
    wanted.backward()
    gradients = [parameter.grad for parameter in cpu.parameters()]
    print(f"{'step (table.row of the guide)':48}{'copies':>8}{'forward':>9}{'backward':>9}{'TransData':>10}")
    costs = []
    for step in STEPS:
        loss, computed, now = train_once(step, start, stages, images, target)
        print(f"{step.text:48}{now.copies:8}{now.forward:9}{now.backward:9}{now.transdata:10}", flush=True)
        torch.testing.assert_close(loss, wanted.item(), rtol=1e-5, atol=0)
        for ours, theirs in zip(computed, gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
        costs.append(now)
    check(costs)


def check(costs: list[Costs]) -> None:
    """Rewriting ends the copies, every repair takes conversions away."""
    copies = [cost.copies for cost in costs[:3]]
    transdata = [cost.transdata for cost in costs[2:]]
    if copies != sorted(set(copies), reverse=True) or copies[-1] or transdata != sorted(set(transdata), reverse=True):
        sys.exit(f"a step did not help: copies {copies}, TransData {transdata}")
    print("loss and gradients are those of the CPU in every step")


if __name__ == "__main__":
    main()
