"""`torch.npu.amp`: autocast and loss scaling of the npu device, and the overflow flag of chips without inf and nan."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch

from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu.utils import (
    clear_npu_overflow_flag,
    get_amp_supported_dtype,
    get_npu_overflow_flag,
    is_support_inf_nan,
)
from torch_npu.utils.ranks import sum_over_ranks_, world_size

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "get_amp_supported_dtype"]


class autocast(torch.autocast):
    """`torch.autocast("npu", …)` under its older name."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


custom_fwd: Any = functools.partial(torch.amp.custom_fwd, device_type="npu")
custom_bwd: Any = functools.partial(torch.amp.custom_bwd, device_type="npu")


def is_autocast_enabled() -> bool:
    """Whether autocast is on for npu in this thread."""
    return torch.is_autocast_enabled("npu")


def set_autocast_enabled(enabled: bool) -> None:
    """Switch autocast for npu in this thread."""
    torch.set_autocast_enabled("npu", enabled)


def get_autocast_dtype() -> torch.dtype:
    """What autocast casts to on npu."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Set what autocast casts to on npu."""
    torch.set_autocast_dtype("npu", dtype)


class GradScaler(torch.amp.GradScaler):
    """torch's loss scaling for npu. `dynamic=False` keeps the scale; all ranks of a job agree on whether a step is skipped; where
    float16 saturates, the chip's flag tells about overflows instead of the values; buffers of the fused optimizers are unscaled
    as a whole."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic
        self._watching = False

    def scale(self, outputs: Any) -> Any:
        """Multiply tensors on npu with the scale."""
        if not self._enabled:
            return outputs
        if not isinstance(outputs, torch.Tensor) and isinstance(outputs, Iterable):
            outputs = outputs if isinstance(outputs, (list, tuple)) else list(outputs)  # looked at twice
        _check_on_npu(outputs)
        if not is_support_inf_nan() and not self._watching:
            clear_npu_overflow_flag()  # overflows of the forward pass are none of gradients
            self._watching = True
        return super().scale(outputs)

    def _unscale_grads_(
        self, optimizer: torch.optim.Optimizer, inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool
    ) -> dict[torch.device, torch.Tensor]:
        fused: Any = optimizer
        if getattr(optimizer, "is_fused_optimizer", False):
            overflows = _unscale_flat(fused.get_combined_grads(), inv_scale, found_inf, allow_fp16)
        else:
            overflows = super()._unscale_grads_(optimizer, inv_scale, found_inf, allow_fp16)
        if world_size() > 1:
            overflows = overflows or {found_inf.device: found_inf}  # a rank without gradients takes part as well
        if overflows:
            first, *others = overflows.values()
            for other in others:
                first += other.to(first.device)
            if not is_support_inf_nan() and get_npu_overflow_flag():
                first.fill_(1.0)
            sum_over_ranks_(first)
        return overflows

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Grow or lower the scale after a step; a static one stays unless a new one is given."""
        self._watching = False
        if self._enabled and not self._dynamic and new_scale is None:
            new_scale = self.get_scale()
        super().update(new_scale)

    @staticmethod
    def get_npu_overflow_flag() -> bool:
        """See `torch.npu.get_npu_overflow_flag`."""
        return get_npu_overflow_flag()

    @staticmethod
    def clear_npu_overflow_flag() -> None:
        """See `torch.npu.clear_npu_overflow_flag`."""
        clear_npu_overflow_flag()

    def state_dict(self) -> dict[str, Any]:
        """The state, with whether the scale is dynamic."""
        return {**super().state_dict(), "dynamic": self._dynamic} if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state over; one of torch's own class says nothing about dynamic."""
        super().load_state_dict(state_dict)
        if self._enabled:
            self._dynamic = state_dict.get("dynamic", self._dynamic)


def _check_on_npu(outputs: Any) -> None:
    for output in [outputs] if isinstance(outputs, torch.Tensor) else outputs if isinstance(outputs, Iterable) else ():
        if not isinstance(output, torch.Tensor):
            _check_on_npu(output)
        elif output.device.type != "npu":
            raise ValueError("Device type of outputs should be npu." + pta_error(ErrCode.VALUE))


def _unscale_flat(
    grads: list[torch.Tensor], inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool
) -> dict[torch.device, torch.Tensor]:
    """torch's unscaling, over buffers."""
    overflows: dict[torch.device, torch.Tensor] = {}
    for grad in grads:
        if grad.dtype == torch.float16 and not allow_fp16:
            raise ValueError("Attempting to unscale FP16 gradients." + pta_error(ErrCode.TYPE))
        here = overflows.setdefault(
            grad.device, found_inf if grad.device == found_inf.device else found_inf.to(grad.device)
        )
        torch._amp_foreach_non_finite_check_and_unscale_([grad], here, inv_scale.to(grad.device))
    return overflows
