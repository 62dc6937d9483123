"""The comparison of `assertEqual` in the style of torch 1.5: one absolute precision, infinities only where allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Rule:
    """How exact a comparison is."""

    prec: float
    allow_inf: bool = False
    exact_dtype: bool = False

    def difference(self, x: Any, y: Any) -> str | None:
        """Why x and y differ, None when they do not."""
        x, y = (torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in (x, y))
        x, y = (value.item() if isinstance(value, np.generic) else value for value in (x, y))
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            return self._tensors(x, y)
        if isinstance(x, torch.Tensor) and isinstance(y, Number):
            return self._tensor_and_number(x, y)
        if isinstance(y, torch.Tensor) and isinstance(x, Number):
            return self._tensor_and_number(y, x)
        if isinstance(x, Number) and isinstance(y, Number):
            return self._numbers(x, y)
        if isinstance(x, Mapping) and isinstance(y, Mapping):
            return self._mappings(x, y)
        if _is_list_like(x) and _is_list_like(y):
            return self._lists(list(x), list(y))
        return None if x == y else f"{x!r} and {y!r}"

    def _tensor_and_number(self, tensor: torch.Tensor, number: Any) -> str | None:
        if tensor.numel() != 1:
            return f"a tensor of {tensor.numel()} elements and the number {number}"
        return self._numbers(tensor.item(), number)

    def _numbers(self, x: Any, y: Any) -> str | None:
        if isinstance(x, bool) or isinstance(y, bool) or isinstance(x, complex) or isinstance(y, complex):
            return None if x == y or abs(x - y) <= self.prec else f"{x} and {y}"
        if math.isnan(x) or math.isnan(y):
            return None if math.isnan(x) and math.isnan(y) else f"{x} and {y}"
        if math.isinf(x) or math.isinf(y):
            return self._infinite(x == y, f"{x} and {y}")
        return None if abs(x - y) <= self.prec else f"{x} and {y} differ by more than {self.prec}"

    def _infinite(self, same: bool, what: str) -> str | None:
        if not self.allow_inf:
            return f"expected finite values, got {what} (allow_inf=True compares infinities)"
        return None if same else what

    def _mappings(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> str | None:
        if x.keys() != y.keys():
            return f"keys differ: {list(x)} and {list(y)}"
        for key in x:
            reason = self.difference(x[key], y[key])
            if reason is not None:
                return f"key {key!r}: {reason}"
        return None

    def _lists(self, x: list[Any], y: list[Any]) -> str | None:
        if len(x) != len(y):
            return f"lengths differ: {len(x)} and {len(y)}"
        for index, (left, right) in enumerate(zip(x, y, strict=True)):
            reason = self.difference(left, right)
            if reason is not None:
                return f"element {index}: {reason}"
        return None

    def _tensors(self, x: torch.Tensor, y: torch.Tensor) -> str | None:
        if x.size() != y.size():
            return f"shapes differ: {tuple(x.shape)} and {tuple(y.shape)}"
        if self.exact_dtype and x.dtype != y.dtype:
            return f"dtypes differ: {x.dtype} and {y.dtype}"
        if x.is_sparse != y.is_sparse:
            return f"layouts differ: {x.layout} and {y.layout}"
        if x.is_sparse:
            x, y = x.coalesce(), y.coalesce()
            return self.difference((x._indices(), x._values()), (y._indices(), y._values()))
        if x.is_quantized or y.is_quantized:
            return self._quantized(x, y)
        return self._elements(x.detach().cpu(), y.detach().cpu()) if x.numel() else None

    def _quantized(self, x: torch.Tensor, y: torch.Tensor) -> str | None:
        if x.is_quantized != y.is_quantized or x.qscheme() != y.qscheme() or x.dtype != y.dtype:
            return "only one is quantized, or in another way"
        return self.difference(x.dequantize(), y.dequantize())

    def _elements(self, x: torch.Tensor, y: torch.Tensor) -> str | None:
        wide = torch.promote_types(x.dtype, y.dtype)
        if not (wide.is_floating_point or wide.is_complex):
            wide = torch.int64  # differences of small and unsigned types wrap around
        x, y = x.to(wide), y.to(wide)
        nan = x.isnan()
        if not torch.equal(nan, y.isnan()):
            return f"NaN at different places: {int(nan.sum())} and {int(y.isnan().sum())} of {x.numel()} elements"
        infinite = (x.isinf() | y.isinf()) & ~nan
        if infinite.any():
            reason = self._infinite(
                torch.equal(x[infinite], y[infinite]), f"{int(infinite.sum())} elements that are infinite"
            )
            if reason is not None:
                return reason
        largest = (x - y).abs().masked_fill(nan | infinite, 0).max().item()
        return None if largest <= self.prec else f"largest difference {largest}, allowed is {self.prec}"


def _is_list_like(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, set, frozenset, Mapping, torch.Tensor))
