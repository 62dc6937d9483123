"""Products of quantised factors: integers are summed exactly in int32, then scaled in float32 and rounded once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import DTypeCode, ErrCode, dtype_of, needed, require, unsupported
from torch_npu.operators.quantisation.blocks import npu_anti_mx_quant
from torch_npu.operators.quantisation.core import (
    FLOAT8,
    check_rint,
    is_int4,
    packed_offset,
    product,
    scale_of,
    static,
    store,
    target_of,
    unpack_int4,
    unpack_weight,
)

_MX_BLOCK = 32
_FACTORS = (torch.int8, torch.int32, *FLOAT8)
_SCALES = (torch.float32, torch.bfloat16, torch.int64, torch.uint64, torch.float8_e8m0fnu)
_ROW_SCALES = (torch.float32, torch.float8_e8m0fnu)
_BIASES = (torch.int32, torch.float32, torch.float16, torch.bfloat16)
_OUTPUTS = (torch.int8, torch.int32, torch.float16, torch.bfloat16, torch.float32)


def check_types(name: str, **codes: int | None) -> None:
    """Names of types that the tensors have no dtype for: int4 is known by its packing, the others are not there."""
    for argument, code in codes.items():
        if code is not None and not is_int4(code):
            dtype_of(code, f"{name}: {argument}")


def check_dtype(name: str, argument: str, x: Tensor | None, allowed: tuple[torch.dtype, ...]) -> None:
    if x is not None and x.dtype not in allowed:
        words = ", ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        require(False, f"{name}: {argument} is {x.dtype}; it must be one of {words}", ErrCode.TYPE)


def factors(x1: Tensor, x2: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Both factors as numbers; int32 holds packed int4."""
    check_dtype(name, "x1", x1, _FACTORS)
    check_dtype(name, "x2", x2, _FACTORS)
    left = unpack_int4(x1) if x1.dtype == torch.int32 else x1
    return left, unpack_weight(x2, left.shape[-1], name)


def column(values: Tensor) -> Tensor:
    """A number for each row."""
    return values.float().unsqueeze(-1) if values.dim() == 1 else values.float()


def scaled(sums: Tensor, scale: Tensor | None, pertoken: Tensor | None, bias: Tensor | None) -> Tensor:
    """Sums as numbers. An integer bias is added before the scales, a float one after them."""
    result = (sums if bias is None or bias.is_floating_point() else sums + bias).float()
    if scale is not None:
        result = result * scale_of(scale)
    if pertoken is not None:
        result = result * column(pertoken)
    return result + bias.float() if bias is not None and bias.is_floating_point() else result


def _blown_up(scale: Tensor, rows: int, row_size: int, columns: int, column_size: int, name: str) -> Tensor:
    """One number for each block as one for each element."""
    wanted = (-(-rows // row_size), -(-columns // column_size))
    require(
        tuple(scale.shape[-2:]) == wanted,
        f"{name}: scales of {tuple(scale.shape)} for blocks of {row_size} by {column_size} in {rows} by {columns}; {wanted} are needed",
    )
    tall = scale.float().repeat_interleave(row_size, -2)[..., :rows, :]
    return tall.repeat_interleave(column_size, -1)[..., :columns]


def _block_product(x1: Tensor, x2: Tensor, scale: Tensor, pertoken: Tensor, sizes: list[int], name: str) -> Tensor:
    """Each factor has a scale for blocks of it: group_sizes are those of m, n and k."""
    require(len(sizes) == 3 and min(sizes) > 0, f"{name}: group_sizes must be three positive numbers, not {sizes}")
    m, n, k = sizes
    left = x1.float() * _blown_up(pertoken, x1.shape[-2], m, x1.shape[-1], k, name)
    return left @ (x2.float() * _blown_up(scale, x2.shape[-2], k, x2.shape[-1], n, name))


def _mx_product(x1: Tensor, x2: Tensor, scale: Tensor, pertoken: Tensor | None, sizes: list[int], name: str) -> Tensor:
    """Both factors as npu_dynamic_mx_quant leaves them, in blocks of 32 along the inner dimension."""
    require(
        pertoken is not None and pertoken.dtype == scale.dtype and (not any(sizes) or sizes[-1] == _MX_BLOCK),
        f"{name}: MX scales are those of both factors, for blocks of {_MX_BLOCK}; group_sizes are {sizes}",
    )
    assert pertoken is not None
    left, right = (
        npu_anti_mx_quant(factor, its, axis=axis, dst_type=torch.float32, src_type=factor.dtype)
        for factor, its, axis in ((x1, pertoken, -1), (x2, scale, -2))
    )
    return left @ right


def as_output(
    sums: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    pertoken: Tensor | None,
    bias: Tensor | None,
    output: torch.dtype,
) -> Tensor:
    """int32 is the sums themselves, int8 is quantised with the offset, the rest is rounded."""
    if output == torch.int32:
        return sums if bias is None else sums + bias
    result = scaled(sums, scale, pertoken, bias)
    if output != torch.int8:
        return result.to(output)
    shift = packed_offset(scale) if offset is None else offset.float()
    return store(result if shift is None else result + shift, target_of(torch.int8, "output_dtype"))


def npu_quant_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    bias: Tensor | None = None,
    output_dtype: DTypeCode | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    pertoken_scale_dtype: int | None = None,
    scale_dtype: int | None = None,
    group_sizes: list[int] | None = None,
    y_scale: Tensor | None = None,
) -> Tensor:
    """A float32 scale is used as it is; one of npu_trans_quant_param has the 19 bits that were kept."""
    name = "npu_quant_matmul"
    check_types(
        name, x1_dtype=x1_dtype, x2_dtype=x2_dtype, scale_dtype=scale_dtype, pertoken_scale_dtype=pertoken_scale_dtype
    )
    if y_scale is not None:
        raise unsupported(f"{name}: y_scale, a float8 result with a scale of its own")
    output = torch.int8 if output_dtype is None else dtype_of(output_dtype, "output_dtype")
    require(output in _OUTPUTS, f"{name}: output_dtype {output}; it must be int8, int32, float16, bfloat16 or float32")
    require(offset is None or output == torch.int8, f"{name}: an offset is for an int8 result, not {output}")
    check_dtype(name, "scale", scale, _SCALES)
    check_dtype(name, "pertoken_scale", pertoken_scale, _ROW_SCALES)
    check_dtype(name, "bias", bias, _BIASES)
    left, right = factors(x1, x2, name)
    if scale.dtype == torch.float8_e8m0fnu:
        result = _mx_product(left, right, scale, pertoken_scale, list(group_sizes or ()), name)
        return (result if bias is None else result + bias.float()).to(output)
    if group_sizes and any(group_sizes):
        row_scale = needed(pertoken_scale, f"{name}: group_sizes need scales of both factors")
        result = _block_product(left, right, scale, row_scale, list(group_sizes), name)
        return (result if bias is None else result + bias.float()).to(output)
    return as_output(product(left, right), scale, offset, pertoken_scale, bias, output)


def npu_add_quant_matmul(
    self: Tensor,
    x1: Tensor,
    x2: Tensor,
    x2_scale: Tensor,
    *,
    x1_scale: Tensor | None = None,
    group_sizes: list[int] | None = None,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
    x1_scale_dtype: int | None = None,
    x2_scale_dtype: int | None = None,
) -> Tensor:
    product = npu_quant_matmul(
        x1,
        x2,
        x2_scale,
        pertoken_scale=x1_scale,
        output_dtype=torch.float32,
        x1_dtype=x1_dtype,
        x2_dtype=x2_dtype,
        pertoken_scale_dtype=x1_scale_dtype,
        scale_dtype=x2_scale_dtype,
        group_sizes=group_sizes,
    )
    return (self.float() + product).to(self.dtype)


def npu_add_quant_matmul_(self: Tensor, x1: Tensor, x2: Tensor, x2_scale: Tensor, **options: Any) -> Tensor:
    return self.copy_(npu_add_quant_matmul(self, x1, x2, x2_scale, **options))


def npu_quant_matmul_gelu(
    x1: Tensor,
    x2: Tensor,
    x1_scale: Tensor,
    x2_scale: Tensor,
    *,
    bias: Tensor | None = None,
    approximate: str | None = "gelu_erf",
) -> Tensor:
    """bfloat16 where the weight's scale is, float16 otherwise."""
    ways = {None: "none", "gelu_erf": "none", "gelu_tanh": "tanh"}
    require(
        approximate in ways, f"npu_quant_matmul_gelu: approximate must be gelu_erf or gelu_tanh, not {approximate!r}"
    )
    left, right = factors(x1, x2, "npu_quant_matmul_gelu")
    result = F.gelu(scaled(product(left, right), x2_scale, x1_scale, bias), approximate=ways[approximate])
    return result.to(torch.bfloat16 if x2_scale.dtype == torch.bfloat16 else torch.float16)


def npu_quant_matmul_reduce_sum(
    x1: Tensor, x2: Tensor, *, x1_scale: Tensor | None = None, x2_scale: Tensor | None = None
) -> Tensor:
    """[b, m, k] by [b, k, n], summed over b: [m, n] in bfloat16."""
    require(
        x1.dim() == x2.dim() == 3,
        f"npu_quant_matmul_reduce_sum: both factors must have 3 dimensions, not {x1.dim()} and {x2.dim()}",
    )
    pertoken = None if x1_scale is None else x1_scale.unsqueeze(-1)
    return scaled(product(x1, x2), x2_scale, pertoken, None).sum(0).to(torch.bfloat16)


def npu_transpose_quant_batchmatmul(
    x1: Tensor,
    x2: Tensor,
    dtype: int,
    *,
    bias: Tensor | None = None,
    x1_scale: Tensor | None = None,
    x2_scale: Tensor | None = None,
    group_sizes: list[int] | None = None,
    perm_x1: list[int] | None = None,
    perm_x2: list[int] | None = None,
    perm_y: list[int] | None = None,
    batch_split_factor: int | None = 1,
    x1_dtype: int | None = None,
    x2_dtype: int | None = None,
) -> Tensor:
    """[m, b, k] by [b, k, n] gives [m, b, n] unless the permutations say otherwise; x1_scale is of m, x2_scale of n."""
    name = "npu_transpose_quant_batchmatmul"
    check_types(name, x1_dtype=x1_dtype, x2_dtype=x2_dtype)
    require(x1.dim() == x2.dim() == 3, f"{name}: both factors must have 3 dimensions, not {x1.dim()} and {x2.dim()}")
    if (group_sizes and any(group_sizes)) or batch_split_factor not in (None, 1):
        raise unsupported(f"{name}: group_sizes {group_sizes}, batch_split_factor {batch_split_factor}")
    first = x1.permute([1, 0, 2] if perm_x1 is None else perm_x1)
    second = x2.permute([0, 1, 2] if perm_x2 is None else perm_x2)
    result = scaled(product(first, second), x2_scale, x1_scale, bias)
    return result.permute([1, 0, 2] if perm_y is None else perm_y).contiguous().to(dtype_of(dtype))


def antiquantised(weight: Tensor, scale: Tensor, offset: Tensor | None, group_size: int, name: str) -> Tensor:
    """(weight + offset) * scale in float32; with groups each row of the tables is for so many rows of the weight."""

    def fitted(numbers: Tensor) -> Tensor:
        table = scale_of(numbers)
        if not group_size:
            return table
        wanted = -(-weight.shape[-2] // group_size)
        require(
            table.dim() >= 2 and table.shape[-2] == wanted,
            f"{name}: a table of {tuple(table.shape)} for {wanted} groups of {group_size} in {weight.shape[-2]} rows",
        )
        return table.repeat_interleave(group_size, -2)[..., : weight.shape[-2], :]

    factor = fitted(scale)
    values = weight.float() if offset is None else weight.float() + fitted(offset)
    return values * factor


def npu_weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
    weight_dtype: int | None = None,
) -> Tensor:
    """inner_precise chooses between kernels of one result: all here sum in float32."""
    name = "npu_weight_quant_batchmatmul"
    require(inner_precise in (0, 1), f"{name}: inner_precise must be 0 or 1, not {inner_precise}")
    check_types(name, weight_dtype=weight_dtype)
    require(
        antiquant_group_size >= 0 and antiquant_group_size % 32 == 0,
        f"{name}: antiquant_group_size {antiquant_group_size} is no multiple of 32",
        ErrCode.VALUE,
    )
    require(quant_scale is not None or quant_offset is None, f"{name}: quant_offset without quant_scale")
    values = unpack_weight(weight, x.shape[-1], name)
    numbers = antiquantised(values, antiquant_scale, antiquant_offset, antiquant_group_size, name)
    result = x.float() @ numbers
    if bias is not None:
        result = result + bias.float()
    if quant_scale is None:
        return result.to(x.dtype)
    shift = packed_offset(quant_scale) if quant_offset is None else quant_offset
    return static(result, scale_of(quant_scale), shift, target_of(torch.int8, name))


def npu_quant_conv2d(
    input: Tensor,
    weight: Tensor,
    scale: Tensor,
    strides: list[int] = [1, 1],  # noqa: B006 (the registry always passes it)
    pads: list[int] = [0, 0],  # noqa: B006
    dilations: list[int] = [1, 1],  # noqa: B006
    groups: int = 1,
    offset_x: int = 0,
    round_mode: str = "rint",
    output_dtype: int | None = None,
    bias: Tensor | None = None,
    offset: Tensor | None = None,
    input_dtype: int | None = None,
    weight_dtype: int | None = None,
) -> Tensor:
    """offset_x is what the border is filled with; the result is float16 unless output_dtype says otherwise."""
    name = "npu_quant_conv2d"
    check_rint(round_mode, name)
    check_types(name, input_dtype=input_dtype, weight_dtype=weight_dtype)
    output = torch.float16 if output_dtype is None else dtype_of(output_dtype, "output_dtype")
    require(offset is None or output == torch.int8, f"{name}: an offset is for an int8 result, not {output}")
    border = (pads[1], pads[1], pads[0], pads[0])
    padded = F.pad(input.double(), border, value=float(offset_x))
    sums = F.conv2d(padded, weight.double(), None, strides, 0, dilations, groups)
    if not input.is_floating_point():
        sums = sums.to(torch.int32)

    def channels(table: Tensor) -> Tensor:
        return table.reshape(-1, 1, 1) if table.numel() > 1 else table

    shift, added = (None if table is None else channels(table) for table in (offset, bias))
    return as_output(sums, channels(scale), shift, None, added, output)
