"""Attributes of GE messages: Python values to AttrDef and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softnpu.base.dtypes import FORMAT_NAMES, element_size, to_ge
from softnpu.graph.ir import Constant

_LIST_KINDS = {"s": 1, "i": 2, "f": 3, "b": 4, "bt": 5, "td": 6, "t": 7, "g": 8, "na": 9, "dt": 10}


def to_attr(value: Any) -> dict[str, Any] | None:
    """A Python value as an AttrDef; None for what has no form there."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": value.encode()}
    if isinstance(value, bytes | memoryview):
        return {"s": bytes(value)}
    if isinstance(value, Constant):
        return {"t": {"desc": tensor_desc(value.dtype, value.shape, 2), "data": value.data}}
    if isinstance(value, dict):
        inner = {
            key: attr for key, item in value.items() if isinstance(key, str) and (attr := to_attr(item)) is not None
        }
        return {"func": {"name": "", "attr": inner}}
    if isinstance(value, list | tuple):
        return list_attr(list(value))
    return None


def list_attr(values: list[Any]) -> dict[str, Any] | None:
    if not values:
        return {"list": {"val_type": 0}}
    first = values[0]
    if isinstance(first, list | tuple):
        return {"list_list_int": {"list_list_i": [{"list_i": [int(item) for item in inner]} for inner in values]}}
    if any(isinstance(item, float) for item in values):
        return {"list": {"f": [float(item) for item in values], "val_type": 3}}
    if isinstance(first, bool):
        return {"list": {"b": values, "val_type": 4}}
    if isinstance(first, int):
        return {"list": {"i": values, "val_type": 2}}
    if isinstance(first, str | bytes | memoryview):
        return {
            "list": {"s": [item.encode() if isinstance(item, str) else bytes(item) for item in values], "val_type": 1}
        }
    return None


def attr_value(attr: dict[str, Any]) -> Any:
    """The Python value of an AttrDef."""
    for key in ("s", "i", "f", "b", "bt", "dt"):
        if key in attr:
            return str(attr[key], "utf-8", "replace") if key in ("s", "bt") else attr[key]
    if "list" in attr:
        kind = next((key for key in _LIST_KINDS if key in attr["list"]), "")
        values = attr["list"].get(kind, [])
        return [str(item, "utf-8", "replace") for item in values] if kind in ("s", "bt") else values
    if "list_list_int" in attr:
        return [item.get("list_i", []) for item in attr["list_list_int"].get("list_list_i", ())]
    if "func" in attr:
        return {key: attr_value(item) for key, item in attr["func"].get("attr", {}).items()}
    return None


def tensor_desc(dtype: int, shape: Sequence[int] | None, format: int) -> dict[str, Any]:
    layout = FORMAT_NAMES.get(format, "ND")
    dims = list(shape) if shape is not None else [-2]
    return {
        "dtype": to_ge(dtype) if to_ge(dtype) < 32 else 0,
        "shape": {"dim": dims},
        "layout": layout,
        "attr": {"origin_format": {"s": layout.encode()}, "origin_shape": {"list": {"i": dims, "val_type": 2}}},
        "size": _size(dtype, shape),
        "device_type": "NPU",
    }


def _size(dtype: int, shape: Sequence[int] | None) -> int:
    if shape is None or any(dim < 0 for dim in shape):
        return 0
    count = 1
    for dim in shape:
        count *= dim
    return count * element_size(dtype) if dtype < 1000 else count
