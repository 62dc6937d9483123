"""Operators on torch's own quantised tensors: aten has them for every device."""

from __future__ import annotations

import torch
from torch import Tensor


def dequantize__self(self: Tensor) -> Tensor:
    return torch.dequantize(self)


def int_repr(self: Tensor) -> Tensor:
    return torch.int_repr(self)


def q_scale(self: Tensor) -> float:
    return self.q_scale()


def q_zero_point(self: Tensor) -> int:
    return self.q_zero_point()


def q_per_channel_axis(self: Tensor) -> int:
    return self.q_per_channel_axis()


def q_per_channel_scales(self: Tensor) -> Tensor:
    return self.q_per_channel_scales()


def q_per_channel_zero_points(self: Tensor) -> Tensor:
    return self.q_per_channel_zero_points()
