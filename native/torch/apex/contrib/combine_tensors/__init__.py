"""Combined tensors under the names of apex; `torch_npu.utils.combine_tensors` does the work."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch_npu.utils.combine_tensors import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = ["combine_npu", "get_aligned_storage_size", "get_part_combined_tensor", "is_combined_tensor_valid"]


def combine_npu(list_of_tensor: Sequence[Tensor], require_copy_value: bool = True) -> Tensor | None:
    """See `torch_npu.utils.npu_combine_tensors`."""
    return npu_combine_tensors(list_of_tensor, require_copy_value)


def get_aligned_storage_size(tensor: Tensor, align: int = 16, pad: int = 32) -> int:
    """The elements that a chip's allocator takes for a tensor: those of its storage and `pad`, up to a multiple of `align`. Combined
    tensors here lie next to each other without such gaps."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size() + pad
    return -(-elements // align) * align
