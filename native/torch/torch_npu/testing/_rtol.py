"""The comparison of `assertRtolEqual`: a result passes when few enough elements are off, absolutely or relatively."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch

_TINY = float(np.finfo(np.float32).tiny)  # keeps 0/0 away from the relative error
_NUMBERS = (Number, np.generic)


def rtol_difference(x: Any, y: Any, prec: float, prec16: float, auto_trans_dtype: bool) -> str | None:
    """Why x and y differ, None when they do not."""
    if isinstance(x, _NUMBERS) or isinstance(y, _NUMBERS):
        return _numbers(x, y, prec, prec16)
    if _is_array(x) and _is_array(y):
        return _arrays(_on_host(x), _on_host(y), prec, prec16, auto_trans_dtype)
    if _is_sequence(x) and _is_sequence(y):
        return _sequences(x, y, prec, prec16, auto_trans_dtype)
    raise TypeError(
        f"assertRtolEqual compares numpy arrays, tensors, numbers and sequences of them, not {type(x).__name__} with {type(y).__name__}"
    )


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, torch.Tensor))


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _on_host(value: np.ndarray | torch.Tensor) -> np.ndarray | torch.Tensor:
    """A numpy array; bfloat16, which numpy lacks, stays a tensor."""
    if isinstance(value, np.ndarray):
        return value
    value = value.detach().cpu().resolve_conj().resolve_neg()
    return value if value.dtype is torch.bfloat16 else value.numpy()


def _sequences(x: Sequence[Any], y: Sequence[Any], prec: float, prec16: float, auto_trans_dtype: bool) -> str | None:
    if len(x) != len(y):
        return f"lengths differ: {len(x)} and {len(y)}"
    for index, (left, right) in enumerate(zip(x, y, strict=True)):
        reason = rtol_difference(left, right, prec, prec16, auto_trans_dtype)
        if reason is not None:
            return f"element {index}: {reason}"
    return None


def _numbers(x: Any, y: Any, prec: float, prec16: float) -> str | None:
    """Two numbers, or one and a tensor of one element: 1 and 1.0 are the same number."""
    values = []
    for value in (x, y):
        host = _on_host(value) if _is_array(value) else np.asarray(value)
        size = host.numel() if isinstance(host, torch.Tensor) else host.size
        if size != 1:
            return f"a number and {size} elements cannot be equal"
        values.append(np.asarray(host.item()))
    half = any(getattr(value, "dtype", None) in (torch.float16, torch.bfloat16, np.float16) for value in (x, y))
    return _elements(values[0], values[1], prec16 if half else prec)


def _arrays(x: Any, y: Any, prec: float, prec16: float, auto_trans_dtype: bool) -> str | None:
    if tuple(x.shape) != tuple(y.shape):
        return f"shapes differ: {tuple(x.shape)} and {tuple(y.shape)}"
    half = any(value.dtype in (np.float16, torch.float16) for value in (x, y))
    if x.dtype != y.dtype:
        if not auto_trans_dtype:
            return f"dtypes differ: {x.dtype} and {y.dtype} (auto_trans_dtype=True compares them)"
        x = _as_dtype_of(y, x)
    if isinstance(x, torch.Tensor):
        return _bfloat16(x, y, prec16)
    return _elements(x, y, prec16 if half else prec)


def _as_dtype_of(model: Any, value: Any) -> Any:
    if isinstance(model, torch.Tensor):
        return torch.as_tensor(value).to(model.dtype)
    return (value.float().numpy() if isinstance(value, torch.Tensor) else value).astype(model.dtype)


def _bfloat16(x: torch.Tensor, y: torch.Tensor, prec16: float) -> str | None:
    wide_x, wide_y = x.float(), y.float()
    if not torch.equal(wide_x.isnan(), wide_y.isnan()):
        return "NaN at different places"
    if torch.allclose(wide_x, wide_y, rtol=prec16, atol=prec16, equal_nan=True):
        return None
    return f"not all close with rtol = atol = {prec16}: largest difference {(wide_x - wide_y).abs().nan_to_num(0).max().item()}"


def _elements(x: np.ndarray, y: np.ndarray, prec: float) -> str | None:
    """Both checks may leave size * prec elements off; only when both have more is it a difference."""
    wide = np.complex128 if np.iscomplexobj(x) or np.iscomplexobj(y) else np.float64
    same = x == y
    x, y = x.astype(wide), y.astype(wide)
    nan = np.isnan(x)
    if not np.array_equal(nan, np.isnan(y)):
        return f"NaN at different places: {int(nan.sum())} and {int(np.isnan(y).sum())} of {x.size} elements"
    with np.errstate(invalid="ignore", over="ignore"):
        absolute = np.where(same | nan, 0.0, np.abs(x - y))
        relative = np.where(same | nan, 0.0, absolute / (np.maximum(np.abs(x), np.abs(y)) + _TINY))
    off = np.count_nonzero(~(absolute <= prec)), np.count_nonzero(~(relative <= prec))
    allowed = x.size * prec
    if min(off) <= allowed:
        return None
    return (
        f"{off[0]} of {x.size} elements differ by more than {prec}, {off[1]} by more than {prec} of their size, allowed are {allowed:g}; "
        f"largest difference {absolute.max():g} at {tuple(int(i) for i in np.unravel_index(np.argmax(absolute), x.shape))}"
    )
