"""Modules of `torch_npu.contrib`."""

from __future__ import annotations

from torch_npu.contrib.module.attention import MultiheadAttention
from torch_npu.contrib.module.channel_shuffle import ChannelShuffle
from torch_npu.contrib.module.color_jitter import FusedColorJitter
from torch_npu.contrib.module.dropout import (
    DropoutV2,
    DropoutWithByteMask,
    NpuCachedDropout,
    NpuDropPath,
    NpuFairseqDropout,
    NpuPreGenDropout,
)
from torch_npu.contrib.module.layers import (
    BiLSTM,
    FastBatchNorm1d,
    FastBatchNorm2d,
    FastBatchNorm3d,
    FastSyncBatchNorm,
    Focus,
    LabelSmoothingCrossEntropy,
    Mish,
    SiLU,
    Swish,
)
from torch_npu.contrib.module.prefetcher import Prefetcher
from torch_npu.contrib.module.quant import LinearA8W8Quant, LinearQuant, LinearWeightQuant, QuantConv2d
from torch_npu.contrib.module.regions import DCNv2, ModulatedDeformConv, PSROIPool, ROIAlign

__all__ = [
    "BiLSTM",
    "ChannelShuffle",
    "DCNv2",
    "DropoutV2",
    "DropoutWithByteMask",
    "FastBatchNorm1d",
    "FastBatchNorm2d",
    "FastBatchNorm3d",
    "FastSyncBatchNorm",
    "Focus",
    "FusedColorJitter",
    "LabelSmoothingCrossEntropy",
    "LinearA8W8Quant",
    "LinearQuant",
    "LinearWeightQuant",
    "Mish",
    "ModulatedDeformConv",
    "MultiheadAttention",
    "NpuCachedDropout",
    "NpuDropPath",
    "NpuFairseqDropout",
    "NpuPreGenDropout",
    "PSROIPool",
    "Prefetcher",
    "QuantConv2d",
    "ROIAlign",
    "SiLU",
    "Swish",
]
