"""Products of quantised factors with a collective. A scale for each row of x1 travels with its rows.

Silent spots: y_dtype None is float32; quantisation modes are 2 for a scale of each channel, 3 of each token, 7 for scales of tokens
that the operator finds itself. `comm_mode` chooses between engines of the chip and changes no result.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_npu.operators.common.arguments import dtype_of, needed, refuse, require, unsupported
from torch_npu.operators.communication._collectives import Group, check_underived
from torch_npu.operators.communication.all_to_all import check_axes, columns_to_rows, rows_to_columns
from torch_npu.operators.quantisation.core import dynamic, target_of
from torch_npu.operators.quantisation.matmul import npu_quant_matmul

_CHANNEL, _TOKEN, _FOUND = 2, 3, 7


def _product(
    name: str, x1: Tensor, x2: Tensor, x1_scale: Tensor | None, x2_scale: Tensor | None, options: dict[str, Any]
) -> Tensor:
    scale = needed(x2_scale, f"{name}: x2_scale is needed to make numbers of the sums")
    y_dtype = options.get("y_dtype")
    output = torch.float32 if y_dtype is None else dtype_of(y_dtype, "y_dtype")
    require(output.is_floating_point, f"{name}: y_dtype must be a floating point type, not {output}")
    return npu_quant_matmul(
        x1, x2, scale, pertoken_scale=x1_scale, bias=options.get("bias"), output_dtype=output,
        x1_dtype=options.get("x1_dtype"), x2_dtype=options.get("x2_dtype"), pertoken_scale_dtype=options.get("x1_scale_dtype"),
        scale_dtype=options.get("x2_scale_dtype"), group_sizes=options.get("group_sizes"),
    )  # fmt: skip


def _check(name: str, x1: Tensor, x2: Tensor, options: dict[str, Any]) -> None:
    """A result that is quantised again, the largest magnitude and block sizes are not computed."""
    check_underived(name, x1, x2)
    require(x1.dim() == 2, f"{name}: the first factor must have two dimensions, not {tuple(x1.shape)}")
    refuse(
        name, quant_scale=options.get("quant_scale"), block_size=options.get("block_size") or None,
        amax_output=options.get("amax_output") or None, comm_turn=options.get("comm_turn") or None,
    )  # fmt: skip


def _check_modes(name: str, options: dict[str, Any], first: int) -> None:
    """Numbers of modes other than those of this module, and what belongs to them."""
    for what, plain in (("x1_quant_mode", first), ("x2_quant_mode", _CHANNEL), ("common_quant_mode", 0)):
        if options.get(what) not in (None, plain):
            raise unsupported(f"{name}: {what} {options[what]}; {plain} can be computed")
    absent = ("common_scale", "x1_offset", "x2_offset", "comm_quant_dtype", "output_scale_dtype", "comm_scale_dtype")
    refuse(name, **{option: options.get(option) for option in absent})


def npu_all_gather_quant_mm(
    self: Tensor, x2: Tensor, hcom: str, world_size: int, *, x1_scale: Tensor | None = None, x2_scale: Tensor | None = None,
    gather_index: int = 0, gather_output: bool = True, comm_mode: str | None = None, **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The product of the gathered rows, those rows, and an empty tensor where the largest magnitude would be."""
    name = "npu_all_gather_quant_mm"
    _check(name, self, x2, options)
    require(gather_index == 0, f"{name}: gather_index must be 0, the first factor, not {gather_index}")
    group = Group(name, hcom, world_size)
    whole = group.all_gather(self)
    scale = x1_scale if x1_scale is None or x1_scale.numel() == 1 else group.all_gather(x1_scale)
    product = _product(name, whole, x2, scale, x2_scale, options)
    return product, whole if gather_output else self.new_empty(0), product.new_empty(0, dtype=torch.float32)


def npu_quant_mm_reduce_scatter(
    self: Tensor, x2: Tensor, hcom: str, world_size: int, *, reduce_op: str = "sum", x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None, comm_mode: str | None = None, **options: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """This rank's rows of the sum of the products, and an empty tensor where the largest magnitude would be."""
    name = "npu_quant_mm_reduce_scatter"
    _check(name, self, x2, options)
    require(reduce_op == "sum", f"{name}: reduce_op must be 'sum', not {reduce_op!r}")
    group = Group(name, hcom, world_size)
    require(self.shape[0] % group.size == 0, f"{name}: {self.shape[0]} rows cannot be scattered to {group.size} ranks")
    product = group.reduce_scatter(_product(name, self, x2, x1_scale, x2_scale, options))
    return product, product.new_empty(0, dtype=torch.float32)


def npu_all_to_all_quant_matmul(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, *, all2all_out_flag: bool = True, x2_scale: Tensor | None = None,
    x1_quant_dtype: int | None = None, all2all_axes: list[int] | None = None, comm_mode: str | None = None, **options: Any,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """x1 travels as it is and is quantised after it, with a scale for each token; x1_scale then are factors of its columns. A first
    factor that is quantised before it travels is not computed: its pieces would have different scales in one row."""
    name = "npu_all_to_all_quant_matmul"
    _check(name, x1, x2, options)
    _check_modes(name, options, _FOUND)
    check_axes(name, all2all_axes, [-2, -1])
    if not x1.is_floating_point() or x1.dtype.itemsize == 1:
        raise unsupported(f"{name}: x1 of {x1.dtype}; give float16 or bfloat16, which is quantised after the exchange")
    moved = rows_to_columns(name, Group(name, hcom, world_size), x1)
    smooth = options.pop("x1_scale", None)
    target = target_of(x2.dtype if x1_quant_dtype is None else x1_quant_dtype, name)
    values, scale = dynamic(moved if smooth is None else moved.float() * smooth.float(), target)
    product = _product(name, values, x2, scale, x2_scale, options)
    return product, moved if all2all_out_flag else x1.new_empty(0)


def npu_quant_matmul_all_to_all(
    x1: Tensor, x2: Tensor, hcom: str, world_size: int, bias: Tensor | None = None, x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None, common_scale: Tensor | None = None, x1_offset: Tensor | None = None,
    x2_offset: Tensor | None = None, x1_quant_mode: int | None = None, x2_quant_mode: int | None = None,
    common_quant_mode: int | None = None, group_sizes: list[int] | None = None, all2all_axes: list[int] | None = None,
    comm_quant_dtype: int | None = None, x1_dtype: int | None = None, x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None, x2_scale_dtype: int | None = None, output_scale_dtype: int | None = None,
    comm_scale_dtype: int | None = None, y_dtype: int | None = None, comm_mode: str | None = None,
) -> Tensor:  # fmt: skip
    """The product [rows, columns] becomes [rows * ranks, columns / ranks]."""
    name = "npu_quant_matmul_all_to_all"
    _check(name, x1, x2, {})
    _check_modes(
        name,
        {
            "common_scale": common_scale, "x1_offset": x1_offset, "x2_offset": x2_offset, "x1_quant_mode": x1_quant_mode,
            "x2_quant_mode": x2_quant_mode, "common_quant_mode": common_quant_mode, "comm_quant_dtype": comm_quant_dtype,
            "output_scale_dtype": output_scale_dtype, "comm_scale_dtype": comm_scale_dtype,
        },
        _TOKEN,
    )  # fmt: skip
    check_axes(name, all2all_axes, [-1, -2])
    options = {
        "bias": bias, "group_sizes": group_sizes, "x1_dtype": x1_dtype, "x2_dtype": x2_dtype, "y_dtype": y_dtype,
        "x1_scale_dtype": x1_scale_dtype, "x2_scale_dtype": x2_scale_dtype,
    }  # fmt: skip
    product = _product(name, x1, x2, x1_scale, x2_scale, options)
    return columns_to_rows(name, Group(name, hcom, world_size), product)
