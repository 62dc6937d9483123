"""The two names that the npu_model page uses, written from their documentation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F


class Compose:
    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class CenterCrop:
    """The middle of the last two dimensions; what lies outside of the picture is zero."""

    def __init__(self, size: int | Sequence[int]) -> None:
        self.height, self.width = (size, size) if isinstance(size, int) else size

    def __call__(self, image: Any) -> Any:
        lack = [max(wanted - have, 0) for wanted, have in zip((self.height, self.width), image.shape[-2:], strict=True)]
        if any(lack):
            image = F.pad(image, (lack[1] // 2, (lack[1] + 1) // 2, lack[0] // 2, (lack[0] + 1) // 2))
        top = round((image.shape[-2] - self.height) / 2)
        left = round((image.shape[-1] - self.width) / 2)
        return image[..., top : top + self.height, left : left + self.width]
