"""What the quantised operators share: target types, rounding, packed int4, exact integer products, scales per token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import overload

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, dtype_of, require, unsupported

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_INT4 = 285  # the number of a type that torch has no tensor for: eight of them lie in an int32
_PACK = 8
_PLAIN = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}


@dataclass(frozen=True)
class Target:
    """What values are quantised to: the stored dtype and the range of a value."""

    dtype: torch.dtype
    low: float
    high: float
    packed: bool = False


def is_int4(code: int | torch.dtype | None) -> bool:
    return code == _INT4 or (code is not None and code in (16, torch.quint4x2))


def target_of(code: int | torch.dtype | None, name: str, default: torch.dtype = torch.int8) -> Target:
    """int8 unless another type is named; int4 comes out packed."""
    if is_int4(code):
        return Target(torch.int32, -8, 7, True)
    dtype = default if code is None else dtype_of(code, name)
    dtype = _PLAIN.get(dtype, dtype)
    if dtype in FLOAT8:
        limit = torch.finfo(dtype).max
        return Target(dtype, -limit, limit)
    if dtype not in (torch.int8, torch.uint8, torch.int32):
        raise unsupported(f"{name}: quantised values of {dtype}; int8, uint8, int32, packed int4 and float8 are there")
    info = torch.iinfo(dtype)
    return Target(dtype, info.min, info.max)


def check_rint(round_mode: str | int | None, name: str) -> None:
    """Half to even is what every integer target has; the other ways to round belong to types that are not here."""
    if round_mode not in (None, "rint", 0):
        raise unsupported(f"{name}: round_mode {round_mode!r}; 'rint', half to even, is there")


def check_limit(dst_type_max: float | None, name: str) -> None:
    if dst_type_max:
        raise unsupported(f"{name}: dst_type_max {dst_type_max}, which belongs to hifloat8; leave it at 0")


def store(values: Tensor, target: Target) -> Tensor:
    """Values in units of their scale, rounded half to even, saturated, in the type that keeps them."""
    if target.dtype in FLOAT8:
        return values.clamp(target.low, target.high).to(target.dtype)
    whole = values.double() if target.dtype == torch.int32 and not target.packed else values
    result = whole.round().clamp(target.low, target.high).to(target.dtype)
    return pack_int4(result) if target.packed else result


def pack_int4(x: Tensor) -> Tensor:
    """Eight values to an int32 along the last dimension, the first in the lowest bits."""
    require(
        x.dim() > 0 and x.shape[-1] % _PACK == 0,
        f"packed int4: the last dimension of {tuple(x.shape)} must be a multiple of {_PACK}",
        ErrCode.VALUE,
    )
    shifts = torch.arange(0, 32, 4, device=x.device)
    digits = x.reshape(*x.shape[:-1], x.shape[-1] // _PACK, _PACK).long() & 15
    return (digits << shifts).sum(-1).to(torch.int32)


def unpack_int4(x: Tensor, dim: int = -1) -> Tensor:
    """The int8 values of packed ones; the dimension grows by eight."""
    shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    digits = (x.movedim(dim, -1).unsqueeze(-1) >> shifts) & 15
    return ((digits ^ 8) - 8).flatten(-2).to(torch.int8).movedim(-1, dim)


def unpack_weight(weight: Tensor, rows: int, name: str) -> Tensor:
    """An int32 weight holds int4, packed along its columns, or along its rows where it is a transposed view."""
    if weight.dtype == torch.int32:
        if weight.shape[-2] == rows:
            weight = unpack_int4(weight)
        elif weight.shape[-2] * _PACK == rows:
            weight = unpack_int4(weight, -2)
    require(
        weight.shape[-2] == rows,
        f"{name}: a weight of {tuple(weight.shape)} does not fit {rows} inputs",
    )
    return weight


@cache
def _has_int8_product() -> bool:
    """Without these instructions torch._int_mm may saturate its partial sums."""
    return bool(torch.cpu._is_vnni_supported())


def _product2(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype == b.dtype == torch.int8 and _has_int8_product():
        return torch._int_mm(a, b)
    return (a.double() @ b.double()).to(torch.int32)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Of integers in int32, exactly; of float8 in float32."""
    require(a.shape[-1] == b.shape[-2], f"a product of {tuple(a.shape)} and {tuple(b.shape)}: the inner sizes differ")
    if a.is_floating_point() or b.is_floating_point():
        return a.float() @ b.float()
    if b.dim() == 2:
        return _product2(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left, right = (x.expand(*batch, *x.shape[-2:]).flatten(0, -3) for x in (a, b))
    if left.shape[0] == 0:
        return a.new_zeros(*batch, a.shape[-2], b.shape[-1], dtype=torch.int32)
    return torch.unflatten(torch.stack([_product2(*pair) for pair in zip(left, right, strict=True)]), 0, batch)


def scale_of(scale: Tensor) -> Tensor:
    """float32 of a scale, which may be one that npu_trans_quant_param packed."""
    if scale.dtype in (torch.int64, torch.uint64):
        return (scale.view(torch.int64) & 0xFFFFFFFF).to(torch.int32).view(torch.float32)
    return scale.float()


def packed_offset(scale: Tensor) -> Tensor | None:
    """The offset in a packed scale; None where the scale is a number."""
    if scale.dtype not in (torch.int64, torch.uint64):
        return None
    field = (scale.view(torch.int64) >> 37) & 0x1FF
    return ((field ^ 0x100) - 0x100).float()


def along(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """A vector laid along one dimension of x; a single value fits everywhere."""
    if values.dim() != 1 or values.numel() == 1:
        return values
    require(
        -x.dim() <= axis < x.dim() and values.shape[0] == x.shape[axis],
        f"{values.shape[0]} values along dimension {axis} of {tuple(x.shape)}",
        ErrCode.VALUE,
    )
    shape = [1] * x.dim()
    shape[axis] = -1
    return values.reshape(shape)


def static(
    x: Tensor, scale: Tensor, offset: Tensor | None, target: Target, *, divide: bool = False, axis: int = -1
) -> Tensor:
    """x times (or over) its scale, plus the offset."""
    factor = along(scale.float(), x, axis)
    values = x.detach().float()
    values = values / factor if divide else values * factor
    if offset is not None:
        values = values + along(offset.float(), x, axis)
    return store(values, target)


def _divisor(scale: Tensor) -> Tensor:
    """Where all values are zero so is the scale; what is divided stays zero."""
    return torch.where(scale > 0, scale, torch.ones_like(scale))


def dynamic(x: Tensor, target: Target, dims: tuple[int, ...] = (-1,)) -> tuple[Tensor, Tensor]:
    """Values over their own largest magnitude; the scale has the reduced dimensions no more."""
    values = x.detach().float()
    scale = values.abs().amax(dims, keepdim=True) / target.high
    return store(values / _divisor(scale), target), scale.squeeze(dims)


def dynamic_asymmetric(x: Tensor, target: Target, dims: tuple[int, ...] = (-1,)) -> tuple[Tensor, Tensor, Tensor]:
    """The range from the smallest to the largest value fills the target's."""
    if target.dtype in FLOAT8:
        raise unsupported(f"a dynamic offset for {target.dtype}; integers have one")
    values = x.detach().float()
    top = values.amax(dims, keepdim=True)
    scale = (top - values.amin(dims, keepdim=True)) / (target.high - target.low)
    divisor = _divisor(scale)
    offset = target.high - top / divisor
    return store(values / divisor + offset, target), scale.squeeze(dims), offset.squeeze(dims)


def group_ends(group_list: Tensor, kind: int, name: str) -> Tensor:
    """Where each group's rows end, from ends (0) or counts (1)."""
    require(kind in (0, 1), f"{name}: group_list_type must be 0 (ends) or 1 (counts), not {kind}")
    ends = group_list.reshape(-1).long()
    return ends.cumsum(0) if kind else ends


@dataclass(frozen=True)
class Groups:
    """For each row the number of its group, and whether it is in one: rows past the last end are not."""

    member: Tensor
    inside: Tensor
    count: int


def row_groups(group_list: Tensor | None, kind: int, rows: int, name: str) -> Groups | None:
    if group_list is None:
        return None
    ends = group_ends(group_list, kind, name)
    member = torch.searchsorted(ends, torch.arange(rows, device=ends.device), right=True)
    return Groups(member.clamp(max=max(len(ends) - 1, 0)), member < len(ends), len(ends))


@overload
def per_row(values: Tensor, groups: Groups | None) -> Tensor: ...
@overload
def per_row(values: Tensor | None, groups: Groups | None) -> Tensor | None: ...
def per_row(values: Tensor | None, groups: Groups | None) -> Tensor | None:
    """A table of a row, or a number, for each group as one for each token; one row alone is shared by all."""
    if values is None:
        return None
    table = values.float()
    if table.dim() == 2 and table.shape[0] == 1:
        table = table[0]
    if groups is None or table.shape[0] != groups.count or table.numel() == 1:
        return table
    return (table.unsqueeze(-1) if table.dim() == 1 else table)[groups.member]


def visited(groups: Groups | None, *results: Tensor) -> tuple[Tensor, ...]:
    """Zero in the rows that no group has: the kernel leaves them as they lie."""
    if groups is None:
        return results
    return tuple(result * groups.inside.reshape(-1, *([1] * (result.dim() - 1))).to(result.dtype) for result in results)
