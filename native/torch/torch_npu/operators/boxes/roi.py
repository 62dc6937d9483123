"""Regions of feature maps: RoIAlign as one weighted gather, position sensitive pooling from sums over rectangles."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, gradient, require, unsupported, wide

_WIDER, _ALIGNED = 1, (2, 3)  # of roi_end_mode


def _samples(low: Tensor, high: Tensor, bins: int, sample_num: int, size: int) -> tuple[Tensor, Tensor]:
    """Along one side of every roi: where the samples of each bin lie [K, bins, s], and their weights."""
    step = (high - low) / bins
    if sample_num > 0:
        counts, most = torch.full_like(step, sample_num), sample_num
    else:
        counts = step.ceil().clamp(min=0)
        most = max(1, int(counts.max())) if counts.numel() else 1
    places = torch.arange(most, device=low.device, dtype=low.dtype)
    bin_starts = low.unsqueeze(1) + torch.arange(bins, device=low.device, dtype=low.dtype) * step.unsqueeze(1)
    inside = (places + 0.5) * (step / counts.clamp(min=1)).unsqueeze(1)
    where = bin_starts.unsqueeze(2) + inside.unsqueeze(1)
    used = (places < counts.unsqueeze(1)).unsqueeze(1) & (where >= -1) & (where <= size)
    return where, used.to(low.dtype) / counts.clamp(min=1).reshape(-1, 1, 1)


def _neighbours(where: Tensor, weights: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The two grid points around each sample and their shares: [K, bins, 2s]."""
    where = where.clamp(0, size - 1)
    low = where.floor()
    part = where - low
    high = (low + 1).clamp(max=size - 1)
    return torch.cat((low, high), 2).long(), torch.cat((weights * (1 - part), weights * part), 2)


def _sides(rois: Tensor, scale: float, mode: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x0, y0, x1, y1 on the map. Without alignment a roi is at least one pixel wide."""
    offset = 0.5 if mode in _ALIGNED else 0.0
    x0, y0, x1, y1 = rois[:, 1:].unbind(1)
    x0, y0 = x0 * scale - offset, y0 * scale - offset
    more = 1 if mode == _WIDER else 0
    x1, y1 = (x1 + more) * scale - offset, (y1 + more) * scale - offset
    if mode in _ALIGNED:
        return x0, y0, x1, y1
    return x0, y0, torch.maximum(x1, x0 + 1), torch.maximum(y1, y0 + 1)


def _check_rois(name: str, features: Sequence[int], rois: Tensor, mode: int) -> None:
    require(len(features) == 4, f"{name}: the feature map must be [N, C, H, W], not {list(features)}")
    require(rois.dim() == 2 and rois.shape[1] == 5, f"{name}: rois must be [K, 5], not {list(rois.shape)}")
    require(mode in (0, 1, 2, 3), f"{name}: roi_end_mode must be 0, 1, 2 or 3, not {mode}", ErrCode.VALUE)


def _check_bins(name: str, height: int, width: int) -> None:
    require(
        height > 0 and width > 0,
        f"{name}: pooled_height and pooled_width must be positive, not {height} and {width}",
        ErrCode.VALUE,
    )


def _check_images(name: str, numbers: Tensor, images: int) -> None:
    """Which roi is of an image that is not there. Asked when the gather has failed: before, it would cost a look at the values."""
    for roi, number in enumerate(numbers.tolist()):
        require(
            0 <= number < images,
            f"{name}: roi {roi} is of image {number}, and there are {images}; the first column of rois counts them from 0",
            ErrCode.VALUE,
        )


def npu_roi_align(
    self: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sample_num: int,
    roi_end_mode: int,
) -> Tensor:
    """Bilinear samples are separable: the weights of a bin are those of its rows times those of its columns."""
    _check_rois("npu_roi_align", self.shape, rois, roi_end_mode)
    _check_bins("npu_roi_align", pooled_height, pooled_width)
    images, channels, height, width = self.shape
    with torch.no_grad():
        regions = wide(rois)
        x0, y0, x1, y1 = _sides(regions, spatial_scale, roi_end_mode)
        ys, y_weights = _samples(y0, y1, pooled_height, sample_num, height)
        xs, x_weights = _samples(x0, x1, pooled_width, sample_num, width)
        rows, row_shares = _neighbours(ys, y_weights, height)
        columns, column_shares = _neighbours(xs, x_weights, width)
        image = regions[:, 0].long().clamp(-1, images)  # one that is not there stays outside of the table
        first = (image * height * width).reshape(-1, 1, 1, 1, 1)
        indices = first + rows[:, :, None, :, None] * width + columns[:, None, :, None, :]
        shares = row_shares[:, :, None, :, None] * column_shares[:, None, :, None, :]
    table = wide(self).permute(0, 2, 3, 1).reshape(images * height * width, channels)
    try:
        pooled = F.embedding_bag(
            indices.flatten(0, 2).flatten(1),
            table,
            mode="sum",
            per_sample_weights=shares.flatten(0, 2).flatten(1).to(table.dtype),
        )
    except (RuntimeError, IndexError):
        _check_images("npu_roi_align", regions[:, 0], images)
        raise
    return pooled.reshape(-1, pooled_height, pooled_width, channels).permute(0, 3, 1, 2).contiguous().to(self.dtype)


def npu_roi_alignbk(
    self: Tensor,
    rois: Tensor,
    xdiff_shape: Sequence[int],
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    sample_num: int,
    roi_end_mode: int | None = None,
) -> Tensor:
    """`self` is the derivative of the output; without a roi_end_mode it is 1, the kernel's own default."""
    mode = 1 if roi_end_mode is None else roi_end_mode
    _check_rois("npu_roi_alignbk", xdiff_shape, rois, mode)
    _check_bins("npu_roi_alignbk", pooled_height, pooled_width)
    features = self.new_zeros(tuple(xdiff_shape))
    return gradient(
        lambda x: npu_roi_align(x, rois, spatial_scale, pooled_height, pooled_width, sample_num, mode), self, features
    )


def _bin_edges(low: Tensor, high: Tensor, bins: int, size: int) -> tuple[Tensor, Tensor]:
    """First and past-the-last grid point of each bin [R, bins]."""
    step = (high - low).clamp(min=0.1) / bins
    places = torch.arange(bins, device=low.device, dtype=low.dtype)
    start = (low.unsqueeze(1) + places * step.unsqueeze(1)).floor()
    stop = (low.unsqueeze(1) + (places + 1) * step.unsqueeze(1)).ceil()
    return start.clamp(0, size).long(), stop.clamp(0, size).long()


def _check_ps(shape: Sequence[int], rois: Tensor, group_size: int, output_dim: int) -> None:
    name = "npu_ps_roi_pooling"
    require(len(shape) == 4, f"{name}: the feature map must be [N, C, H, W], not {list(shape)}")
    require(rois.dim() == 3 and rois.shape[1] == 5, f"{name}: rois must be [B, 5, K], not {list(rois.shape)}")
    if group_size < 1 or output_dim < 1:
        raise unsupported(f"{name}: group_size {group_size} and output_dim {output_dim} must be positive")
    wanted = group_size * group_size * output_dim
    require(shape[1] == wanted, f"{name}: {shape[1]} channels; group_size² * output_dim = {wanted} are needed")


def npu_ps_roi_pooling(self: Tensor, rois: Tensor, spatial_scale: float, group_size: int, output_dim: int) -> Tensor:
    """A bin averages its own channel over its rectangle; one outside the map, or of an image that does not exist, is zero."""
    _check_ps(self.shape, rois, group_size, output_dim)
    images, channels, height, width = self.shape
    with torch.no_grad():
        flat = wide(rois).transpose(1, 2).reshape(-1, 5)
        image = flat[:, 0].long()
        known = (image >= 0) & (image < images)
        starts, ends = flat[:, 1:3].round() * spatial_scale, (flat[:, 3:].round() + 1) * spatial_scale
        left, right = _bin_edges(starts[:, 0], ends[:, 0], group_size, width)
        top, bottom = _bin_edges(starts[:, 1], ends[:, 1], group_size, height)
        right, bottom = torch.maximum(right, left), torch.maximum(bottom, top)
        counts = ((bottom - top)[:, :, None] * (right - left)[:, None, :]).unsqueeze(1)
        channel = torch.arange(channels, device=self.device).reshape(1, output_dim, group_size, group_size)
        plane = image.clamp(0, images - 1).reshape(-1, 1, 1, 1) * channels + channel
    sums = F.pad(self.double().cumsum(2).cumsum(3), (1, 0, 1, 0)).reshape(images * channels, height + 1, width + 1)

    def at(rows: Tensor, columns: Tensor) -> Tensor:
        return sums[plane, rows[:, None, :, None], columns[:, None, None, :]]

    total = at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left)
    mean = total / counts.clamp(min=1)
    return torch.where(known.reshape(-1, 1, 1, 1), mean, torch.zeros_like(mean)).to(self.dtype)


def npu_ps_roi_pooling_backward(
    output_grad: Tensor,
    rois: Tensor,
    spatial_scale: float,
    group_size: int,
    output_dim: int,
    input_size: Sequence[int],
) -> Tensor:
    """`input_size` is the height and width of the feature map; there are as many images as groups of rois."""
    channels = group_size * group_size * output_dim
    require(
        len(input_size) in (2, 4),
        f"npu_ps_roi_pooling_backward: input_size must be (H, W) or (N, C, H, W), not {list(input_size)}",
    )
    shape = tuple(input_size) if len(input_size) == 4 else (rois.shape[0], channels, *input_size)
    return gradient(
        lambda x: npu_ps_roi_pooling(x, rois, spatial_scale, group_size, output_dim),
        output_grad,
        output_grad.new_zeros(shape),
    )
