"""`torch.npu`: devices, streams, memory, random numbers of the npu device."""

from __future__ import annotations

import torch

from torch_npu import _C


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def device_count() -> int:
    """How many devices this process may use."""
    return _C._get_device_count()


def current_device() -> int:
    """The index of the device in use in this thread."""
    return _C._get_device()


def set_device(device: int | str | torch.device) -> None:
    """Use another device in this thread; a negative index changes nothing."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index is not None and index >= 0:
        _C._set_device(index)


def is_initialized() -> bool:
    """Whether the runtime is there."""
    return True


def _lazy_init() -> None:
    """The runtime is there from the import on."""


def _is_in_bad_fork() -> bool:
    return False


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices."""
    for index in range(device_count()):
        _C._default_generator(index).manual_seed(seed)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    _C._default_generator(current_device()).manual_seed(seed)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What autocast may cast to."""
    return [torch.float16, torch.bfloat16, torch.float32]


def synchronize(device: int | str | torch.device | None = None) -> None:
    """Wait for the device. Work is over when a call returns, so there is nothing to wait for."""
