"""Helpers of torch.npu: device arguments, what the chip is and can, versions."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from torch_npu import _C
from torch_npu._errors import ErrCode, pta_error
from torch_npu._runtime import chip
from torch_npu._runtime.devices import Soc, process
from torch_npu.npu._lazy import _lazy_init

# The numbers by which the product's own code compares chips: later families are larger.
_FAMILIES = (
    (100, "Ascend910PremiumA Ascend910ProA Ascend910A Ascend910ProB Ascend910B"),
    (200, "Ascend310P1 Ascend310P2 Ascend310P3 Ascend310P4 Ascend310P5 Ascend310P7"),
    (220, "Ascend910B1 Ascend910B2 Ascend910B2C Ascend910B3 Ascend910B4 Ascend910B4-1"),
    (240, "Ascend310B1 Ascend310B2 Ascend310B3 Ascend310B4"),
    (250, "Ascend910_9391 Ascend910_9392 Ascend910_9381 Ascend910_9382 Ascend910_9372 Ascend910_9362 Ascend910_9363"),
    (260, "Ascend950"),
)
_SOC_VERSIONS = {name: first + index for first, names in _FAMILIES for index, name in enumerate(names.split())}
_UNSUPPORTED_SOC = -1
_CANN_MODULES = ("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER")
_CANN_VERSION = "8.2.RC1"  # the release whose interface softnpu follows
_DRIVER_VERSION = "25.2.0"


def _get_device_index(device: Any, optional: bool = False) -> int:
    """The index that a device argument means: an int, "npu:1", torch.device, or None and "npu" for the current one."""
    if isinstance(device, bool):
        raise ValueError(f"Expected a torch.device or an int, but got: {device}" + pta_error(ErrCode.TYPE))
    if isinstance(device, int):
        return device
    if device is None:
        if not optional:
            raise ValueError("Expected a npu device with a specified index, but got: None" + pta_error(ErrCode.VALUE))
        return current_index()
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        raise ValueError(f"Expected a torch.device or an int, but got: {device!r}" + pta_error(ErrCode.TYPE))
    if device.type != "npu":
        raise ValueError(f"Expected a npu device, but got: {device}" + pta_error(ErrCode.VALUE))
    index: int | None = device.index  # torch says that there always is one
    if index is not None:
        return index
    if not optional:
        raise ValueError(f"Expected a npu device with a specified index, but got: {device}" + pta_error(ErrCode.VALUE))
    return current_index()


def current_index() -> int:
    """The current device of this thread; asking initialises."""
    _lazy_init()
    return _C._get_device()


def known_index(device: Any) -> int:
    """The index of a device that is there; the product asserts it."""
    _lazy_init()
    index = _get_device_index(device, optional=True)
    count = _C._get_device_count()
    if not 0 <= index < count:
        raise AssertionError(f"Invalid device id: {index}, there are {count} npu devices" + pta_error(ErrCode.VALUE))
    return index


def soc(device: Any = 0) -> Soc:
    """The chip row of a device."""
    return process().devices[known_index(device)].info.soc


def get_soc_version() -> int:
    """The number of the chip in the product's order, -1 for one that it does not run on (Ascend310)."""
    return _SOC_VERSIONS.get(soc().name, _UNSUPPORTED_SOC)


def is_support_inf_nan() -> bool:
    """Whether fp16 overflows give inf, as IEEE says, instead of the largest number. In lenient mode they do on every chip, unless
    INF_NAN_MODE_ENABLE=0 asks otherwise: programs choose by this answer where to look for overflows."""
    return not chip.saturates()


def get_npu_overflow_flag() -> bool:
    """Whether a float16 result overflowed since the flag was cleared; only where float16 saturates, elsewhere values tell."""
    _check_flag("get_npu_overflow_flag")
    return _C._has_overflowed()


def clear_npu_overflow_flag() -> None:
    """Begin to look for overflows anew."""
    _check_flag("clear_npu_overflow_flag")
    _C._clear_overflow()


def _check_flag(name: str) -> None:
    _lazy_init()
    if is_support_inf_nan():
        raise RuntimeError(
            f"Unsupported api when soc_version >= Ascend910B1 or in inf/nan mode: torch.npu.{name}; "
            "please use torch.npu.utils.npu_check_overflow" + pta_error(ErrCode.NOT_SUPPORT)
        )


def npu_check_overflow(grad: torch.Tensor | float | None) -> bool:
    """Whether something overflowed: by the values of `grad`, or by the flag (which is cleared then) where float16 saturates."""
    if not is_support_inf_nan():
        overflowed = _C._has_overflowed()
        _C._clear_overflow()
        return overflowed
    if grad is None:
        return False
    if isinstance(grad, torch.Tensor):
        return not bool(torch.isfinite(grad).all())
    return not math.isfinite(grad)


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the chip computes in bfloat16; with emulation any device here does, since the host's kernels do it."""
    return soc().bf16 or including_emulation


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What autocast may cast to on this chip."""
    return [torch.float16, *([torch.bfloat16] if is_bf16_supported() else []), torch.float32]


def get_cann_version(module: str = "CANN") -> str:
    """The version of a part of CANN whose interface is offered here."""
    if module not in _CANN_MODULES:
        raise ValueError(f"module should be in {list(_CANN_MODULES)} but got {module!r}" + pta_error(ErrCode.VALUE))
    return _DRIVER_VERSION if module == "DRIVER" else _CANN_VERSION


def _version_key(version: str) -> tuple[float, ...]:
    """Order of versions such as 8.1.RC1.alpha002 < 8.1.RC1 < 8.1.RC2 < 8.1.0."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.(?:RC(\d+)|T(\d+)|(\d+))(?:\.(?:alpha|beta)?(\d+))?", version, re.IGNORECASE)
    if match is None:
        raise ValueError(
            f"version {version!r} is not of the form 8.1.RC1, 8.1.0 or 8.1.RC1.alpha001" + pta_error(ErrCode.VALUE)
        )
    major, minor, candidate, trial, patch, stage = match.groups()
    level = (2, int(patch)) if patch is not None else (1, int(candidate)) if candidate is not None else (0, int(trial))
    last = float("inf") if stage is None else int(stage)
    return int(major), int(minor), *level, last


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Whether the CANN here is that version or a later one."""
    return _version_key(get_cann_version(module)) >= _version_key(version)
