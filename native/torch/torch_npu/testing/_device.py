"""The device that tests run on."""

from __future__ import annotations

from typing import Any

from torch_npu import _environment, npu


def get_npu_device() -> str:
    """The device that tests run on: SET_NPU_DEVICE, else npu:0."""
    return _environment.text("SET_NPU_DEVICE", "npu:0")


def set_npu_device(device: Any = None) -> None:
    """Make it, or another one, the current device."""
    npu.set_device(get_npu_device() if device is None else device)
