"""What a migration does not touch in the ImageNet trainers: options, pictures, learning rate, progress, files."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import networks
import torch
from image_folder import ImageFolder
from torch import Tensor

CHECKPOINT, BEST = "checkpoint.pth.tar", "model_best.pth.tar"


def parser(text: str) -> argparse.ArgumentParser:
    """The options that both programs have."""
    result = argparse.ArgumentParser(description=text.splitlines()[0])
    result.add_argument("data", type=Path, metavar="DIR", help="folder with train and val (image_folder.py makes one)")
    result.add_argument("-a", "--arch", default="resnet18", choices=networks.ARCHITECTURES)
    result.add_argument("-j", "--workers", default=4, type=int, help="processes that load pictures")
    result.add_argument("--epochs", default=90, type=int)
    result.add_argument("--start-epoch", default=0, type=int, help="useful on restarts")
    result.add_argument("-b", "--batch-size", default=256, type=int, help="of all devices of this machine together")
    result.add_argument("--lr", "--learning-rate", default=0.1, type=float)
    result.add_argument("--momentum", default=0.9, type=float)
    result.add_argument("--wd", "--weight-decay", default=1e-4, type=float, dest="weight_decay")
    result.add_argument("-p", "--print-freq", default=10, type=int, help="steps between two lines")
    result.add_argument("--resume", default="", metavar="FILE", help="checkpoint to go on from")
    result.add_argument("-e", "--evaluate", action="store_true", help="only validate")
    result.add_argument("--pretrained", action="store_true", help="refused: there is nothing to download here")
    result.add_argument("--world-size", default=-1, type=int, help="machines")
    result.add_argument("--rank", default=-1, type=int, help="number of this machine")
    result.add_argument("--dist-url", default="tcp://127.0.0.1:23456")
    result.add_argument("--multiprocessing-distributed", action="store_true", help="one process for each device")
    result.add_argument("--seed", default=None, type=int)
    result.add_argument(
        "--width", default=None, type=int, help="channels of the first layer; fewer make a small network"
    )
    result.add_argument("--image-size", default=224, type=int, help="pixels")
    return result


def parse(options: argparse.ArgumentParser) -> argparse.Namespace:
    """The options as given, with those refused that cannot be followed; numbers get their start here."""
    args = options.parse_args()
    if args.pretrained:
        options.error("--pretrained needs weights from the internet; give a checkpoint with --resume")
    if args.resume and not os.path.isfile(args.resume):
        options.error(f"--resume: there is no checkpoint {args.resume!r}")
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    return args


def set_seed(args: argparse.Namespace) -> None:
    """Every process starts with the same weights and shuffles in the same way."""
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)


def datasets(args: argparse.Namespace) -> tuple[ImageFolder, ImageFolder]:
    """The pictures to train and to validate with."""
    return tuple(ImageFolder(args.data / part, args.image_size, part == "train") for part in ("train", "val"))


def create_model(args: argparse.Namespace, classes: int) -> torch.nn.Module:
    """The network that --arch names."""
    print(f"=> creating model '{args.arch}'")
    return network(args.arch, args.width, classes)


def network(arch: str, width: int | None, classes: int) -> torch.nn.Module:
    """A network by its name; no width means the real one."""
    settings = {} if width is None else {"width": width}
    return getattr(networks, arch)(num_classes=classes, **settings)


def checkpoint(model: torch.nn.Module, optimizer: torch.optim.Optimizer, epoch: int, best: float, args: Any) -> dict:
    """What a run needs to go on after `epoch`; the state of the random numbers makes it go on as if it had not stopped."""
    return {
        "epoch": epoch + 1,
        "arch": args.arch,
        "width": args.width,
        "state_dict": model.state_dict(),
        "best_acc1": best,
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
    }


def restore(checkpoint: dict, model: torch.nn.Module, optimizer: torch.optim.Optimizer, args: Any) -> float:
    """Put a checkpoint back, and return the best result so far."""
    args.start_epoch = checkpoint["epoch"]
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["random"].cpu())
    print(f"=> loaded checkpoint '{args.resume}' (epoch {checkpoint['epoch']})")
    return checkpoint["best_acc1"]


def save_checkpoint(state: dict, is_best: bool) -> None:
    """Write the checkpoint, and a second time when it is the best."""
    torch.save(state, CHECKPOINT)
    if is_best:
        shutil.copyfile(CHECKPOINT, BEST)


def adjust_learning_rate(optimizer: torch.optim.Optimizer, epoch: int, args: Any) -> None:
    """A tenth every 30 epochs."""
    for group in optimizer.param_groups:
        group["lr"] = args.lr * 0.1 ** (epoch // 30)


def accuracy(output: Tensor, target: Tensor, topk: tuple[int, ...] = (1, 5)) -> list[float]:
    """Per cent of the pictures whose class is among the first k."""
    with torch.no_grad():
        hits = output.topk(min(max(topk), output.size(1)), 1).indices == target.view(-1, 1)
        return [hits[:, :k].any(1).float().mean().item() * 100 for k in topk]


class Progress:
    """Averages over an epoch, printed every few steps: the loss of the step with all its digits, then the mean."""

    def __init__(self, name: str, steps: int, args: Any) -> None:
        self.name = name if not args.distributed else f"rank {args.rank} {name}"
        self.steps, self.every = steps, args.print_freq
        self.sums, self.count = [0.0, 0.0, 0.0], 0
        self.start = time.time()

    def step(self, number: int, loss: Tensor, output: Tensor, target: Tensor) -> None:
        """Take one batch into account."""
        size = len(target)
        values = [loss.item(), *accuracy(output.float(), target)]
        self.sums = [total + value * size for total, value in zip(self.sums, values, strict=True)]
        self.count += size
        if number % self.every == 0:
            mean, top1, top5 = self.means()
            line = (
                f"{self.name} [{number}/{self.steps}] Time {time.time() - self.start:6.3f} Loss {values[0]:.6f} ({mean:.6f}) "
                f"Acc@1 {top1:.2f} Acc@5 {top5:.2f}\n"
            )
            sys.stdout.write(line)  # in one piece: other processes write too
            sys.stdout.flush()

    def means(self) -> list[float]:
        """Loss, Acc@1, Acc@5 over all batches so far."""
        return [total / max(self.count, 1) for total in self.sums]
