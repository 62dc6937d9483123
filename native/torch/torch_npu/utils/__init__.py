"""torch_npu.utils: helpers around the device."""

from torch_npu.utils._async_save import save_async
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = ["get_part_combined_tensor", "is_combined_tensor_valid", "npu_combine_tensors", "save_async"]
