"""Shapes, slices, extremes and bits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, into, pack_bits, require, unpack_bits


def npu_broadcast(self: Tensor, size: list[int]) -> Tensor:
    return self.expand(size).clone(memory_format=torch.contiguous_format)


def npu_broadcast__out(self: Tensor, size: list[int], *, out: Tensor) -> Tensor:
    return into(out, self.expand(size))


def npu_confusion_transpose(self: Tensor, perm: list[int], shape: list[int], transpose_first: bool) -> Tensor:
    if transpose_first:
        return self.permute(perm).reshape(shape)
    return self.reshape(shape).permute(perm).contiguous()


def npu_confusion_transpose_backward(grad: Tensor, perm: list[int], shape: list[int], transpose_first: bool) -> Tensor:
    """`shape` is that of the forward input."""
    back = [perm.index(dim) for dim in range(len(perm))]
    if transpose_first:
        return grad.reshape([shape[dim] for dim in perm]).permute(back).contiguous()
    return grad.permute(back).reshape(shape)


def _bits(mask: int, bit: int) -> bool:
    return bool(mask >> bit & 1)


def npu_indexing(
    self: Tensor,
    begin: list[int],
    end: list[int],
    strides: list[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """The strided slice of TensorFlow: a bit of a mask speaks of the entry of begin, end and strides at its place."""
    require(
        len(begin) == len(end) == len(strides),
        f"npu_indexing: begin, end and strides have {len(begin)}, {len(end)} and {len(strides)} entries",
    )
    require(ellipsis_mask.bit_count() <= 1, f"npu_indexing: ellipsis_mask {ellipsis_mask} has more than one bit")
    index: list[int | slice | None] = []
    flips: list[int] = []
    dim = 0
    entries = range(len(begin))
    taken = sum(not _bits(ellipsis_mask | new_axis_mask, entry) for entry in entries)
    for entry in entries:
        if _bits(ellipsis_mask, entry):
            skipped = self.dim() - taken
            index += [slice(None)] * skipped
            dim += skipped
        elif _bits(new_axis_mask, entry):
            index.append(None)
        elif _bits(shrink_axis_mask, entry):
            index.append(begin[entry])
            dim += 1
        else:
            index.append(_slice(self.shape[dim], entry, begin, end, strides, begin_mask, end_mask))
            if strides[entry] < 0:
                flips.append(dim)
            dim += 1
    return self.flip(flips)[tuple(index)].contiguous() if flips else self[tuple(index)].contiguous()


def _slice(
    size: int, entry: int, begin: list[int], end: list[int], strides: list[int], begin_mask: int, end_mask: int
) -> slice:
    """A slice with a positive step; the caller flips the dimension where the step was negative."""
    step = strides[entry]
    require(step != 0, "npu_indexing: a stride is 0", ErrCode.VALUE)
    first, last, _ = slice(
        None if _bits(begin_mask, entry) else begin[entry], None if _bits(end_mask, entry) else end[entry], step
    ).indices(size)
    if step > 0:
        return slice(first, last, step)
    return slice(size - 1 - first, size - 1 - last, -step)


def npu_indexing__out(
    self: Tensor,
    begin: list[int],
    end: list[int],
    strides: list[int],
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    *,
    out: Tensor,
) -> Tensor:
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return into(out, npu_indexing(self, begin, end, strides, *masks))


npu_indexing_trans_contiguous__out = npu_indexing__out


def npu_max__dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(self, dim, keepdim)
    return values, indices.to(torch.int32)


def npu_min__dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.min(self, dim, keepdim)
    return values, indices.to(torch.int32)


def npu_max_backward(grad: Tensor, dim: int, indices: Tensor, sizes: list[int], keepdim: bool) -> Tensor:
    if not keepdim and sizes:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(sizes).scatter(dim, indices.long(), grad)


npu_min_backward = npu_max_backward


def npu_normalize_batch(self: Tensor, seq_len: Tensor, normalize_type: int = 0) -> Tensor:
    """Samples [N, D, T] over their first seq_len steps: 0 each of the D rows by itself, 1 all of them together."""
    require(self.dim() == 3, f"npu_normalize_batch: the input must be [N, D, T], not {tuple(self.shape)}")
    require(normalize_type in (0, 1), f"npu_normalize_batch: normalize_type must be 0 or 1, not {normalize_type}")
    valid = (torch.arange(self.shape[2], device=self.device) < seq_len.reshape(-1, 1)).unsqueeze(1)
    dims = (2,) if normalize_type == 0 else (1, 2)
    count = valid.sum(2, keepdim=True) * (1 if normalize_type == 0 else self.shape[1])
    mean = (self * valid).sum(dims, keepdim=True) / count
    spread = (((self - mean) * valid).square().sum(dims, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    return (self - mean) / (spread + 1e-5)


def npu_one_hot(
    self: Tensor, num_classes: int = -1, depth: int = 1, on_value: float = 1, off_value: float = 0
) -> Tensor:
    """`depth` columns; num_classes is kept for old callers and must agree when given."""
    require(depth > 0, f"npu_one_hot: depth must be positive, {depth} is not", ErrCode.VALUE)
    require(
        num_classes in (-1, depth), f"npu_one_hot: num_classes {num_classes} is not the depth {depth}", ErrCode.VALUE
    )
    hit = self.unsqueeze(-1) == torch.arange(depth, device=self.device)
    return torch.where(hit, float(on_value), float(off_value)).to(torch.float32)


def npu_pad(input: Tensor, paddings: list[int]) -> Tensor:
    require(
        len(paddings) == 2 * input.dim(),
        f"npu_pad: paddings has {len(paddings)} entries; an input of {input.dim()} dimensions needs {2 * input.dim()}",
    )
    last_first = [count for dim in reversed(range(input.dim())) for count in paddings[2 * dim : 2 * dim + 2]]
    return F.pad(input, last_first)


def npu_reshape(self: Tensor, shape: list[int], can_refresh: bool = False) -> Tensor:
    """Values are kept in logical order, so there is no description that `can_refresh` could save: a view where torch has one."""
    return self.reshape(shape) if can_refresh else self.reshape(shape).clone()


def npu_reshape__out(self: Tensor, shape: list[int], can_refresh: bool = False, *, out: Tensor) -> Tensor:
    return into(out, npu_reshape(self, shape, can_refresh))


def npu_sign_bits_pack(self: Tensor, size: int) -> Tensor:
    """1 is positive. What is missing in the last byte counts as negative."""
    packed = pack_bits(F.pad((self.reshape(-1) >= 0).to(torch.uint8), (0, -self.numel() % 8)))
    require(
        size > 0 and packed.numel() % size == 0,
        f"npu_sign_bits_pack: {packed.numel()} bytes cannot be {size} rows",
        ErrCode.VALUE,
    )
    return packed.reshape(size, -1)


def npu_sign_bits_unpack(input: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    bits = unpack_bits(input)
    require(
        size > 0 and bits.numel() % size == 0,
        f"npu_sign_bits_unpack: {bits.numel()} values cannot be {size} rows",
        ErrCode.VALUE,
    )
    return bits.reshape(size, -1).to(dtype) * 2 - 1


def npu_slice(self: Tensor, offsets: list[int], size: list[int]) -> Tensor:
    require(
        len(offsets) == len(size) == self.dim(),
        f"npu_slice: {len(offsets)} offsets and {len(size)} sizes for {self.dim()} dimensions",
    )
    result = self
    for dim, (first, count) in enumerate(zip(offsets, size, strict=True)):
        result = result.narrow(dim, first, self.shape[dim] - first if count == -1 else count)
    return result.contiguous()


def npu_slice__out(self: Tensor, offsets: list[int], size: list[int], *, out: Tensor) -> Tensor:
    return into(out, npu_slice(self, offsets, size))


def npu_sort_v2(self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    require(
        dim in (-1, self.dim() - 1), f"npu_sort_v2: only the last dimension can be sorted, not {dim}", ErrCode.VALUE
    )
    return torch.sort(self, dim, descending).values


def npu_sort_v2__out(self: Tensor, dim: int = -1, descending: bool = False, *, out: Tensor) -> Tensor:
    return into(out, npu_sort_v2(self, dim, descending))


def npu_stride_add(self: Tensor, other: Tensor, offset1: float, offset2: float, c1_len: float) -> Tensor:
    """Channels in blocks of 16, as the format NC1HWC0 has them: offsets and length count blocks."""
    require(self.dim() in (4, 5), f"npu_stride_add: the input must have 4 or 5 dimensions, not {self.dim()}")
    block = 16 if self.dim() == 4 else 1
    length = int(c1_len) * block
    first, second = self, other
    if block > 1:
        first, second = (F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % block)) for x in (self, other))
    return first.narrow(1, int(offset1) * block, length) + second.narrow(1, int(offset2) * block, length)


def npu_transpose(self: Tensor, perm: list[int], require_contiguous: bool = True) -> Tensor:
    turned = self.permute(perm)
    return turned.contiguous() if require_contiguous else turned


def npu_transpose__out(self: Tensor, perm: list[int], require_contiguous: bool = True, *, out: Tensor) -> Tensor:
    """Written through the strides of out, so it is contiguous when out is."""
    return into(out, npu_transpose(self, perm, require_contiguous))


npu_transpose_trans_contiguous__out = npu_transpose__out


def one_(self: Tensor) -> Tensor:
    return self.fill_(1)


def reverse(self: Tensor, axis: list[int]) -> Tensor:
    return self.flip(axis)
