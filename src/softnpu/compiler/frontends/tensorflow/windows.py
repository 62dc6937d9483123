"""Convolutions and pooling: TensorFlow's padding words become CANN's pads."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.frontends.tensorflow.call import Call
from softnpu.compiler.frontends.tensorflow.row import Row, mapped
from softnpu.graph.ir import Shape, Value
from softnpu.ops.common.formats import same_pads

_FILTERS = {4: "HWCN", 5: "DHWCN"}


def _format(call: Call, dims: int) -> str:
    layout = str(call.attr("data_format", "s", "NHWC" if dims == 4 else "NDHWC"))
    if sorted(layout) != sorted("NHWC" if dims == 4 else "NDHWC"):
        raise call.wrong(f"has the data format [{layout}]")
    return layout


def _spatial(numbers: list[int] | Shape, layout: str) -> list[int]:
    return [number for number, letter in zip(numbers, layout, strict=True) if letter not in "NC"]


def _list(call: Call, name: str, dims: int, default: list[int] | None) -> list[int]:
    numbers = list(call.attr(name, "ints", default))
    if len(numbers) != dims or min(numbers) < 1:
        raise call.wrong(f"has {name} {numbers}; {dims} positive numbers are needed")
    return numbers


def _pads(
    call: Call, layout: str, sizes: list[int] | None, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """(before, after) of every spatial dim in one list; -1 everywhere where SAME depends on a size that is not known."""
    mode = str(call.attr("padding", "s", None))
    if mode == "VALID":
        return [0] * (2 * len(kernel))
    if mode == "EXPLICIT":
        paddings = list(call.attr("explicit_paddings", "ints", None))
        if len(paddings) != 2 * len(layout):
            raise call.wrong(f"has explicit_paddings {paddings}; {2 * len(layout)} numbers are needed")
        pairs = zip(paddings[0::2], paddings[1::2], layout, strict=True)
        return [number for low, high, letter in pairs if letter not in "NC" for number in (low, high)]
    if mode != "SAME":
        raise call.wrong(f"has the padding [{mode}]; SAME, VALID and EXPLICIT are possible")
    if sizes is None or min(sizes) < 0:
        return [-1] * (2 * len(kernel))
    pads: list[int] = []
    for four in zip(sizes, kernel, strides, dilations, strict=True):
        pads += same_pads(*four)
    return pads


def _convolution(dims: int, source: int, depthwise: bool = False) -> Any:
    """The attributes of a convolution whose data is the input `source`."""

    def attrs(call: Call) -> dict[str, Any]:
        layout = _format(call, dims)
        strides = _list(call, "strides", dims, None)
        dilations = _list(call, "dilations", dims, [1] * dims)
        kernel, channels = _filter(call, dims)
        x = call.input(source).shape
        if x is not None and len(x) != dims:
            raise call.wrong(f"has data of {len(x)} dims; {dims} are needed")
        sizes = _spatial(x, layout) if x is not None else None
        pads = _pads(call, layout, sizes, kernel, _spatial(strides, layout), _spatial(dilations, layout))
        attributes: dict[str, Any] = {
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "data_format": layout,
            "filter_format": _FILTERS[dims],
        }
        if not depthwise:
            attributes["groups"] = _groups(call, x, layout, channels)
        return attributes

    return attrs


def _filter(call: Call, dims: int) -> tuple[list[int], int]:
    shape = call.input(1).shape
    if shape is None or len(shape) != dims or min(shape) < 1:
        raise call.wrong(
            f"has a filter of shape {None if shape is None else list(shape)}; {dims} known dims are needed"
        )
    return list(shape[:-2]), shape[-2]


def _groups(call: Call, x: Shape | None, layout: str, channels: int) -> int:
    depth = x[layout.index("C")] if x is not None else -1
    if depth < 0:
        return 1
    if depth % channels:
        raise call.wrong(f"has {depth} channels, which are no multiple of the {channels} of its filter")
    return depth // channels


def _transposed(call: Call) -> dict[str, Any]:
    layout = _format(call, 4)
    strides = _list(call, "strides", 4, None)
    dilations = _list(call, "dilations", 4, [1, 1, 1, 1])
    kernel, _ = _filter(call, 4)
    size = call.input(0).const
    sizes = None
    if size is not None:
        numbers = [int(number) for number in size.array().reshape(-1)]
        sizes = _spatial(numbers, layout) if len(numbers) == 4 else numbers
    pads = _pads(call, layout, sizes, kernel, _spatial(strides, layout), _spatial(dilations, layout))
    return {
        "strides": strides, "dilations": dilations, "pads": pads, "data_format": layout, "filter_format": "HWCN", "groups": 1,
    }  # fmt: skip


def _pool(dims: int) -> Any:
    """The attributes of pooling."""

    def attrs(call: Call) -> dict[str, Any]:
        layout = _format(call, dims)
        attributes: dict[str, Any] = {"data_format": layout, "padding": str(call.attr("padding", "s", None))}
        if call.op == "MaxPoolV2":
            for index, name in ((1, "ksize"), (2, "strides")):
                attributes[name] = _constant(call, call.input(index), name)
        else:
            for name in ("ksize", "strides"):
                attributes[name] = _list(call, name, dims, None)
        if attributes["padding"] == "EXPLICIT":
            nothing = [1] * (dims - 2)
            attributes["pads"] = _pads(call, layout, None, nothing, nothing, nothing)
        return attributes

    return attrs


def _constant(call: Call, value: Value, name: str) -> list[int]:
    if value.const is None:
        raise call.wrong(f"computes its {name}; only constants are possible there")
    return [int(number) for number in value.const.array().reshape(-1)]


_data = mapped(data_format=("data_format", "s", "NHWC"))
ROWS: dict[str, Row] = {
    "Conv2D": Row("Conv2D", _convolution(4, 0), needs=2),
    "Conv3D": Row("Conv3D", _convolution(5, 0), needs=2),
    "DepthwiseConv2dNative": Row("DepthwiseConv2D", _convolution(4, 0, depthwise=True), needs=2),
    "Conv2DBackpropInput": Row("Conv2DBackpropInput", _transposed, needs=3),
    "MaxPool": Row("MaxPool", _pool(4)),
    "MaxPoolV2": Row("MaxPool", _pool(4), lambda call: call.take(0), needs=3),
    "AvgPool": Row("AvgPool", _pool(4)),
    "MaxPool3D": Row("MaxPool3D", _pool(5)),
    "AvgPool3D": Row("AvgPool3D", _pool(5), fixed={"count_include_pad": False}),
    "BiasAdd": Row("BiasAdd", _data, needs=2),
    "BiasAddV1": Row("BiasAdd", needs=2, fixed={"data_format": "NHWC"}),
    "SpaceToDepth": Row(
        "SpaceToDepth", mapped(block_size=("block_size", "i", None), data_format=("data_format", "s", "NHWC"))
    ),
    "DepthToSpace": Row(
        "DepthToSpace", mapped(block_size=("block_size", "i", None), data_format=("data_format", "s", "NHWC"))
    ),
}
