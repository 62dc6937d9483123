"""Layers of BVLC's Caffe as nodes of CANN types: a function a layer type.

`MAKERS` is the table of layer types. A function gets the net and the layer and returns the values of its tops.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from softnpu.compiler.frontends.caffe.making import Maker, copied, enters, pair, simple
from softnpu.compiler.frontends.caffe.net import Layer, Net, bad
from softnpu.graph.ir import Value

MAKERS: dict[str, Maker] = {
    "AbsVal": simple("Abs"),
    "BNLL": simple("BNLL"),
    "Mish": simple("Mish"),
    "ReLU6": simple("Relu6"),
    "Sigmoid": simple("Sigmoid"),
    "TanH": simple("Tanh"),
    "Clip": copied("Clip", "clip_param", min=0.0, max=0.0),
    "Dropout": copied("Dropout", "dropout_param", dropout_ratio=0.5),
    "ELU": copied("Elu", "elu_param", alpha=1.0),
    "Exp": copied("Exp", "exp_param", base=-1.0, scale=1.0, shift=0.0),
    "Flatten": copied("FlattenV2", "flatten_param", axis=1, end_axis=-1),
    "Log": copied("Log", "log_param", base=-1.0, scale=1.0, shift=0.0),
    "MVN": copied("MVN", "mvn_param", normalize_variance=True, across_channels=False, eps=1e-9),
    "Power": copied("Power", "power_param", power=1.0, scale=1.0, shift=0.0),
    "Threshold": copied("Threshold", "threshold_param", threshold=0.0),
}
_NO_AXIS = 10000  # of ArgMaxWithK
maker = enters(MAKERS)


def window(layer: Layer) -> dict[str, Any]:
    """The attributes of a convolution's window."""
    stride, pad, dilation = (
        pair(layer, "convolution_param", name, value) for name, value in (("stride", 1), ("pad", 0), ("dilation", 1))
    )
    return {
        "strides": [1, 1, *stride],
        "pads": [pad[0], pad[0], pad[1], pad[1]],
        "dilations": [1, 1, *dilation],
        "data_format": "NCHW",
    }


@maker("Convolution", "DepthwiseConvolution", "Deconvolution")
def convolution(net: Net, layer: Layer) -> list[Value]:
    """One convolution for every bottom, all with the same weights."""
    if len(layer.bottoms) != 1 or layer.tops != 1:
        raise bad(
            layer.name, f"has {len(layer.bottoms)} bottoms and {layer.tops} tops", "write a layer for each bottom"
        )
    params, channels = layer.param("convolution_param"), layer.channels()
    out = int(layer.need("convolution_param", "num_output"))
    kernel = pair(layer, "convolution_param", "kernel", 0, "kernel_size")
    groups = int(params.get("group", channels if layer.type == "DepthwiseConvolution" else 1))
    if len(layer.shape()) != 4 or params.get("axis", 1) != 1 or min(kernel) < 1:
        raise bad(
            layer.name,
            f"has a bottom of shape {list(layer.shape())} and kernels {kernel}",
            "use two-dimensional convolutions",
        )
    if groups < 1 or channels % groups or out % groups:
        raise bad(
            layer.name, f"splits {channels} channels to {out} in {groups} groups", "choose a group that divides both"
        )
    turned = layer.type == "Deconvolution"
    shape = (channels, out // groups, *kernel) if turned else (out, channels // groups, *kernel)
    inputs = [layer.bottoms[0], net.blob(layer, 0, shape, "filter")]
    if params.get("bias_term", True):
        inputs.append(net.blob(layer, 1, (out,), "bias"))
    return net.result(layer, "Deconvolution" if turned else "Conv2D", inputs, groups=groups, **window(layer))


@maker("Pooling")
def pooling(net: Net, layer: Layer) -> list[Value]:
    """Max or average pooling."""
    layer.count(1)
    params = layer.param("pooling_param")
    mode = params.get("pool", 0)
    if mode > 1 or layer.tops != 1:
        raise bad(layer.name, f"pools in mode {mode} with {layer.tops} tops", "use MAX or AVE and one top")
    if params.get("global_pooling", False):
        return net.result(layer, "Pooling", layer.bottoms, mode=mode, global_pooling=True)
    kernel = pair(layer, "pooling_param", "kernel", 0, "kernel_size")
    stride, pad = pair(layer, "pooling_param", "stride", 1), pair(layer, "pooling_param", "pad", 0)
    floor = params.get("round_mode", 0) == 1 or not params.get("ceil_mode", True)
    return net.result(
        layer,
        "Pooling",
        layer.bottoms,
        mode=mode,
        global_pooling=False,
        window=kernel,
        stride=stride,
        pad=[pad[0], pad[0], pad[1], pad[1]],
        ceil_mode=int(floor),  # the operator's 0 rounds sizes up, 1 down (its schema says so)
    )


@maker("InnerProduct")
def inner_product(net: Net, layer: Layer) -> list[Value]:
    """A fully connected layer."""
    layer.count(1)
    params, out = layer.param("inner_product_param"), int(layer.need("inner_product_param", "num_output"))
    axis, transpose = layer.axis(params.get("axis", 1)), bool(params.get("transpose", False))
    depth = math.prod(layer.shape()[axis:])
    inputs = [layer.bottoms[0], net.blob(layer, 0, (depth, out) if transpose else (out, depth), "weight")]
    if params.get("bias_term", True):
        inputs.append(net.blob(layer, 1, (out,), "bias"))
    return net.result(layer, "FullyConnection", inputs, num_output=out, transpose=transpose, axis=axis)


@maker("BatchNorm")
def batch_norm(net: Net, layer: Layer) -> list[Value]:
    """Normalisation with the statistics of the weights."""
    layer.count(1)
    params, channels = layer.param("batch_norm_param"), layer.channels()
    mean, variance = (
        net.blob(layer, index, (channels,), statistic) for index, statistic in enumerate(("mean", "variance"))
    )
    inputs = [layer.bottoms[0], mean, variance, net.blob(layer, 2, (1,), "momentum")]
    return net.result(
        layer,
        "BNInference",
        inputs,
        epsilon=params.get("eps", 1e-5),
        use_global_stats=params.get("use_global_stats", True),
        mode=1,
    )


@maker("Scale", "Bias")
def scale(net: Net, layer: Layer) -> list[Value]:
    """A product or sum with a blob, or with the second bottom."""
    layer.count(1, 2)
    message = "scale_param" if layer.type == "Scale" else "bias_param"
    params = layer.param(message)
    axis, many = layer.axis(params.get("axis", 1)), int(params.get("num_axes", 1))
    from_blob = len(layer.bottoms) == 1
    shape = layer.shape()[axis:] if many == -1 else layer.shape()[axis : axis + many]
    main = net.blob(layer, 0, shape, layer.type.lower()) if from_blob else layer.bottoms[1]
    inputs: list[Value] = [layer.bottoms[0], main]
    if layer.type == "Bias":
        return net.result(layer, "Bias", inputs, axis=axis, num_axes=many, bias_from_blob=from_blob)
    if params.get("bias_term", False):
        inputs.append(net.blob(layer, int(from_blob), shape if from_blob else layer.shape(1), "bias"))
    return net.result(layer, "Scale", inputs, axis=axis, num_axes=many, scale_from_blob=from_blob)


@maker("ReLU", "RReLU", "LeakyReLU")
def relu(net: Net, layer: Layer) -> list[Value]:
    """Relu, or LeakyRelu where there is a slope."""
    layer.count(1)
    slope = float(layer.param("relu_param").get("negative_slope", 0.0))
    return (
        net.result(layer, "LeakyRelu", layer.bottoms, negative_slope=slope)
        if slope
        else net.result(layer, "Relu", layer.bottoms)
    )


@maker("PReLU")
def prelu(net: Net, layer: Layer) -> list[Value]:
    """A slope a channel, or one for all."""
    layer.count(1)
    many = 1 if layer.param("prelu_param").get("channel_shared", False) else layer.channels()
    return net.result(layer, "PRelu", [layer.bottoms[0], net.blob(layer, 0, (many,), "weight")])


@maker("Eltwise")
def eltwise(net: Net, layer: Layer) -> list[Value]:
    """Product, weighted sum or maximum."""
    layer.count(1, 1000)
    params = layer.param("eltwise_param")
    if len({layer.shape(index) for index in range(len(layer.bottoms))}) > 1:
        shapes = [list(layer.shape(index)) for index in range(len(layer.bottoms))]
        raise bad(layer.name, f"has bottoms of the shapes {shapes}", "all must have the same shape")
    return net.result(
        layer,
        "Eltwise",
        layer.bottoms,
        N=len(layer.bottoms),
        mode=params.get("operation", 1),
        coeff=list(params.get("coeff", [])),
    )


@maker("Concat")
def concat(net: Net, layer: Layer) -> list[Value]:
    """Bottoms one after the other."""
    layer.count(1, 1000)
    params = layer.param("concat_param")
    axis = layer.axis(params.get("axis", params.get("concat_dim", 1)))
    return net.result(layer, "ConcatD", layer.bottoms, concat_dim=axis, N=len(layer.bottoms))


@maker("Slice")
def slices(net: Net, layer: Layer) -> list[Value]:
    """Pieces between points, or equal ones."""
    layer.count(1)
    params, tops = layer.param("slice_param"), layer.tops
    axis = layer.axis(params.get("axis", params.get("slice_dim", 1)))
    size, points = layer.shape()[axis], [int(point) for point in params.get("slice_point", [])]
    if not points and tops and size % tops == 0:
        points = [size // tops * (index + 1) for index in range(tops - 1)]
    edges = [0, *points, size]
    sizes = [high - low for low, high in itertools.pairwise(edges)]
    if len(sizes) != tops or min(sizes) < 1:
        raise bad(
            layer.name, f"cuts {size} at {points} into {tops} tops", "give a growing slice_point between every two tops"
        )
    return net.node(layer, "SplitVD", layer.bottoms, tops, size_splits=sizes, split_dim=axis, num_split=tops).outputs


@maker("Split")
def split(net: Net, layer: Layer) -> list[Value]:
    """The same value for every top."""
    layer.count(1)
    return net.node(layer, "Copy", layer.bottoms, layer.tops, N=layer.tops).outputs


@maker("Softmax")
def softmax(net: Net, layer: Layer) -> list[Value]:
    """Softmax along an axis."""
    layer.count(1)
    return net.result(layer, "SoftmaxV2", layer.bottoms, axes=[layer.axis(layer.param("softmax_param").get("axis", 1))])


@maker("Reshape")
def reshape(net: Net, layer: Layer) -> list[Value]:
    """Another shape for some dims; 0 copies a dim, -1 is found."""
    layer.count(1)
    params = layer.param("reshape_param")
    dims = [int(dim) for dim in params.get("shape", {}).get("dim", [])]
    shape = net.graph.const(np.array(dims, np.int64), f"{layer.name}_shape")
    return net.result(
        layer, "Reshape", [layer.bottoms[0], shape], axis=params.get("axis", 0), num_axes=params.get("num_axes", -1)
    )


@maker("ArgMax")
def arg_max(net: Net, layer: Layer) -> list[Value]:
    """Places of the largest values as numbers, the values, or both, as Caffe has it."""
    layer.count(1)
    params = layer.param("argmax_param")
    axis, wanted = params.get("axis", _NO_AXIS), bool(params.get("out_max_val", False))
    node = net.node(
        layer, "ArgMaxWithK", layer.bottoms, 2, axis=axis, out_max_val=wanted, topk=int(params.get("top_k", 1))
    )
    indices, values = node.outputs
    if wanted and axis != _NO_AXIS:
        return [values]
    places = net.result(layer, "Cast", [indices], dst_type=0)
    return net.result(layer, "ConcatD", [*places, values], concat_dim=1, N=2) if wanted else places


@maker("LRN")
def lrn(net: Net, layer: Layer) -> list[Value]:
    """Normalisation by neighbours; Caffe's alpha is shared by the window."""
    layer.count(1)
    params = layer.param("lrn_param")
    size, within = int(params.get("local_size", 5)), params.get("norm_region", 0) == 1
    if size % 2 != 1:
        raise bad(layer.name, f"has the local_size {size}", "it must be odd")
    return net.result(
        layer,
        "LRN",
        layer.bottoms,
        depth_radius=(size - 1) // 2,
        bias=1.0 if within else float(params.get("k", 1.0)),
        alpha=float(params.get("alpha", 1.0)) / (size * size if within else size),
        beta=float(params.get("beta", 0.75)),
        norm_region="WITHIN_CHANNEL" if within else "ACROSS_CHANNELS",
    )


@maker("Crop")
def crop(net: Net, layer: Layer) -> list[Value]:
    """The first bottom in the size of the second."""
    layer.count(2)
    params = layer.param("crop_param")
    return net.result(
        layer,
        "Crop",
        layer.bottoms,
        axis=params.get("axis", 2),
        offsets=[int(offset) for offset in params.get("offset", [])],
    )


@maker("Tile")
def tile(net: Net, layer: Layer) -> list[Value]:
    """Repetition along an axis."""
    layer.count(1)
    axis = layer.axis(layer.param("tile_param").get("axis", 1))
    return net.result(layer, "TileWithAxis", layer.bottoms, tiles=int(layer.need("tile_param", "tiles")), axis=axis)


@maker("Reduction")
def reduction(net: Net, layer: Layer) -> list[Value]:
    """Sum, sum of magnitudes or squares, or mean."""
    layer.count(1)
    params = layer.param("reduction_param")
    operation = ("", "SUM", "ASUM", "SUMSQ", "MEAN")[params.get("operation", 1)]
    return net.result(
        layer,
        "Reduction",
        layer.bottoms,
        operation=operation,
        axis=layer.axis(params.get("axis", 0)),
        coeff=params.get("coeff", 1.0),
    )


@maker("SPP")
def spp(net: Net, layer: Layer) -> list[Value]:
    """Spatial pyramid pooling."""
    layer.count(1)
    method = layer.param("spp_param").get("pool", 0)
    return net.result(
        layer, "SPP", layer.bottoms, pyramid_height=int(layer.need("spp_param", "pyramid_height")), pool_method=method
    )


@maker("LSTM", "RNN")
def recurrent(net: Net, layer: Layer) -> list[Value]:
    """A recurrent layer: bottoms are x, cont, a static input where there is one, then hidden states where they are exposed."""
    params, out = layer.param("recurrent_param"), int(layer.need("recurrent_param", "num_output"))
    exposed, lstm = bool(params.get("expose_hidden", False)), layer.type == "LSTM"
    states = (2 if lstm else 1) if exposed else 0
    layer.count(2 + states, 3 + states)
    bottoms: list[Value | None] = list(layer.bottoms)
    static = bottoms.pop(2) if len(bottoms) == 3 + states else None
    hidden = bottoms[2:] + [None] * (2 - states)
    gates, depth = 4 * out if lstm else out, math.prod(layer.shape()[2:])
    w_x, bias = net.blob(layer, 0, (gates, depth), "w_x"), net.blob(layer, 1, (gates,), "bias")
    later = 3 if static is not None else 2
    w_static = net.blob(layer, 2, (gates, math.prod(layer.shape(2)[1:])), "w_static") if static is not None else None
    w_h = net.blob(layer, later, (gates, out), "w_h")
    attrs = {"num_output": out, "expose_hidden": exposed}
    if lstm:
        inputs = [bottoms[0], bottoms[1], w_x, bias, w_h, static, hidden[0], hidden[1], w_static]
        return net.node(layer, "LSTM", inputs, 3, **attrs).outputs
    w_o, b_o = net.blob(layer, later + 1, (out, out), "w_o"), net.blob(layer, later + 2, (out,), "b_o")
    inputs = [bottoms[0], bottoms[1], static, hidden[0], w_x, bias, w_static, w_h, w_o, b_o]
    return net.node(layer, "RNN", inputs, 2, **attrs).outputs
