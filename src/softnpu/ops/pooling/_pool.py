"""Pooling bodies of every rank."""

from __future__ import annotations

from typing import Any

from softnpu.ops.common.bodies import through
from softnpu.ops.common.builder import Builder, OpError, Site
from softnpu.ops.common.formats import back, first, format_of, padding, spatial
from softnpu.ops.common.numbers import DOUBLES


def pool(b: Builder, n: Site, layout: str, mode: str, include_pad: bool | None = None) -> str:
    """Max or average pooling (`include_pad` not None) over the data format `layout` with a padding mode."""
    kind = "MaxPool" if include_pad is None else "AveragePool"
    if n.attr("global_pooling", False):
        return _shaped(b, n, layout, kind, lambda x: str(b.op(f"Global{kind}", x)))
    kernel = spatial(n, n.need("ksize"), layout, "ksize")
    strides = spatial(n, n.need("strides"), layout, "strides")
    dilations = spatial(n, n.attr("dilation") or 1, layout, "dilation")
    if min(*kernel, *strides, *dilations) < 1:
        raise OpError(
            f"{n.type} {n.name!r} has ksize {kernel}, strides {strides}, dilation {dilations}; all must be positive"
        )
    attrs: dict[str, Any] = padding(n, layout, kernel, strides, dilations, mode)
    attrs.update(kernel_shape=kernel, strides=strides)
    if any(dilation != 1 for dilation in dilations):
        attrs["dilations"] = dilations
    if n.attr("ceil_mode", False):
        attrs["ceil_mode"] = 1
    if include_pad is not None:
        attrs["count_include_pad"] = int(include_pad)
    return _shaped(b, n, layout, kind, lambda x: str(b.op(kind, x, **attrs)))


def _shaped(b: Builder, n: Site, layout: str, kind: str, body: Any) -> str:
    def whole(x: str) -> str:
        return back(b, body(first(b, x, layout)), layout)

    return through(b, n, 1, DOUBLES if kind == "AveragePool" else {}, whole)


def padding_word(n: Site, name: str, default: str) -> str:
    """A padding mode that may have come as bytes."""
    mode = n.attr(name, default)
    return mode.decode() if isinstance(mode, bytes) else str(mode)


def flat(b: Builder, n: Site, average: bool) -> str:
    """MaxPool and AvgPool as TensorFlow has them: NHWC by default, SAME or VALID, padding never counts."""
    mode = padding_word(n, "padding", "VALID")
    return pool(b, n, format_of(n, "NHWC"), mode, include_pad=False if average else None)


def calculated(b: Builder, n: Site, average: bool) -> str:
    """MaxPoolV3 and AvgPoolV2: NCHW by default, pads [top, bottom, left, right]."""
    mode = padding_word(n, "padding_mode", "CALCULATED")
    include = not n.attr("exclusive", True) if average else None
    return pool(b, n, format_of(n, "NCHW"), mode, include)
