"""Scatter, gather and random choice of positions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, require


def npu_gather_sparse_index(input: Tensor, index: Tensor) -> Tensor:
    return input.index_select(0, index.reshape(-1)).reshape(*index.shape, *input.shape[1:])


def npu_gather_sparse_index_backward(grad: Tensor, self_sizes: list[int], index: Tensor) -> Tensor:
    flat = grad.reshape(-1, *self_sizes[1:])
    return grad.new_zeros(self_sizes).index_add(0, index.reshape(-1), flat)


def _npu_index_add(self: Tensor, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    return self.index_add(0, index.reshape(-1), source, alpha=alpha)


def _npu_index_add_(self: Tensor, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    return self.index_add_(0, index.reshape(-1), source, alpha=alpha)


def npu_masked_fill_range(self: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int = -1) -> Tensor:
    """start and end are [ranges, rows], value [ranges]: range k fills row r from start[k, r] on. Rows are the first dimension that is
    not the axis; those that have no column stay as they are."""
    require(
        start.dim() == 2 and start.shape == end.shape and value.numel() == start.shape[0],
        f"npu_masked_fill_range: start and end must be [ranges, rows] and value [ranges], not {tuple(start.shape)}, "
        f"{tuple(end.shape)} and {tuple(value.shape)}",
    )
    moved = self.movedim(axis, -1)
    lead = moved.shape[0] if moved.dim() > 1 else 1
    require(
        start.shape[1] <= lead,
        f"npu_masked_fill_range: {start.shape[1]} columns of ranges for {lead} rows of {tuple(self.shape)}",
        ErrCode.VALUE,
    )
    places = torch.arange(moved.shape[-1], device=self.device)
    inside = (places >= start.unsqueeze(-1)) & (places < end.unsqueeze(-1))  # [ranges, rows, positions]
    inside = F.pad(inside, (0, 0, 0, lead - start.shape[1]))
    shape = (lead, *([1] * (moved.dim() - 2)), -1) if moved.dim() > 1 else (-1,)
    result = moved
    for here, filling in zip(inside, value.reshape(-1), strict=True):
        result = torch.where(here.reshape(shape), filling.to(self.dtype), result)
    return result.movedim(-1, axis)


def npu_random_choice_with_mask(x: Tensor, count: int = 256, seed: int = 0, seed2: int = 0) -> tuple[Tensor, Tensor]:
    """Two seeds that are not both 0 make the choice repeatable."""
    places = torch.nonzero(x)
    if seed or seed2:
        generator = torch.Generator().manual_seed(seed * 0x9E3779B1 + seed2)
        order = torch.randperm(len(places), generator=generator).to(x.device)
    else:
        order = torch.randperm(len(places), device=x.device)
    chosen = places[order[:count]].to(torch.int32)
    result = x.new_zeros((count, x.dim()), dtype=torch.int32)
    result[: len(chosen)] = chosen
    return result, torch.arange(count, device=x.device) < len(chosen)


def npu_scatter(self: Tensor, indices: Tensor, updates: Tensor, dim: int) -> Tensor:
    places, values = indices.long(), updates
    if places.dim() < self.dim():
        places, values = places.unsqueeze(dim), values if values.dim() == self.dim() else values.unsqueeze(dim)
    return self.scatter(dim, places, values)


def npu_scatter_list_(
    self: list[Tensor],
    indices: Tensor,
    updates: Tensor,
    mask: Tensor | None = None,
    reduce: str = "update",
    axis: int = -2,
) -> None:
    """A row of indices is a start, or a start and a length."""
    require(reduce == "update", f"npu_scatter_list_: reduce must be 'update', not {reduce!r}")
    for number, target in enumerate(self):
        if mask is not None and not bool(mask.reshape(-1)[number]):
            continue
        stretch = indices[number]
        start = int(stretch.reshape(-1)[0])
        source = updates[number]
        length = int(stretch.reshape(-1)[1]) if stretch.numel() > 1 else source.shape[axis]
        target.narrow(axis, start, length).copy_(source.narrow(axis, 0, length))


def npu_scatter_list(
    self: list[Tensor],
    indices: Tensor,
    updates: Tensor,
    mask: Tensor | None = None,
    reduce: str = "update",
    axis: int = -2,
) -> list[Tensor]:
    copies = [tensor.clone() for tensor in self]
    npu_scatter_list_(copies, indices, updates, mask, reduce, axis)
    return copies


def npu_scatter_nd_update(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    return npu_scatter_nd_update_(self.clone(), indices, updates)


def npu_scatter_nd_update_(self: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    require(
        0 < indices.shape[-1] <= self.dim(),
        f"npu_scatter_nd_update: the last dimension of indices is {indices.shape[-1]}; the input has {self.dim()} dimensions",
    )
    return self.index_put_(indices.long().unbind(-1), updates)


def scatter_update_(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """Batch b gets its update from position indices[b] on."""
    length = updates.shape[axis]
    starts = indices.long().reshape(-1)
    require(
        len(starts) == self.shape[0],
        f"scatter_update: {len(starts)} indices for a batch of {self.shape[0]}; there must be one for each",
    )
    axis = axis % self.dim()
    places = starts.reshape(-1, 1) + torch.arange(length, device=self.device)
    shape = [1] * self.dim()
    shape[0], shape[axis] = places.shape
    return self.scatter_(axis, places.reshape(shape).expand(updates.shape), updates)


def scatter_update(self: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    return scatter_update_(self.clone(), indices, updates, axis)


def npu_sub_sample(self: Tensor, per_images: int, positive_fraction: float) -> Tensor:
    """1 is a positive label, 0 a negative one; as many of them stay, chosen at random, and all else is -1."""
    require(self.dim() == 1, f"npu_sub_sample: the labels must have one dimension, not {self.dim()}")
    require(
        0 <= positive_fraction <= 1,
        f"npu_sub_sample: positive_fraction must be from 0 to 1, {positive_fraction} is not",
        ErrCode.VALUE,
    )

    def chosen(which: Tensor, count: int | Tensor) -> Tensor:
        """Ranks by a random number; the others stand behind."""
        key = torch.rand(self.shape, device=self.device) + (~which).to(torch.float32)
        return which & (key.argsort().argsort() < count)

    positive = chosen(self == 1, int(per_images * positive_fraction))
    negative = chosen(self == 0, per_images - positive.sum())
    return torch.where(positive | negative, self, -1)
