"""Checks that several bodies share."""

from __future__ import annotations

from softnpu.base.errors import NpuError, codes


def milliseconds(timeout_ms: int) -> float | None:
    """A timeout in seconds, None for -1 (for ever); 0 and everything below -1 is refused."""
    if timeout_ms == -1:
        return None
    if timeout_ms <= 0:
        raise NpuError(
            codes.RT_PARAM_INVALID,
            f"timeout {timeout_ms} ms is not valid",
            "pass -1 to wait for ever, or a positive number",
        )
    return timeout_ms / 1000
