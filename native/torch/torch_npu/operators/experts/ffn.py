"""The feed-forward block, for one expert or for several that share the rows among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_npu.operators.common.arguments import ErrCode, halves, require, wide
from torch_npu.operators.common.groups import COUNTS, ENDS, GroupList, by_rows
from torch_npu.operators.quantisation.core import product, static, target_of, unpack_weight
from torch_npu.operators.quantisation.matmul import antiquantised, scaled

_PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
}
_GATED: dict[str, Callable[[Tensor], Tensor]] = {"geglu": F.gelu, "swiglu": F.silu, "reglu": F.relu}


def _activated(x: Tensor, activation: str) -> Tensor:
    """A gated unit activates its first half."""
    if activation in _PLAIN:
        return _PLAIN[activation](x)
    left, right = halves(x, -1, "npu_ffn")
    return _GATED[activation](left) * right


@overload
def _slice(table: Tensor, expert: int | None, dims: int = 1) -> Tensor: ...
@overload
def _slice(table: Tensor | None, expert: int | None, dims: int = 1) -> Tensor | None: ...
def _slice(table: Tensor | None, expert: int | None, dims: int = 1) -> Tensor | None:
    return table if table is None or expert is None or table.dim() <= dims else table[expert]


@dataclass(frozen=True)
class _Layer:
    """One of the two products and its tables."""

    weight: Tensor
    bias: Tensor | None
    scale: Tensor | None
    antiquant_scale: Tensor | None
    antiquant_offset: Tensor | None

    def product(self, rows: Tensor, expert: int | None) -> Tensor:
        """In float32 for halves; integers with their scale, float rows with the weight made float."""
        bias, scale = _slice(self.bias, expert), _slice(self.scale, expert)
        matrix = unpack_weight(_slice(self.weight, expert, 2), rows.shape[-1], "npu_ffn")
        if not rows.is_floating_point():
            return scaled(product(rows, matrix), scale, None, bias)
        if self.antiquant_scale is not None:
            factor, shift = _slice(self.antiquant_scale, expert), _slice(self.antiquant_offset, expert)
            size = 0 if factor.dim() < 2 else matrix.shape[0] // factor.shape[0]
            matrix = antiquantised(matrix, factor, shift, size, "npu_ffn")
        result = wide(rows) @ wide(matrix)
        return result if bias is None else result + wide(bias)


def npu_ffn(
    x: Tensor, weight1: Tensor, weight2: Tensor, activation: str, *, expert_tokens: list[int] | None = None,
    expert_tokens_index: list[int] | None = None, bias1: Tensor | None = None, bias2: Tensor | None = None,
    scale: Tensor | None = None, offset: Tensor | None = None, deq_scale1: Tensor | None = None,
    deq_scale2: Tensor | None = None, antiquant_scale1: Tensor | None = None, antiquant_scale2: Tensor | None = None,
    antiquant_offset1: Tensor | None = None, antiquant_offset2: Tensor | None = None, inner_precise: int | None = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:  # fmt: skip
    """expert_tokens counts the rows of each expert, expert_tokens_index says where they end. inner_precise chooses between kernels of one
    result: all here sum in float32. Quantised: int8 in and out of the first product's result, `scale` and `offset` between the two."""
    chosen, integers = activation.lower(), not x.is_floating_point()
    require(chosen in _PLAIN or chosen in _GATED, f"npu_ffn: activation {activation!r} is not known")
    require(inner_precise in (None, 0, 1), f"npu_ffn: inner_precise must be 0 or 1, not {inner_precise}")
    require(
        not integers or (scale is not None and deq_scale1 is not None and deq_scale2 is not None),
        f"npu_ffn: an input of {x.dtype} needs scale, deq_scale1 and deq_scale2",
        ErrCode.TYPE,
    )
    first = _Layer(weight1, bias1, deq_scale1, antiquant_scale1, antiquant_offset1)
    second = _Layer(weight2, bias2, deq_scale2, antiquant_scale2, antiquant_offset2)

    def block(rows: Tensor, expert: int | None) -> Tensor:
        middle = _activated(first.product(rows, expert), chosen)
        if integers:
            assert scale is not None
            factor, shift = _number(scale, expert, weight1), _number(offset, expert, weight1)
            middle = static(middle, factor, shift, target_of(torch.int8, "npu_ffn"))
        return second.product(middle if integers else middle.to(x.dtype), expert)

    flat = x.reshape(-1, x.shape[-1])
    groups = _groups(expert_tokens, expert_tokens_index, weight1)
    if groups is None:
        result = block(flat, None)
    else:
        result = by_rows(flat.shape[0], groups, lambda expert, start, end: block(flat[start:end], expert))
    kind = output_dtype or (torch.float16 if integers else x.dtype)
    return result.to(kind).reshape(*x.shape[:-1], -1)


def _groups(counts: list[int] | None, ends: list[int] | None, weight: Tensor) -> GroupList | None:
    require(
        counts is None or ends is None,
        "npu_ffn: give expert_tokens (counts) or expert_tokens_index (ends), not both",
    )
    tokens = ends if counts is None else counts
    if tokens is None:
        require(weight.dim() == 2, f"npu_ffn: weights of {weight.dim()} dimensions need expert_tokens")
        return None
    return GroupList(list(tokens), ENDS if counts is None else COUNTS, weight.shape[0], "npu_ffn")


@overload
def _number(table: Tensor, expert: int | None, weight: Tensor) -> Tensor: ...
@overload
def _number(table: Tensor | None, expert: int | None, weight: Tensor) -> Tensor | None: ...
def _number(table: Tensor | None, expert: int | None, weight: Tensor) -> Tensor | None:
    """What belongs to one expert where there is something for each."""
    return table if table is None or expert is None or table.shape[0] != weight.shape[0] else table[expert]
