"""Pictures in folders, one per class, as ImageNet lies on a disk: a maker of small ones, and what torchvision reads them with.

python image_folder.py FOLDER        # FOLDER/train/class_0/0.png … FOLDER/val/class_7/1.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
DEVIATION = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def make(folder: Path, classes: int = 8, train: int = 8, val: int = 4, side: int = 40) -> Path:
    """Write pictures of stripes; the class is their direction and colour, noise makes each another."""
    random = np.random.default_rng(0)
    y, x = np.mgrid[0:side, 0:side] / side
    for part, count in (("train", train), ("val", val)):
        for number in range(classes):
            class_folder = folder / part / f"class_{number}"
            class_folder.mkdir(parents=True, exist_ok=True)
            angle, colour = number * np.pi / classes, np.array([number & 4, number & 2, number & 1]) > 0
            for index in range(count):
                waves = np.sin(12 * (x * np.cos(angle) + y * np.sin(angle)) + random.uniform(0, 6))
                picture = 90 + 60 * waves[..., None] + 50 * colour + random.normal(0, 20, (side, side, 3))
                Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(class_folder / f"{index}.png")
    return folder


class ImageFolder(Dataset[tuple[Tensor, int]]):
    """The pictures below a folder as normalised tensors of `size`; training cuts them out at random and may turn them."""

    def __init__(self, folder: Path, size: int, training: bool) -> None:
        self.size, self.training = size, training
        self.classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []
        if not self.classes:
            raise SystemExit(
                f"{folder} has no folders with pictures; make some: python image_folder.py {folder.parent}"
            )
        self.samples = [
            (path, label) for label, name in enumerate(self.classes) for path in sorted((folder / name).iterdir())
        ]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        path, label = self.samples[index]
        with Image.open(path) as picture:
            return self._tensor(self._cut(picture.convert("RGB"))), label

    def _cut(self, picture: Image.Image) -> Image.Image:
        """A square: anywhere and of any size from two thirds on in training, from the middle otherwise."""
        short = min(picture.size)
        share, left, top = (
            (2 / 3 + torch.rand(1).item() / 3, *torch.rand(2).tolist()) if self.training else (7 / 8, 0.5, 0.5)
        )
        side = max(1, round(short * share))
        x, y = round(left * (picture.width - side)), round(top * (picture.height - side))
        picture = picture.resize((self.size, self.size), box=(x, y, x + side, y + side))
        mirrored = self.training and torch.rand(1).item() < 0.5
        return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else picture

    @staticmethod
    def _tensor(picture: Image.Image) -> Tensor:
        values = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1).float().div(255)
        return (values - MEAN) / DEVIATION


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--train", type=int, default=8, help="pictures of each class to train with")
    parser.add_argument("--val", type=int, default=4, help="pictures of each class to validate with")
    parser.add_argument("--side", type=int, default=40, help="pixels")
    args = parser.parse_args()
    make(args.folder, args.classes, args.train, args.val, args.side)
