"""Sync debug mode: warn or raise where a program makes the host wait for the device.

Told are `.item()` and what uses it, blocking copies between npu and the host, and operators whose answer or its size depends on
values, in all threads of the process (`csrc/device/sync_debug.*`). In the default mode nothing is looked at.
"""

from __future__ import annotations

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu._lazy import _lazy_init

_MODES = ("default", "warn", "error")


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """ "default" (0), "warn" (1) or "error" (2)."""
    _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error` but got {debug_mode!r}"
                + pta_error(ErrCode.PARAM)
            )
        debug_mode = _MODES.index(debug_mode)
    if not isinstance(debug_mode, int) or not 0 <= debug_mode < len(_MODES):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of 0, 1, 2 but got {debug_mode!r}" + pta_error(ErrCode.PARAM)
        )
    _C._set_sync_debug_level(int(debug_mode))


def get_sync_debug_mode() -> int:
    """0, 1 or 2."""
    _lazy_init()
    return _C._get_sync_debug_level()
