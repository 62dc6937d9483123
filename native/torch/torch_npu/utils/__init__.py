"""torch_npu.utils: helpers around the device."""

from torch_npu._serialization import save_async

__all__ = ["save_async"]
