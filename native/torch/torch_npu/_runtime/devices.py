"""The one door of torch_npu to `softnpu.runtime`: its process, which owns the devices, and the words that describe them."""

from __future__ import annotations

from softnpu.runtime.device import Device, Soc, soc
from softnpu.runtime.memory.atlas import SLAB_LIMIT
from softnpu.runtime.memory.kinds import DEVICE_KINDS
from softnpu.runtime.process import process
from softnpu.runtime.streams.stream import Context

__all__ = ["DEVICE_KINDS", "SLAB_LIMIT", "Context", "Device", "Soc", "process", "soc"]
