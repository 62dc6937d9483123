"""Linear layers and a convolution with integer weights: parameters in the shapes of the quantised operators, filled by a checkpoint."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.utils import _pair


def _integers(*shape: int, dtype: torch.dtype, device: Any) -> nn.Parameter:
    return nn.Parameter(torch.zeros(*shape, dtype=dtype, device=device), requires_grad=False)


def _numbers(*shape: int, device: Any, dtype: torch.dtype = torch.float32, there: bool = True) -> nn.Parameter | None:
    return nn.Parameter(torch.zeros(*shape, dtype=dtype, device=device), requires_grad=False) if there else None


class LinearQuant(nn.Module):
    """int8 input and weight; what comes out is scaled per output channel, and per row where `pertoken_scale` is set."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        offset: bool = False,
        pertoken_scale: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        output_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        self.weight = _integers(out_features, in_features, dtype=dtype or torch.int8, device=device)
        self.scale = _numbers(out_features, device=device)
        self.offset = _numbers(out_features, device=device, there=offset)
        self.pertoken_scale = _numbers(1, device=device, there=pertoken_scale)
        self.bias = _integers(out_features, dtype=torch.int32, device=device) if bias else None

    def forward(self, linear_quant_input: Tensor) -> Tensor:
        return torch.ops.npu.npu_quant_matmul(
            linear_quant_input,
            self.weight.transpose(0, 1),
            self.scale,
            offset=self.offset,
            pertoken_scale=self.pertoken_scale,
            bias=self.bias,
            output_dtype=self.output_dtype,
        )


class LinearA8W8Quant(LinearQuant):
    """The name it had before."""


class LinearWeightQuant(nn.Module):
    """A float input meets integer weights that are made float on the way: x @ ((weight + offset) * scale) + bias."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        antiquant_offset: bool = False,
        quant_scale: bool = False,
        quant_offset: bool = False,
        antiquant_group_size: int = 0,
        inner_precise: int = 0,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.antiquant_group_size, self.inner_precise = antiquant_group_size, inner_precise
        kind = torch.float16 if dtype is None or not dtype.is_floating_point else dtype
        weight = torch.int8 if dtype is None or dtype.is_floating_point else dtype
        groups = -(-in_features // antiquant_group_size) if antiquant_group_size else 1
        shape = (groups, out_features) if antiquant_group_size else (out_features,)
        self.weight = _integers(out_features, in_features, dtype=weight, device=device)
        self.antiquant_scale = _numbers(*shape, device=device, dtype=kind)
        self.antiquant_offset = _numbers(*shape, device=device, dtype=kind, there=antiquant_offset)
        self.quant_scale = _numbers(out_features, device=device, there=quant_scale)
        self.quant_offset = _numbers(out_features, device=device, there=quant_offset)
        self.bias = _numbers(out_features, device=device, dtype=kind, there=bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.npu.npu_weight_quant_batchmatmul(
            x,
            self.weight.transpose(0, 1),
            self.antiquant_scale,
            self.antiquant_offset,
            self.quant_scale,
            self.quant_offset,
            self.bias,
            self.antiquant_group_size,
            self.inner_precise,
        )


class QuantConv2d(nn.Module):
    """A convolution of int8 by int8, scaled per output channel."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        output_dtype: torch.dtype,
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        offset: bool = False,
        round_mode: str = "rint",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation = _pair(stride), _pair(padding), _pair(dilation)
        self.groups, self.output_dtype, self.round_mode = groups, output_dtype, round_mode
        shape = (out_channels, in_channels // groups, *_pair(kernel_size))
        self.weight = _integers(*shape, dtype=dtype or torch.int8, device=device)
        self.scale = _numbers(out_channels, device=device)
        self.offset = _numbers(out_channels, device=device, there=offset)
        self.bias = _integers(out_channels, dtype=torch.int32, device=device) if bias else None

    def forward(self, quant_conv2d_input: Tensor) -> Tensor:
        return torch.ops.npu.npu_quant_conv2d(
            quant_conv2d_input,
            self.weight,
            self.scale,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            0,
            self.round_mode,
            self.output_dtype,
            self.bias,
            self.offset,
        )
