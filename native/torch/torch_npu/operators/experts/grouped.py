"""Matrix products for groups of rows or of the inner dimension, one weight each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import HALF, dtype_of, needed, require, unsupported
from torch_npu.operators.common.groups import GroupList, by_columns, by_rows, readable
from torch_npu.operators.quantisation.core import FLOAT8, product, unpack_weight
from torch_npu.operators.quantisation.matmul import antiquantised, as_output, check_types, scaled

_NAME = "npu_grouped_matmul"
_NONE, _ROWS, _INNER = -1, 0, 2
_ACTIVATIONS: dict[int, Callable[[Tensor], Tensor] | None] = {
    0: None,
    1: F.relu,
    2: lambda x: F.gelu(x, approximate="tanh"),
    3: F.gelu,
    4: lambda x: x * torch.sigmoid(1.702 * x),
    5: F.silu,
}


def pick(tables: list[Tensor] | None, number: int, stacked: bool) -> Tensor | None:
    """The table of one group: a slice of the only tensor where the weights are slices of one, from a list otherwise."""
    if not tables:
        return None
    return tables[0][number] if stacked else tables[number]


@dataclass(frozen=True)
class Options:
    """The tables of a grouped product; stacked where one tensor has them for all groups."""

    stacked: bool
    bias: list[Tensor] | None
    scale: list[Tensor] | None
    antiquant_scale: list[Tensor] | None
    antiquant_offset: list[Tensor] | None
    per_token_scale: list[Tensor] | None
    act_type: int
    output: torch.dtype | None

    def quantised(self, x: Tensor) -> bool:
        return not x.is_floating_point() or x.dtype in FLOAT8

    def single(self, x: Tensor, weight: Tensor, number: int, rows: slice) -> Tensor:
        """One product of the list; rows are those of its tokens in a shared table of scales."""
        bias = pick(self.bias, number, self.stacked)
        if self.quantised(x):
            pertoken = None
            if self.per_token_scale:
                whole = len(self.per_token_scale) == 1
                pertoken = self.per_token_scale[0].reshape(-1)[rows] if whole else self.per_token_scale[number]
            return self._integers(x, weight, pick(self.scale, number, self.stacked), pertoken, bias)
        if self.antiquant_scale:
            weight = self._numbers(unpack_weight(weight, x.shape[-1], _NAME), number).to(x.dtype)
        return self._finish(_biased(x, weight, bias), x.dtype)

    def _numbers(self, weight: Tensor, number: int) -> Tensor:
        """Tables with rows have one for each group of the inner dimension."""
        scale = needed(pick(self.antiquant_scale, number, self.stacked), f"{_NAME}: antiquant_scale")
        size = 0 if scale.dim() < 2 else weight.shape[-2] // scale.shape[-2]
        return antiquantised(weight, scale, pick(self.antiquant_offset, number, self.stacked), size, _NAME)

    def _integers(
        self, x: Tensor, weight: Tensor, scale: Tensor | None, pertoken: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        sums = product(x, unpack_weight(weight, x.shape[-1], _NAME))
        output = torch.int8 if self.output is None else self.output
        if output == torch.int32:
            return sums if bias is None else sums + bias
        factor = needed(
            scale, f"{_NAME}: a product of {x.dtype} needs scale to be {output}; output_dtype int32 needs none"
        )
        if output == torch.int8:
            require(self.act_type == 0, f"{_NAME}: an activation (act_type {self.act_type}) needs a float output_dtype")
            return as_output(sums, factor, None, pertoken, bias, output)
        return self._finish(scaled(sums, factor, pertoken, bias), output)

    def _finish(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        activation = _ACTIVATIONS[self.act_type]
        return (values if activation is None else activation(values)).to(self.output or dtype)


def _biased(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Half precision is rounded once, after the bias."""
    if bias is None:
        return x @ weight
    if x.dtype in HALF:
        return x.float() @ weight.float() + bias.float()
    return x @ weight + bias


def stacked(weight: list[Tensor]) -> bool:
    """Whether the weights of all groups are slices of one tensor."""
    return len(weight) == 1 and weight[0].dim() == 3


def matrices_of(weight: list[Tensor]) -> list[Tensor]:
    return list(weight[0].unbind(0)) if stacked(weight) else list(weight)


def _separate(x: list[Tensor], weight: list[Tensor], options: Options) -> list[Tensor]:
    """A product for each pair."""
    matrices = matrices_of(weight) if len(x) > 1 else list(weight)
    require(len(x) == len(matrices), f"{_NAME}: {len(x)} inputs and {len(matrices)} weights")
    start, results = 0, []
    for number, (rows, matrix) in enumerate(zip(x, matrices, strict=True)):
        results.append(options.single(rows, matrix, number, slice(start, start + rows.shape[0])))
        start += rows.shape[0]
    return results


def _split_rows(x: Tensor, weight: list[Tensor], groups: GroupList, options: Options, together: bool) -> list[Tensor]:
    matrices = matrices_of(weight)

    def rows_of(group: int, start: int, end: int) -> Tensor:
        return options.single(x[start:end], matrices[group], group, slice(start, end))

    if together:
        return [by_rows(x.shape[0], groups, rows_of)]
    if not readable(groups.values):
        raise unsupported(f"{_NAME}: a list of outputs in a graph, whose sizes group_list decides; split_item 2 or 3")
    return [rows_of(*segment) for segment in groups.segments(x.shape[0])]


def _split_inner(x: list[Tensor], weight: list[Tensor], groups: GroupList | None, options: Options) -> list[Tensor]:
    if options.quantised(x[0]) or options.bias or options.antiquant_scale:
        raise unsupported(f"{_NAME}: quantised factors or a bias with a split inner dimension (group_type 2)")
    if groups is None or len(x) > 1 or len(weight) > 1:
        return _separate(x, weight, options)
    return [options._finish(product, x[0].dtype) for product in by_columns(x[0], weight[0], groups)]


def _grouped(
    x: list[Tensor],
    weight: list[Tensor],
    options: Options,
    group_list: Tensor | list[int] | None,
    split_item: int,
    group_type: int | None,
    group_list_type: int,
) -> list[Tensor]:
    require(split_item in (0, 1, 2, 3), f"{_NAME}: split_item must be from 0 to 3, not {split_item}")
    kind = group_type if group_type is not None else (_NONE if group_list is None else _ROWS)
    require(kind in (_NONE, _ROWS, _INNER), f"{_NAME}: group_type must be -1, 0 or 2, not {kind}")
    require(options.act_type in _ACTIVATIONS, f"{_NAME}: act_type must be from 0 to 5, not {options.act_type}")
    together = split_item in (2, 3)
    groups = None
    if group_list is not None and kind != _NONE:
        count = len(group_list) if len(weight) == 1 and weight[0].dim() == 2 else len(matrices_of(weight))
        groups = GroupList(group_list, group_list_type, count, _NAME)
    if kind == _INNER:
        products = _split_inner(x, weight, groups, options)
        return [torch.stack(products)] if together else products
    if kind == _ROWS and len(x) == 1:
        row_groups = needed(groups, f"{_NAME}: group_type 0 with one input needs group_list")
        return _split_rows(x[0], weight, row_groups, options, together)
    products = _separate(x, weight, options)
    return [torch.cat(products)] if together else products


def npu_grouped_matmul(
    x: list[Tensor],
    weight: list[Tensor],
    *,
    bias: list[Tensor] | None = None,
    scale: list[Tensor] | None = None,
    offset: list[Tensor] | None = None,
    antiquant_scale: list[Tensor] | None = None,
    antiquant_offset: list[Tensor] | None = None,
    per_token_scale: list[Tensor] | None = None,
    group_list: Tensor | list[int] | None = None,
    activation_input: list[Tensor] | None = None,
    activation_quant_scale: list[Tensor] | None = None,
    activation_quant_offset: list[Tensor] | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    group_list_type: int | None = 0,
    act_type: int | None = 0,
    tuning_config: list[int] | None = None,  # a hint about sizes to a kernel that tiles
    output_dtype: int | None = None,
    x_dtype: int | None = None,
    weight_dtype: int | None = None,
    scale_dtype: int | None = None,
    per_token_scale_dtype: int | None = None,
) -> list[Tensor]:
    """Without group_type a group_list splits the rows. Rows past the last group are zero."""
    check_types(
        _NAME, x_dtype=x_dtype, weight_dtype=weight_dtype, scale_dtype=scale_dtype, per_token=per_token_scale_dtype
    )
    if offset or activation_input or activation_quant_scale or activation_quant_offset:
        raise unsupported(f"{_NAME}: offset and activation_*; act_type is there")
    output = None if output_dtype is None else dtype_of(output_dtype, "output_dtype")
    options = Options(
        stacked(weight), bias, scale, antiquant_scale, antiquant_offset, per_token_scale, act_type or 0, output
    )
    return _grouped(x, weight, options, group_list, split_item or 0, group_type, group_list_type or 0)


def npu_grouped_matmul__List(x: list[Tensor], weight: list[Tensor], **options: Any) -> list[Tensor]:
    """group_list as numbers."""
    return npu_grouped_matmul(x, weight, **options)
