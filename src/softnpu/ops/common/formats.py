"""Axes, data formats and windows: what operators over images and volumes share.

A data format is a word such as NHWC. ONNX wants the channel second; `first` and `back` move it there and back, and the
engines take pairs of them out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from softnpu.ops.common.builder import Builder, OpError, Site

_FILTERS = {0: "NCHW", 1: "NHWC", 16: "HWCN", 27: "NDHWC", 30: "NCDHW", 31: "DHWCN"}
_FORMATS = {0: "NCHW", 1: "NHWC", 27: "NDHWC", 30: "NCDHW"}  # aclFormat


def axes_of(n: Site, axes: Iterable[int], rank: int) -> list[int]:
    """Axes counted from the front, each once and in order; raises for those that do not exist."""
    positive = set()
    for axis in axes:
        if not -rank <= axis < rank:
            raise OpError(
                f"{n.type} {n.name!r} has the axis {axis} on a tensor of {rank} dims; it must lie in [{-rank}, {rank - 1}]"
            )
        positive.add(axis % rank)
    return sorted(positive)


def format_of(n: Site, default: str) -> str:
    """The data format: the attribute, or what the first input says, or the default."""
    layout = n.attr("data_format")
    if isinstance(layout, bytes):
        layout = layout.decode()
    if not layout and n.input_formats:
        layout = _FORMATS.get(n.input_formats[0], "")
        if len(layout) != len(default):
            layout = ""
    layout = layout or default
    if sorted(layout) != sorted(default):
        raise OpError(f"{n.type} {n.name!r} has the data format {layout!r}; use an order of the letters of {default}")
    return str(layout)


def filter_format(n: Site, index: int, default: str) -> str:
    """The order of a filter: the attribute, or what its description says, or the default."""
    layout = n.attr("filter_format")
    if not layout and index < len(n.input_formats):
        layout = _FILTERS.get(n.input_formats[index], "")
        if len(layout) != len(default):
            layout = ""
    return str(layout or default)


def channels_last(n: Site) -> str:
    """The data format of an operator over any number of dims: the attribute, what the description says, or NHWC."""
    return str(n.attr("data_format") or (_FORMATS.get(n.input_formats[0], "") if n.input_formats else "") or "NHWC")


def first(b: Builder, x: str, layout: str) -> str:
    """Move the channel to the second place."""
    return x if layout[1] == "C" else b.transpose(x, [0, len(layout) - 1, *range(1, len(layout) - 1)])


def back(b: Builder, x: str, layout: str) -> str:
    """Undo `first`."""
    return x if layout[1] == "C" else b.transpose(x, [0, *range(2, len(layout)), 1])


def spatial(n: Site, values: Any, layout: str, what: str) -> list[int]:
    """The numbers that belong to the spatial dims out of one per dim of the format, one per spatial dim, or one for all."""
    numbers = [int(values)] if isinstance(values, int) else [int(number) for number in values]
    dims = len(layout) - 2
    if len(numbers) == len(layout):
        others = [number for number, letter in zip(numbers, layout, strict=True) if letter in "NC"]
        if any(number != 1 for number in others):
            raise OpError(f"{n.type} {n.name!r} has the {what} {numbers}; only 1 is supported for batch and channel")
        return [number for number, letter in zip(numbers, layout, strict=True) if letter not in "NC"]
    if len(numbers) == 1:
        return numbers * dims
    if len(numbers) != dims:
        raise OpError(f"{n.type} {n.name!r} has {len(numbers)} {what}; give {len(layout)}, {dims} or 1")
    return numbers


def spatial_dims(n: Site, index: int, layout: str) -> list[int]:
    """The sizes of the spatial dims of an input; -1 where not known."""
    if n.rank(index) != len(layout):
        raise OpError(f"{n.type} {n.name!r} has an input of {n.rank(index)} dims; {layout} needs {len(layout)}")
    return [dim for dim, letter in zip(n.shape(index), layout, strict=True) if letter not in "NC"]


def same_pads(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Padding before and after that makes the result ceil(size / stride) long; the odd one goes after."""
    reach = (kernel - 1) * dilation + 1
    total = max((-(-size // stride) - 1) * stride + reach - size, 0)
    return total // 2, total - total // 2


def padding(
    n: Site, layout: str, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], mode: str, x: int = 0
) -> dict[str, Any]:
    """The ONNX attributes `pads` or `auto_pad` for a padding mode SAME, VALID or CALCULATED (the attribute `pads`)."""
    mode = mode.upper()
    pads = [int(pad) for pad in n.attr("pads", ())]
    if mode == "VALID":
        return {"pads": [0] * (2 * len(kernel))}
    if mode == "SAME":
        sizes = spatial_dims(n, x, layout)
        if any(size < 0 for size in sizes):
            return {"auto_pad": "SAME_UPPER"}
        pairs = [same_pads(*four) for four in zip(sizes, kernel, strides, dilations, strict=True)]
        return {"pads": [pair[0] for pair in pairs] + [pair[1] for pair in pairs]}
    if mode not in ("CALCULATED", "EXPLICIT"):
        raise OpError(f"{n.type} {n.name!r} has the padding {mode!r}; use SAME, VALID or CALCULATED")
    pads = pads or [0] * (2 * len(kernel))
    if len(pads) != 2 * len(kernel) or any(pad < 0 for pad in pads):
        raise OpError(f"{n.type} {n.name!r} has the pads {pads}; give {2 * len(kernel)} numbers that are not negative")
    return {"pads": pads[0::2] + pads[1::2]}


def mode_of(n: Site) -> str:
    """The padding mode of a convolution, whose attribute `padding` is optional beside `pads`."""
    mode = n.attr("padding") or "CALCULATED"
    pads = n.attr("pads")
    if pads and all(int(pad) == -1 for pad in pads):
        return "SAME"
    if pads and any(int(pad) for pad in pads):
        return "CALCULATED"
    return mode.decode() if isinstance(mode, bytes) else str(mode)
