"""Sync debug mode: warn or raise where a program makes the host wait for the device.

Looked at in the thread that set the mode: `.item()` and what uses it, copies from npu to the host, and operators whose result size
depends on values. Work of backward threads is not seen. In the default mode nothing is looked at and nothing costs.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from torch_npu._errors import ErrCode, pta_error
from torch_npu.npu._lazy import _lazy_init

_MODES = ("default", "warn", "error")
_SIZE_FROM_VALUES = (
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
    "aten::unique_consecutive",
)
_INDEXING = ("aten::index", "aten::index_put", "aten::index_put_")
_MASKS = (torch.bool, torch.uint8)
_local = threading.local()


class _Watch(TorchDispatchMode):
    """Sees each operator before it runs."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self.level = level

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _waits(func._schema.name, args, kwargs):
            self._tell(func._schema.name)
        return func(*args, **kwargs)

    def _tell(self, name: str) -> None:
        text = f"called a synchronizing NPU operation: {name}"
        if self.level == _MODES.index("error"):
            raise RuntimeError(text + pta_error(ErrCode.INTERNAL))
        warnings.warn(text, stacklevel=_program_level())


def _program_level() -> int:
    """How many frames up the program is that called torch."""
    inside = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        level, frame = level + 1, frame.f_back
    return level


def _on_npu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


def _waits(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the host needs a result of the device to go on."""
    if name == "aten::_local_scalar_dense" or name in _SIZE_FROM_VALUES:
        return _on_npu(args[0])
    if name in _INDEXING:  # a mask becomes a list of places, whose length is a value
        return any(_on_npu(index) and index.dtype in _MASKS for index in args[1])
    if name == "aten::_to_copy":
        target = kwargs.get("device")
        to_host = target is not None and torch.device(target).type == "cpu"
        return to_host and _on_npu(args[0]) and not kwargs.get("non_blocking", False)
    if name == "aten::copy_":
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        return not non_blocking and not _on_npu(args[0]) and _on_npu(args[1])
    return False


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """ "default" (0), "warn" (1) or "error" (2)."""
    _lazy_init()
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error` but got {debug_mode!r}"
                + pta_error(ErrCode.PARAM)
            )
        level = _MODES.index(debug_mode)
    elif isinstance(debug_mode, int) and 0 <= debug_mode < len(_MODES):
        level = int(debug_mode)
    else:
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of 0, 1, 2 but got {debug_mode!r}" + pta_error(ErrCode.PARAM)
        )
    _remove()
    if level:
        _local.watch = _Watch(level)
        _push_mode(_local.watch)


def _remove() -> None:
    """Take the watch from the stack of modes, leaving those that were entered after it."""
    watch = getattr(_local, "watch", None)
    if watch is None:
        return
    _local.watch = None
    above = []
    while watch in _get_current_dispatch_mode_stack():
        mode = _pop_mode()
        if mode is not watch:
            above.append(mode)
    for mode in reversed(above):
        _push_mode(mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2."""
    _lazy_init()
    watch = getattr(_local, "watch", None)
    return 0 if watch is None else watch.level
