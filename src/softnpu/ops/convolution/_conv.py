"""What convolutions share: the filter in ONNX's order, and the window attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, filter_format, first, format_of, mode_of, padding, spatial

_ORDERS = {"HWCN": "NCHW", "DHWCN": "NCDHW"}


def filter_of(b: Builder, n: Site, index: int, default: str) -> tuple[str, list[int]]:
    """The filter as N, C, spatial dims, and its spatial size; the attribute `filter_format` names the order it has."""
    layout = filter_format(n, index, default)
    wanted = "NC" + "".join(letter for letter in layout if letter not in "NC")
    if sorted(layout) != sorted(default) or wanted not in _ORDERS.values():
        raise OpError(
            f"{n.type} {n.name!r} has the filter format {layout!r}; use {default} or {_ORDERS.get(default, default)}"
        )
    if n.rank(index) != len(layout):
        raise OpError(f"{n.type} {n.name!r} has a filter of {n.rank(index)} dims; {layout} needs {len(layout)}")
    size = [n.shape(index)[layout.index(letter)] for letter in wanted[2:]]
    if min(size) < 1:
        raise OpError(
            f"{n.type} {n.name!r} has a filter of shape {list(n.shape(index))}; its size must be known and positive"
        )
    perm = [layout.index(letter) for letter in wanted]
    name = n.input(index)
    return (name if layout == wanted else b.transpose(name, perm)), size


def window(n: Site, layout: str, kernel: Sequence[int], x: int = 0) -> dict[str, Any]:
    """The ONNX attributes of a convolution's window."""
    strides = spatial(n, n.attr("strides") or 1, layout, "strides")
    dilations = spatial(n, n.attr("dilations") or 1, layout, "dilations")
    if min(*strides, *dilations) < 1:
        raise OpError(f"{n.type} {n.name!r} has strides {strides} and dilations {dilations}; all must be positive")
    pads = padding(n, layout, kernel, strides, dilations, mode_of(n), x)
    return {**pads, "strides": strides, "dilations": dilations, "kernel_shape": list(kernel)}


def convolve(b: Builder, n: Site, layout: str, weight: str, groups: int, attrs: dict[str, Any]) -> str:
    """The convolution itself, with the channel moved to the second place and back."""
    if n.has(3) or n.attr("offset_x", 0):
        raise OpError(
            f"{n.type} {n.name!r} has an offset, which only quantised convolutions use; leave offset_w and offset_x out"
        )
    bias = n.inputs[2] if n.has(2) else None
    return back(b, str(b.op("Conv", first(b, n.input(0), layout), weight, bias, group=groups, **attrs)), layout)


__all__ = ["convolve", "filter_of", "format_of", "window"]
