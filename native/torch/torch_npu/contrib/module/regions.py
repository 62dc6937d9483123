"""Layers over regions of feature maps and deformable convolution."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair

from torch_npu._errors import ErrCode, pta_error

_ALIGNED, _PLAIN = 3, 0  # roi_end_mode


class ROIAlign(nn.Module):
    """RoIAlign of rois [K, 5] = (image, x0, y0, x1, y1); `aligned` shifts by half a pixel, as torchvision's."""

    def __init__(
        self, output_size: int | tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool = True
    ) -> None:
        super().__init__()
        self.output_size = _pair(output_size)
        self.spatial_scale = spatial_scale
        self.sampling_ratio = sampling_ratio
        self.aligned = aligned

    def forward(self, input_tensor: Tensor, rois: Tensor) -> Tensor:
        height, width = self.output_size
        mode = _ALIGNED if self.aligned else _PLAIN
        return torch.ops.npu.npu_roi_align(
            input_tensor, rois.detach(), self.spatial_scale, height, width, self.sampling_ratio, mode
        )

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio}, "
            f"aligned={self.aligned}"
        )


class PSROIPool(nn.Module):
    """Position sensitive pooling of rois [B, 5, K]; the pooled size is that of the groups."""

    def __init__(
        self,
        pooled_height: int = 7,
        pooled_width: int = 7,
        spatial_scale: float = 1 / 16,
        group_size: int = 7,
        output_dim: int = 22,
    ) -> None:
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            raise ValueError(
                f"PSROIPool: pooled_height {pooled_height} and pooled_width {pooled_width} must be group_size, {group_size}"
                + pta_error(ErrCode.VALUE)
            )
        self.spatial_scale = spatial_scale
        self.group_size = group_size
        self.output_dim = output_dim

    def forward(self, features: Tensor, rois: Tensor) -> Tensor:
        return torch.ops.npu.npu_ps_roi_pooling(
            features, rois.detach(), self.spatial_scale, self.group_size, self.output_dim
        )


class ModulatedDeformConv(nn.Module):
    """Deformable convolution with factors (DCNv2). With `pack` it computes offsets and factors itself, else `forward` takes them.

    Offsets are pairs (down, across) for each place of the kernel, as in torchvision and mmcv, so their weights fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _pair(kernel_size)
        self.stride, self.padding, self.dilation = _pair(stride), _pair(padding), _pair(dilation)
        self.groups, self.deformable_groups, self.pack = groups, deformable_groups, pack
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        limit = 1 / math.sqrt(in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -limit, limit)
        if pack:
            channels = 3 * deformable_groups * self.kernel_size[0] * self.kernel_size[1]
            self.conv_offset = nn.Conv2d(
                in_channels, channels, self.kernel_size, self.stride, self.padding, self.dilation
            )
            nn.init.zeros_(self.conv_offset.weight)
            assert self.conv_offset.bias is not None, "it was not switched off"
            nn.init.zeros_(self.conv_offset.bias)

    def forward(self, x: Tensor, offset: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        if self.pack:
            first, second, factors = self.conv_offset(x).chunk(3, 1)
            offset, mask = torch.cat((first, second), 1), factors.sigmoid()
        if offset is None or mask is None:
            raise ValueError(
                "ModulatedDeformConv: with pack=False forward needs offset and mask" + pta_error(ErrCode.PARAM)
            )
        moves = torch.cat((offset[:, 1::2], offset[:, ::2], mask), 1)
        (up, left), (high, wide), (tall, broad) = self.padding, self.stride, self.dilation
        return torch.ops.npu.npu_deformable_conv2d(
            x,
            self.weight,
            moves,
            self.bias,
            self.kernel_size,
            [1, 1, high, wide],
            [up, up, left, left],
            [1, 1, tall, broad],
            self.groups,
            self.deformable_groups,
            True,
        )[0]


DCNv2: Any = ModulatedDeformConv
