"""Small layers: activations, batch norms, the first layer of YOLOv5, a loss, a bidirectional LSTM."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_npu._errors import ErrCode, pta_error


class Mish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.npu.npu_mish(x)


class SiLU(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.npu.npu_silu(x)


class Swish(SiLU):
    """The other name of SiLU."""


class FastBatchNorm1d(nn.BatchNorm1d):
    """`BatchNorm1d`; the chip has a faster form, the CPU's kernel is the fast one here."""


class FastBatchNorm2d(nn.BatchNorm2d):
    """As FastBatchNorm1d."""


class FastBatchNorm3d(nn.BatchNorm3d):
    """As FastBatchNorm1d."""


class FastSyncBatchNorm(nn.SyncBatchNorm):
    """As FastBatchNorm1d, with the statistics of all processes."""


class LabelSmoothingCrossEntropy(nn.Module):
    """Cross entropy where the wrong classes share `smooth_factor`: each gets smooth_factor / (num_classes - 1)."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        if num_classes < 2 or not 0 <= smooth_factor <= 1:
            raise ValueError(
                f"LabelSmoothingCrossEntropy: num_classes {num_classes} must be at least 2 and smooth_factor {smooth_factor} in 0..1"
                + pta_error(ErrCode.VALUE)
            )
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)
        self.num_classes = num_classes

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        if pred.shape[-1] != self.num_classes:
            raise ValueError(
                f"LabelSmoothingCrossEntropy: {pred.shape[-1]} columns for {self.num_classes} classes"
                + pta_error(ErrCode.VALUE)
            )
        logs = F.log_softmax(pred, -1)
        picked = logs.gather(-1, target.long().unsqueeze(-1)).squeeze(-1)
        return -((self.on_value - self.off_value) * picked + self.off_value * logs.sum(-1)).mean()


class BiLSTM(nn.Module):
    """A bidirectional LSTM layer over [T, B, input_size]; `fw` reads ahead, `bw` backwards. The result is [T, B, 2 * hidden_size]."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw = nn.LSTM(input_size, hidden_size)
        self.bw = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: Tensor) -> Tensor:
        ahead, _ = self.fw(inputs)
        back, _ = self.bw(inputs.flip(0))
        return torch.cat((ahead, back.flip(0)), 2)


class _Conv(nn.Module):
    """Convolution, batch norm, activation: the block of YOLOv5."""

    def __init__(self, c1: int, c2: int, k: int, s: int, p: int | None, g: int, act: bool | nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2 if p is None else p, groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        chosen = act if isinstance(act, nn.Module) else None
        self.act = chosen or (nn.SiLU() if act else nn.Identity())

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.bn(self.conv(x)))


class Focus(nn.Module):
    """Every second pixel in four ways becomes four times the channels, then a convolution: half the size, nothing lost."""

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, p: int | None = None, g: int = 1, act: bool | nn.Module = True
    ) -> None:
        super().__init__()
        self.conv = _Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: Tensor) -> Tensor:
        parts = (x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2])
        return self.conv(torch.cat(parts, 1))
