"""Convolutions and pooling: TensorFlow's padding words become CANN's pads."""

from __future__ import annotations

from typing import Any

from softnpu.compiler.frontends.tensorflow.call import Call
from softnpu.compiler.frontends.tensorflow.row import Row, mapped
from softnpu.graph.ir import Shape, Value
from softnpu.ops.common.formats import same_pads

_FILTERS = {4: "HWCN", 5: "DHWCN"}


def _format(call: Call, dims: int) -> str:
    word = str(call.attr("data_format", "s", "NHWC" if dims == 4 else "NDHWC"))
    if sorted(word) != sorted("NHWC" if dims == 4 else "NDHWC"):
        raise call.wrong(f"has the data format [{word}]")
    return word


def _spatial(numbers: list[int] | Shape, word: str) -> list[int]:
    return [number for number, letter in zip(numbers, word, strict=True) if letter not in "NC"]


def _list(call: Call, name: str, dims: int, default: list[int] | None) -> list[int]:
    found = list(call.attr(name, "ints", default))
    if len(found) != dims or min(found) < 1:
        raise call.wrong(f"has {name} {found}; {dims} positive numbers are needed")
    return found


def _pads(
    call: Call, word: str, sizes: list[int] | None, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[int]:
    """(before, after) of every spatial dim in one list; -1 everywhere where SAME depends on a size that is not known."""
    mode = str(call.attr("padding", "s", None))
    if mode == "VALID":
        return [0] * (2 * len(kernel))
    if mode == "EXPLICIT":
        given = list(call.attr("explicit_paddings", "ints", None))
        if len(given) != 2 * len(word):
            raise call.wrong(f"has explicit_paddings {given}; {2 * len(word)} numbers are needed")
        pairs = zip(given[0::2], given[1::2], word, strict=True)
        return [number for low, high, letter in pairs if letter not in "NC" for number in (low, high)]
    if mode != "SAME":
        raise call.wrong(f"has the padding [{mode}]; SAME, VALID and EXPLICIT are possible")
    if sizes is None or min(sizes) < 0:
        return [-1] * (2 * len(kernel))
    found: list[int] = []
    for four in zip(sizes, kernel, strides, dilations, strict=True):
        found += same_pads(*four)
    return found


def _convolution(dims: int, source: int, depthwise: bool = False) -> Any:
    """The attributes of a convolution whose data is the input `source`."""

    def attrs(call: Call) -> dict[str, Any]:
        word = _format(call, dims)
        strides = _list(call, "strides", dims, None)
        dilations = _list(call, "dilations", dims, [1] * dims)
        kernel, channels = _filter(call, dims)
        x = call.input(source).shape
        if x is not None and len(x) != dims:
            raise call.wrong(f"has data of {len(x)} dims; {dims} are needed")
        sizes = _spatial(x, word) if x is not None else None
        pads = _pads(call, word, sizes, kernel, _spatial(strides, word), _spatial(dilations, word))
        found: dict[str, Any] = {
            "strides": strides,
            "dilations": dilations,
            "pads": pads,
            "data_format": word,
            "filter_format": _FILTERS[dims],
        }
        if not depthwise:
            found["groups"] = _groups(call, x, word, channels)
        return found

    return attrs


def _filter(call: Call, dims: int) -> tuple[list[int], int]:
    shape = call.input(1).shape
    if shape is None or len(shape) != dims or min(shape) < 1:
        raise call.wrong(
            f"has a filter of shape {None if shape is None else list(shape)}; {dims} known dims are needed"
        )
    return list(shape[:-2]), shape[-2]


def _groups(call: Call, x: Shape | None, word: str, channels: int) -> int:
    given = x[word.index("C")] if x is not None else -1
    if given < 0:
        return 1
    if given % channels:
        raise call.wrong(f"has {given} channels, which are no multiple of the {channels} of its filter")
    return given // channels


def _transposed(call: Call) -> dict[str, Any]:
    word = _format(call, 4)
    strides = _list(call, "strides", 4, None)
    dilations = _list(call, "dilations", 4, [1, 1, 1, 1])
    kernel, _ = _filter(call, 4)
    size = call.input(0).const
    sizes = None
    if size is not None:
        numbers = [int(one) for one in size.array().reshape(-1)]
        sizes = _spatial(numbers, word) if len(numbers) == 4 else numbers
    pads = _pads(call, word, sizes, kernel, _spatial(strides, word), _spatial(dilations, word))
    return {
        "strides": strides, "dilations": dilations, "pads": pads, "data_format": word, "filter_format": "HWCN", "groups": 1,
    }  # fmt: skip


def _pool(dims: int) -> Any:
    """The attributes of pooling."""

    def attrs(call: Call) -> dict[str, Any]:
        word = _format(call, dims)
        found: dict[str, Any] = {"data_format": word, "padding": str(call.attr("padding", "s", None))}
        if call.op == "MaxPoolV2":
            for place, name in ((1, "ksize"), (2, "strides")):
                found[name] = _constant(call, call.input(place), name)
        else:
            for name in ("ksize", "strides"):
                found[name] = _list(call, name, dims, None)
        if found["padding"] == "EXPLICIT":
            nothing = [1] * (dims - 2)
            found["pads"] = _pads(call, word, None, nothing, nothing, nothing)
        return found

    return attrs


def _constant(call: Call, value: Value, name: str) -> list[int]:
    if value.const is None:
        raise call.wrong(f"computes its {name}; only constants are possible there")
    return [int(one) for one in value.const.array().reshape(-1)]


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
