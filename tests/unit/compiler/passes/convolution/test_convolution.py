"""Passes around a convolution: what goes into it, what stays away, and that the numbers stay (against onnxruntime)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.helper import make_node as op

from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.passes import order
from softnpu.compiler.passes.convolution import conv_add, conv_batchnorm, conv_bias_add, conv_mul, conv_relu, pad_conv
from softnpu.compiler.passes.fusion import FusionReport, Switches
from softnpu.graph.ir import Graph, Output
from tests.unit.compiler.onnx_graphs import compute, load, model, types
from tests.unit.compiler.passes.pass_graphs import CONV, CONV_BIAS, NORM, B, W, X, check, norm_weights, rand


@pytest.mark.parametrize(("conv", "more"), [(CONV, {}), (CONV_BIAS, B)])
def test_a_batch_norm_goes_into_the_convolution(conv, more, tmp_path: Path) -> None:
    graph = check(conv_batchnorm, [conv, NORM], X, W | more | norm_weights(8), tmp_path)
    assert types(graph) == ["Conv2D"]
    node = graph.outputs[0].value.producer
    assert node is not None and len(node.inputs) == 3 and len(node.origin) == 2


def test_a_batch_norm_goes_into_convolutions_of_every_kind(tmp_path: Path) -> None:
    grouped = op("Conv", ["x", "w"], ["c"], group=2)
    check(conv_batchnorm, [grouped, NORM], X, {"w": rand(8, 2, 3, 3)} | norm_weights(8), tmp_path)
    line = op("Conv", ["x", "w"], ["c"])
    check(conv_batchnorm, [line, NORM], {"x": [2, 4, 9]}, {"w": rand(8, 4, 3)} | norm_weights(8), tmp_path)
    check(conv_batchnorm, [line, NORM], {"x": [1, 2, 4, 4, 4]}, {"w": rand(3, 2, 2, 2, 2)} | norm_weights(3), tmp_path)
    back = op("ConvTranspose", ["x", "w"], ["c"], group=2, strides=[2, 2])
    graph = check(conv_batchnorm, [back, NORM], X, {"w": rand(4, 3, 3, 3)} | norm_weights(6), tmp_path)
    assert types(graph) == ["Conv2DTranspose"]


def test_a_batch_norm_stays_when_somebody_else_takes_the_convolution(tmp_path: Path) -> None:
    weights = W | norm_weights(8)
    check(conv_batchnorm, [CONV, NORM], X, weights, tmp_path, outputs=("y", "c"), count=(0, 0))
    check(
        conv_batchnorm, [CONV, NORM, op("Relu", ["c"], ["z"])], X, weights, tmp_path, outputs=("y", "z"), count=(0, 0)
    )
    weights["var"] = np.full(8, -1.0, np.float32)
    graph = load(model([CONV, NORM], X, ["y"], weights), tmp_path)
    assert conv_batchnorm.run(graph) == (0, 0)


def test_a_batch_norm_that_does_not_fit_the_type_stays(tmp_path: Path) -> None:
    weights = W | norm_weights(8)
    weights["scale"] = np.full(8, 3e38, np.float32)
    graph = load(model([CONV, NORM], X, ["y"], weights), tmp_path)
    assert conv_batchnorm.run(graph) == (1, 0)
    assert types(graph) == ["Conv2D", "BatchNorm"]


@pytest.mark.parametrize("shape", [(8, 1, 1), (1, 8, 1, 1), (), (1,), (1, 1, 1)])
def test_constants_per_channel_go_into_the_convolution(shape, tmp_path: Path) -> None:
    constant = {"k": rand(*shape, seed=7)}
    assert types(check(conv_mul, [CONV, op("Mul", ["c", "k"], ["y"])], X, W | constant, tmp_path)) == ["Conv2D"]
    assert types(check(conv_mul, [CONV_BIAS, op("Mul", ["k", "c"], ["y"])], X, W | B | constant, tmp_path)) == [
        "Conv2D"
    ]
    assert types(check(conv_bias_add, [CONV, op("Add", ["k", "c"], ["y"])], X, W | constant, tmp_path)) == ["Conv2D"]
    assert types(check(conv_add, [CONV_BIAS, op("Add", ["c", "k"], ["y"])], X, W | B | constant, tmp_path)) == [
        "Conv2D"
    ]
    check(conv_add, [CONV, op("Add", ["c", "k"], ["y"])], X, W | constant, tmp_path, count=(0, 0))
    check(conv_bias_add, [CONV_BIAS, op("Add", ["c", "k"], ["y"])], X, W | B | constant, tmp_path, count=(0, 0))


@pytest.mark.parametrize("shape", [(6,), (6, 6), (8, 6, 1), (1, 1, 8, 1, 1), (2, 8, 1, 1)])
def test_constants_that_are_not_per_channel_stay(shape, tmp_path: Path) -> None:
    constant = {"k": rand(*shape, seed=7)}
    check(conv_mul, [CONV, op("Mul", ["c", "k"], ["y"])], X, W | constant, tmp_path, count=(0, 0))
    check(conv_bias_add, [CONV, op("Add", ["c", "k"], ["y"])], X, W | constant, tmp_path, count=(0, 0))


def test_a_chain_of_factors_is_folded_in_one_run(tmp_path: Path) -> None:
    nodes = [CONV, op("Mul", ["c", "k"], ["d"]), op("Mul", ["d", "k"], ["e"]), op("Mul", ["e", "k"], ["y"])]
    graph = check(conv_mul, nodes, X, W | {"k": rand(8, 1, 1)}, tmp_path, count=(3, 3))
    assert types(graph) == ["Conv2D"]


def test_a_shared_filter_is_not_changed_for_the_other_convolution(tmp_path: Path) -> None:
    nodes = [CONV, op("Conv", ["x", "w"], ["z"]), op("Mul", ["c", "k"], ["y"])]
    check(conv_mul, nodes, X, W | {"k": rand(8, 1, 1)}, tmp_path, outputs=("y", "z"))


def test_a_square_of_the_convolution_stays(tmp_path: Path) -> None:
    check(conv_mul, [CONV, op("Mul", ["c", "c"], ["y"])], X, W, tmp_path, count=(0, 0))


def test_native_nodes_fold_as_well() -> None:
    """A graph of another frontend: channel last, filter HWCN."""
    graph = Graph("g", framework=3)
    x = graph.data_node("x", 0, (1, 5, 5, 4)).output
    weight = graph.const(rand(3, 3, 4, 8), "w")
    attrs = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NHWC"}
    conv = graph.op("Conv2D", [x, weight], "conv", **attrs)
    bias = graph.op("BiasAdd", [conv.output, graph.const(rand(8, seed=1), "b")], "bias", data_format="NHWC")
    statistics = [graph.const(array, name) for name, array in norm_weights(8).items()]
    norm = graph.op(
        "BatchNorm", [bias.output, *statistics], "norm", is_training=False, data_format="NHWC", epsilon=1e-3
    )
    graph.outputs.append(Output(norm.output, "y"))
    assert conv_bias_add.run(graph) == (1, 1)
    assert conv_batchnorm.run(graph) == (1, 1)
    graph.sweep()
    graph.verify()
    assert types(graph) == ["Conv2D"]
    factor = norm_weights(8)["scale"] / np.sqrt(norm_weights(8)["var"] + 1e-3)
    filter_, shift = conv.inputs[1], conv.inputs[2]
    assert filter_ is not None and filter_.const is not None and shift is not None and shift.const is not None
    np.testing.assert_allclose(filter_.const.array(), rand(3, 3, 4, 8) * factor, rtol=1e-5)
    expected = (rand(8, seed=1) - norm_weights(8)["mean"]) * factor + norm_weights(8)["offset"]
    np.testing.assert_allclose(shift.const.array(), expected, rtol=1e-4, atol=1e-6)


def test_caffe_s_normalisation_and_scale_fold() -> None:
    graph = Graph("g", framework=0)
    x = graph.data_node("x", 0, (1, 4, 5, 5), 0).output
    attrs = {"strides": [1, 1, 1, 1], "pads": [0, 0, 0, 0], "data_format": "NCHW"}
    conv = graph.op("Conv2D", [x, graph.const(rand(8, 4, 3, 3), "w")], "conv", groups=1, **attrs)
    numbers = norm_weights(8)
    count = graph.const(np.array([4], np.float32), "count")
    sums = [graph.const(numbers["mean"] * 4, "mean"), graph.const(numbers["var"] * 4, "var"), count]
    norm = graph.op("BNInference", [conv.output, *sums], "norm", epsilon=1e-3, use_global_stats=True, mode=1)
    pair = [graph.const(numbers["scale"], "scale"), graph.const(numbers["offset"], "offset")]
    scale = graph.op("Scale", [norm.output, *pair], "scale", axis=1, num_axes=1)
    graph.outputs.append(Output(scale.output, "y"))
    for node in (conv, norm, scale):
        infer_node(graph, node)
    data = {"x": rand(1, 4, 5, 5, seed=9)}
    before = compute(graph, data)[0]
    report = FusionReport()
    order.run(graph, Switches(), report)
    assert types(graph) == ["Conv2D"]
    assert report.counts("ConvBatchnormFusionPass") == report.counts("ConvScaleFusionPass") == (1, 1)
    assert conv.origin == ["conv", "norm", scale.name]
    after = compute(graph, data)[0]
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)
    factor = numbers["scale"] / np.sqrt(numbers["var"] + 1e-3)
    filter_ = conv.inputs[1]
    assert filter_ is not None and filter_.const is not None
    np.testing.assert_allclose(filter_.const.array(), rand(8, 4, 3, 3) * factor.reshape(8, 1, 1, 1), rtol=1e-5)


def test_padding_goes_into_the_convolution(tmp_path: Path) -> None:
    conv = op("Conv", ["p", "w"], ["y"], pads=[0, 1, 1, 0])
    pads = {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 0], np.int64)}
    graph = check(pad_conv, [op("Pad", ["x", "pads"], ["p"]), conv], X, W | pads, tmp_path)
    assert types(graph) == ["Conv2D"]
    assert graph.nodes[-1].attrs["pads"] == [1, 4, 3, 0]
    valid = op("Conv", ["p", "w"], ["y"], auto_pad="VALID")
    zero = {"zero": np.array(0, np.float32)}
    check(pad_conv, [op("Pad", ["x", "pads", "zero"], ["p"]), valid], X, W | pads | zero, tmp_path)
    old = op("Pad", ["x"], ["p"], pads=[0, 0, 1, 1, 0, 0, 1, 1])
    check(pad_conv, [old, conv], X, W, tmp_path, opset=10)
    axes = {"pads": np.array([1, 2, 3, 4], np.int64), "axes": np.array([-1, 2], np.int64)}
    graph = check(pad_conv, [op("Pad", ["x", "pads", "", "axes"], ["p"]), conv], X, W | axes, tmp_path, opset=18)
    assert graph.nodes[-1].attrs["pads"] == [2, 5, 2, 3]


def test_padding_that_is_no_zero_padding_of_the_picture_stays(tmp_path: Path) -> None:
    conv = op("Conv", ["p", "w"], ["y"])
    pads = {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)}
    check(pad_conv, [op("Pad", ["x", "pads"], ["p"], mode="reflect"), conv], X, W | pads, tmp_path, count=(0, 0))
    fill = {"one": np.array(1, np.float32)}
    check(pad_conv, [op("Pad", ["x", "pads", "one"], ["p"]), conv], X, W | pads | fill, tmp_path, count=(0, 0))
    deep = {"pads": np.array([0, 1, 0, 0, 0, 1, 0, 0], np.int64), "w": rand(8, 6, 3, 3)}
    check(pad_conv, [op("Pad", ["x", "pads"], ["p"]), conv], X, deep, tmp_path, count=(1, 0))
    same = op("Conv", ["p", "w"], ["y"], auto_pad="SAME_UPPER")
    check(pad_conv, [op("Pad", ["x", "pads"], ["p"]), same], X, W | pads, tmp_path, count=(1, 0))


def test_convolution_and_relu_are_one_node(tmp_path: Path) -> None:
    graph = check(conv_relu, [CONV_BIAS, op("Relu", ["c"], ["y"])], X, W | B, tmp_path)
    node = graph.nodes[-1]
    assert (node.type, node.name) == ("Conv2D", "Conv_0Relu_1")
    assert node.attrs["relu_flag"] is True
    assert node.input_names == ["x", "filter", "bias"]
    assert len(node.origin) == 2
    check(conv_relu, [CONV, op("Relu", ["c"], ["y"])], X, W, tmp_path, ("y", "c"), count=(0, 0))
