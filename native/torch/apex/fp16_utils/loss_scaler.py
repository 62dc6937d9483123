"""Loss scales of FP16_Optimizer; `apex.amp` has its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class LossScaler:
    """A fixed scale: it neither looks for overflows nor changes."""

    def __init__(self, scale: float = 1.0) -> None:
        self.cur_scale = float(scale)

    @property
    def loss_scale(self) -> float:
        """The number now."""
        return self.cur_scale

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """Whether a gradient is inf or nan; a fixed scale does not ask."""
        return False

    def update_scale(self, overflow: bool) -> None:
        """After each step."""

    def backward(self, loss: Tensor, retain_graph: bool = False) -> None:
        """The backward pass of the scaled loss."""
        (loss.float() * self.loss_scale).backward(retain_graph=retain_graph)


class DynamicLossScaler(LossScaler):
    """Divided by the factor on an overflow, multiplied after a window of steps without one; never below 1."""

    def __init__(self, init_scale: float = 2.0**32, scale_factor: float = 2.0, scale_window: int = 1000) -> None:
        if scale_factor <= 1 or scale_window < 1:
            raise ValueError(
                f"DynamicLossScaler needs scale_factor > 1 and scale_window ≥ 1, not {scale_factor} and {scale_window}"
            )
        super().__init__(init_scale)
        self.scale_factor, self.scale_window = float(scale_factor), scale_window
        self.cur_iter, self.last_overflow_iter = 0, -1

    def has_overflow(self, params: Iterable[Tensor]) -> bool:
        """Whether a gradient is inf or nan."""
        grads = [param.grad for param in params if param.grad is not None]
        return bool(grads) and not all(torch.stack([torch.isfinite(grad).all() for grad in grads]).tolist())

    def update_scale(self, overflow: bool) -> None:
        """After each step."""
        if overflow:
            self.cur_scale = max(self.cur_scale / self.scale_factor, 1.0)
            self.last_overflow_iter = self.cur_iter
        elif (self.cur_iter - self.last_overflow_iter) % self.scale_window == 0:
            self.cur_scale *= self.scale_factor
        self.cur_iter += 1


def make_scaler(static: float, dynamic: bool, options: dict[str, Any] | None) -> LossScaler:
    """The scaler that the arguments of FP16_Optimizer ask for."""
    if dynamic:
        return DynamicLossScaler(**(options or {}))
    if options:
        raise ValueError(f"dynamic_loss_args {options} need dynamic_loss_scale=True")
    return LossScaler(static)
