"""Switches that programs for CUDA turn (attention kernels, linear algebra library): here they only warn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


def _no_effect(name: str) -> None:
    warnings.warn(f"torch.npu.{name} isn't implemented! It has no effect on npu.", stacklevel=3)


def preferred_linalg_library(backend: str | None = None) -> None:
    """There is one library for linear algebra."""
    _no_effect(f"preferred_linalg_library({backend!r})")


def flash_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("flash_sdp_enabled")
    return True


def mem_efficient_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("mem_efficient_sdp_enabled")
    return True


def math_sdp_enabled() -> bool:
    """Attention is chosen by torch."""
    _no_effect("math_sdp_enabled")
    return True


def enable_flash_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_flash_sdp({enabled})")


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_mem_efficient_sdp({enabled})")


def enable_math_sdp(enabled: bool) -> None:
    """Attention is chosen by torch."""
    _no_effect(f"enable_math_sdp({enabled})")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True
) -> Iterator[None]:
    """Attention is chosen by torch."""
    _no_effect(f"sdp_kernel(enable_flash={enable_flash}, enable_math={enable_math}, {enable_mem_efficient=})")
    yield
