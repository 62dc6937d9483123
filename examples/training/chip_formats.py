"""The storage formats that operators of the guide's chip take and give, made explicit, so that torch_npu counts each conversion.

On npu here an operator takes any format and gives that of its first input. The tuning chapter is about what the adapter and the
kernels of the chip do beyond: a convolution works in NC1HWC0 ("5HD"), concatenation and gathering in NCHW ("4D"), two operands in
the format of the first. `ChipFormats` puts a `npu_format_cast` wherever that converts; its switches are the repairs of the chapter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch_npu
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch_npu import Format, formats

aten = torch.ops.aten
C0 = 16  # channels of a block of NC1HWC0
WORK_IN_5HD = {  # and the places of the pictures among their arguments
    aten.convolution_backward.default: (0, 1),
    aten.native_batch_norm.default: (0,),
    aten.native_batch_norm_backward.default: (0, 1),
    aten.max_pool2d_with_indices.default: (0,),
    aten.max_pool2d_with_indices_backward.default: (0, 1),
}
FOLLOW_THE_FIRST = {aten.add.Tensor, aten.add_.Tensor, aten.threshold_backward.default}
GATHERS = {aten.index_select.default: (0,), aten.index_add.default: (0, 3)}


@dataclass(frozen=True)
class Repairs:
    """What the chapter changes below Python, in its order."""

    cat_gives_4d: bool = False  # table 1, row 3
    depthwise_gives_5hd: bool = False  # table 1, row 5
    relu_grad_in_5hd: bool = False  # table 2, row 8


def whole(tensor: Tensor) -> bool:
    """Whether a tensor is all of its storage as that was made: only then can it have a padded format."""
    return (
        tensor.is_contiguous() and not tensor.storage_offset() and formats.describe(tensor).base_sizes == tensor.shape
    )


def format_of(tensor: Tensor) -> Format:
    """The format in which an operator would find a tensor: a part of one is copied out, which leaves the padded formats."""
    return torch_npu.get_npu_format(tensor) if whole(tensor) else Format.NCHW


class ChipFormats(TorchDispatchMode):
    """Within it every operator gets its inputs in the formats that it takes on the chip.

    `copies` counts the tensors that are parts of others and had to be copied together first, the second cost that the chapter is
    about; `free` the results that a kernel writes in a format by itself, to be taken off the conversions.
    """

    def __init__(self, repairs: Repairs) -> None:
        super().__init__()
        self.repairs = repairs
        self.copies = self.free = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        operands = list(args)
        if func is aten.clone.default and not operands[0].is_contiguous():
            self.copies += 1
        elif func is aten.convolution.default:
            return self._convolution(func, operands)
        elif func is aten.cat.default and operands[0][0].dim() == 4:
            return self._cat(func, operands)
        elif func in GATHERS:
            return self._gather(func, operands, kwargs or {})
        elif func in FOLLOW_THE_FIRST:
            self._follow(func, operands)
        elif func in WORK_IN_5HD:
            return self._work_in_5hd(func, operands, kwargs or {})
        return func(*operands, **(kwargs or {}))

    def _takes(self, tensor: Any, wanted: Format) -> Any:
        """A picture or a weight in the format that an operator takes."""
        if not isinstance(tensor, Tensor) or tensor.dim() != 4:
            return tensor
        if not whole(tensor):
            self.copies += not tensor.is_contiguous()
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        return torch_npu.npu_format_cast(tensor, int(wanted))

    def _gives(self, tensor: Any, wanted: Format) -> Any:
        """A result that the kernel itself writes in a format."""
        if not isinstance(tensor, Tensor) or tensor.dim() != 4 or torch_npu.get_npu_format(tensor) == wanted:
            return tensor
        self.free += 1
        return torch_npu.npu_format_cast(tensor, int(wanted))

    def _weight(self, weight: Tensor, groups: int) -> Tensor:
        return self._takes(weight, Format.FRACTAL_Z) if groups == 1 else weight

    def _work_in_5hd(self, func: Any, operands: list[Any], kwargs: dict[str, Any]) -> Any:
        for index in WORK_IN_5HD[func]:
            operands[index] = self._takes(operands[index], Format.NC1HWC0)
        if func is aten.convolution_backward.default:
            operands[2] = self._weight(operands[2], operands[-2])
        result = func(*operands, **kwargs)
        if isinstance(result, Tensor):
            return self._gives(result, Format.NC1HWC0)
        return self._gives(result[0], Format.NC1HWC0), *result[1:]

    def _convolution(self, func: Any, operands: list[Any]) -> Tensor:
        groups = operands[-1]
        operands[0], operands[1] = self._takes(operands[0], Format.NC1HWC0), self._weight(operands[1], groups)
        result = self._gives(func(*operands), Format.NC1HWC0)
        return result if groups == 1 or self.repairs.depthwise_gives_5hd else self._takes(result, Format.NCHW)

    def _cat(self, func: Any, operands: list[Any]) -> Tensor:
        tensors = operands[0]
        before = format_of(tensors[0])
        if before == Format.NC1HWC0 and not any(tensor.shape[1] % C0 for tensor in tensors):
            return func([self._takes(tensor, before) for tensor in tensors], *operands[1:])
        joined = func([self._takes(tensor, Format.NCHW) for tensor in tensors], *operands[1:])
        return joined if self.repairs.cat_gives_4d else self._takes(joined, before)

    def _gather(self, func: Any, operands: list[Any], kwargs: dict[str, Any]) -> Tensor:
        before = format_of(operands[0])
        for index in GATHERS[func]:
            operands[index] = self._takes(operands[index], Format.NCHW)
        return self._takes(func(*operands, **kwargs), before)

    def _follow(self, func: Any, operands: list[Any]) -> None:
        first, second = operands[:2]
        if not isinstance(second, Tensor) or first.dim() != 4 or first.shape != second.shape:
            return
        wanted = format_of(first)
        if func is aten.threshold_backward.default and self.repairs.relu_grad_in_5hd:
            wanted = format_of(second)
            operands[0] = self._takes(first, wanted)
        operands[1] = self._takes(second, wanted)
