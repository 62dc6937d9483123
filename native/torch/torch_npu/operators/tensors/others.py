"""What belongs nowhere else: pictures of the first releases, and hints."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require


def npu_prefetch(self: Tensor, dependency: Tensor | None, max_size: int, offset: int = 0) -> None:
    """A hint: there is no cache of the device to warm, so only what is wrong with it can be said."""
    require(max_size > 0, f"npu_prefetch: max_size must be positive, {max_size} is not", ErrCode.VALUE)
    require(offset >= 0, f"npu_prefetch: offset must not be negative, {offset} is", ErrCode.VALUE)


def img_to_tensor(self: Tensor) -> Tensor:
    """Pictures of bytes [..., H, W, C] as numbers from 0 to 1 [..., C, H, W]."""
    require(self.dtype == torch.uint8, f"img_to_tensor: the picture must be uint8, not {self.dtype}", ErrCode.TYPE)
    return self.movedim(-1, -3).to(torch.float32).div(255).contiguous()


def image_normalize(self: Tensor, mean: list[float] | None, variance: list[float] | None, dtype: int = 0) -> Tensor:
    """dtype 0 gives float32, 1 float16; the channels are the third dimension from the end."""
    require(dtype in (0, 1), f"image_normalize: dtype must be 0 (float32) or 1 (float16), not {dtype}", ErrCode.VALUE)
    channels = self.shape[-3]

    def numbers(entries: list[float] | None, default: float, name: str) -> Tensor:
        values = [default] * channels if entries is None else list(entries)
        require(len(values) == channels, f"image_normalize: {name} has {len(values)} entries for {channels} channels")
        return torch.tensor(values, device=self.device).reshape(-1, 1, 1)

    centred = self.float() - numbers(mean, 0.0, "mean")
    return (centred / numbers(variance, 1.0, "variance")).to(torch.float16 if dtype else torch.float32)


def image_normalize_(self: Tensor, mean: list[float] | None, variance: list[float] | None, dtype: int = 0) -> Tensor:
    return self.copy_(image_normalize(self, mean, variance, dtype))


def crop_and_resize(
    self: Tensor,
    boxes: list[float] | None,
    box_index: list[int],
    crop_size: list[int],
    extrapolation_value: float = 0,
    method: str = "bilinear",
) -> Tensor:
    """TensorFlow's: boxes are (y1, x1, y2, x2) from 0 to 1 of the picture, corners included. The pictures are [N, C, H, W]."""
    require(method in ("bilinear", "nearest"), f"crop_and_resize: method must be bilinear or nearest, not {method!r}")
    require(
        boxes is not None and len(boxes) == 4 * len(box_index),
        f"crop_and_resize: boxes must have 4 numbers for each of the {len(box_index)} entries of box_index",
    )
    height, width = self.shape[2:]
    corners = torch.tensor(boxes, device=self.device).reshape(-1, 4)
    rows = _places(corners[:, 0], corners[:, 2], crop_size[0], height)
    columns = _places(corners[:, 1], corners[:, 3], crop_size[1], width)
    outside = ((rows < 0) | (rows > height - 1)).unsqueeze(2) | ((columns < 0) | (columns > width - 1)).unsqueeze(1)
    shape = (len(box_index), crop_size[0], crop_size[1])
    if method == "nearest":
        rows, columns = rows.add(0.5).floor(), columns.add(0.5).floor()
    grid = torch.stack(
        (
            ((2 * columns + 1) / width - 1).unsqueeze(1).expand(shape),
            ((2 * rows + 1) / height - 1).unsqueeze(2).expand(shape),
        ),
        -1,
    )
    pictures = self[torch.tensor(box_index, device=self.device)].float()
    crops = F.grid_sample(pictures, grid, method, "border", align_corners=False)
    return crops.masked_fill(outside.unsqueeze(1), extrapolation_value).to(self.dtype)


def _places(first: Tensor, last: Tensor, count: int, size: int) -> Tensor:
    """Where the samples of each box lie, in pixels; a single one in the middle."""
    if count == 1:
        return (0.5 * (first + last) * (size - 1)).unsqueeze(1)
    steps = torch.arange(count, device=first.device) / (count - 1)
    return (first.unsqueeze(1) + (last - first).unsqueeze(1) * steps) * (size - 1)
