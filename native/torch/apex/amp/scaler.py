"""A loss scale: gradients of halves lose small values, so the loss is multiplied before the backward pass and divided after it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_npu.npu.utils import clear_npu_overflow_flag, get_npu_overflow_flag, is_support_inf_nan
from torch_npu.utils.ranks import any_rank


@torch.no_grad()
def multiply_(tensors: Sequence[Tensor], factor: float) -> None:
    """Multiply in place. Halves go through float32: a scale of 2**16 itself is beyond them."""
    wide = [tensor for tensor in tensors if tensor.dtype != torch.float16]
    if wide:
        torch._foreach_mul_(wide, factor)
    for tensor in tensors:
        if tensor.dtype == torch.float16:
            tensor.copy_(tensor.float().mul_(factor))


class LossScaler:
    """One scale, fixed or dynamic: halved on an overflow, doubled after a window of steps without one."""

    def __init__(
        self,
        loss_scale: float | str,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        scale_window: int = 2000,
        min_loss_scale: float | None = None,
        max_loss_scale: float = 2.0**24,
    ) -> None:
        if growth_factor <= 1 or not 0 < backoff_factor < 1 or scale_window < 1:
            raise ValueError(
                "a dynamic loss scale needs scale_growth_factor > 1, 0 < scale_backoff_factor < 1 and scale_window ≥ 1, not "
                f"{growth_factor}, {backoff_factor} and {scale_window}"
            )
        self.dynamic = loss_scale == "dynamic"
        self.unskipped = 0
        self._growth, self._backoff, self._window = growth_factor, backoff_factor, scale_window
        self._min, self._max = min_loss_scale or 0.0, max_loss_scale
        if self._min > self._max:
            raise ValueError(f"min_loss_scale {self._min} is above max_loss_scale {self._max}")
        self._scale = min(float(init_scale), self._max) if loss_scale == "dynamic" else float(loss_scale)
        self._found: list[Tensor] = []
        self._watching = False

    def loss_scale(self) -> float:
        """The number now."""
        return self._scale

    def load(self, scale: float, unskipped: int) -> None:
        """Take over what a checkpoint says."""
        self._scale, self.unskipped = scale, unskipped

    def start(self) -> None:
        """Before a backward pass: overflows of the forward pass are none of gradients."""
        if self.dynamic and not is_support_inf_nan() and not self._watching:
            clear_npu_overflow_flag()
            self._watching = True

    @torch.no_grad()
    def unscale_(self, grads: Sequence[Tensor], scale: float) -> None:
        """Divide gradients by the scale they carry, and with a dynamic scale look whether they are finite."""
        kinds: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for grad in grads:
            kinds.setdefault((grad.device, grad.dtype), []).append(grad)
        for (device, _), some in kinds.items():
            if not self.dynamic:
                multiply_(some, 1.0 / scale)
                continue
            found_inf = torch.zeros((), device=device)
            inverse = torch.full((), 1.0 / scale, device=device)
            torch._amp_foreach_non_finite_check_and_unscale_(some, found_inf, inverse)
            self._found.append(found_inf)

    def update_scale(self) -> bool:
        """Set the scale after a backward pass; whether the step must be skipped. All ranks come to the same answer."""
        if not self.dynamic:
            return False
        overflow = any(bool(found_inf) for found_inf in self._found)
        self._found, self._watching = [], False
        overflow = any_rank(overflow or (not is_support_inf_nan() and get_npu_overflow_flag()))
        if overflow:
            self._scale = max(self._scale * self._backoff, self._min)
            self.unskipped = 0
            return True
        self.unskipped += 1
        if self.unskipped == self._window:
            self._scale = min(self._scale * self._growth, self._max)
            self.unskipped = 0
        return False
