"""Every pass: what it makes of its pattern, when it stays away, and that the numbers stay (against onnxruntime on the file)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as op

from softnpu.compiler.lowering.infer import infer_node
from softnpu.compiler.passes import order
from softnpu.compiler.passes.cleanup import (
    cast_cast,
    cast_remove,
    common_subexpression,
    copy_removal,
    squeeze_unsqueeze,
    transpose_pair,
)
from softnpu.compiler.passes.convolution import conv_add, conv_batchnorm, conv_bias_add, conv_mul, conv_relu, pad_conv
from softnpu.compiler.passes.fusion import FusionReport, Switches
from softnpu.compiler.passes.patterns import gelu, layer_norm, matmul_bias_add, mish, mul_square, pow_square
from softnpu.graph.ir import Graph, Node, Output, Source, Value
from tests.unit.compiler.onnx_graphs import compute, load, model, original, types


def rand(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def norm_weights(channels: int) -> dict[str, np.ndarray]:
    return {
        "scale": rand(channels, seed=1),
        "offset": rand(channels, seed=2),
        "mean": rand(channels, seed=3),
        "var": np.abs(rand(channels, seed=4)) + 0.1,
    }


X = {"x": [2, 4, 6, 6]}
CONV = op("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
CONV_BIAS = op("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1])
W = {"w": rand(8, 4, 3, 3, seed=5)}
B = {"b": rand(8, seed=6)}
NORM = op("BatchNormalization", ["c", "scale", "offset", "mean", "var"], ["y"], epsilon=1e-3)


def check(one, nodes, inputs, weights, tmp_path: Path, outputs=("y",), opset=13, count=(1, 1)) -> Graph:
    """Run one pass on a model and compare with the file's own result."""
    made = model(list(nodes), inputs, list(outputs), weights, opset)
    graph = load(made, tmp_path)
    assert one.run(graph) == count
    graph.sweep()
    rng = np.random.default_rng(9)
    feeds = {}
    for node in graph.inputs:
        dtype = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 12: np.bool_}[node.output.dtype]
        feeds[node.name] = (rng.standard_normal(node.output.shape) * 3).astype(dtype)
    for mine, theirs in zip(compute(graph, feeds), original(made, feeds), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    return graph


# ---- convolutions ----------------------------------------------------------------------------------------------------


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
    made = load(model([CONV, NORM], X, ["y"], weights), tmp_path)
    assert conv_batchnorm.run(made) == (0, 0)


def test_a_batch_norm_that_does_not_fit_the_type_stays(tmp_path: Path) -> None:
    weights = W | norm_weights(8)
    weights["scale"] = np.full(8, 3e38, np.float32)
    made = load(model([CONV, NORM], X, ["y"], weights), tmp_path)
    assert conv_batchnorm.run(made) == (1, 0)
    assert types(made) == ["Conv2D", "BatchNorm"]


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
    one = {"one": np.array(1, np.float32)}
    check(pad_conv, [op("Pad", ["x", "pads", "one"], ["p"]), conv], X, W | pads | one, tmp_path, count=(0, 0))
    deep = {"pads": np.array([0, 1, 0, 0, 0, 1, 0, 0], np.int64), "w": rand(8, 6, 3, 3)}
    check(pad_conv, [op("Pad", ["x", "pads"], ["p"]), conv], X, deep, tmp_path, count=(1, 0))
    same = op("Conv", ["p", "w"], ["y"], auto_pad="SAME_UPPER")
    check(pad_conv, [op("Pad", ["x", "pads"], ["p"]), same], X, W | pads, tmp_path, count=(1, 0))


# ---- matrices --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (1, 5), (1,), ()])
def test_a_vector_after_a_product_becomes_its_bias(shape, tmp_path: Path) -> None:
    weights = {"w": rand(3, 5), "b": rand(*shape, seed=1)}
    for add in (op("Add", ["m", "b"], ["y"]), op("Add", ["b", "m"], ["y"])):
        graph = check(matmul_bias_add, [op("MatMul", ["x", "w"], ["m"]), add], {"x": [4, 3]}, weights, tmp_path)
        assert types(graph) == ["MatMulV2"]
    weights["w"] = rand(5, 3)
    gemm = op("Gemm", ["x", "w"], ["m"], alpha=0.5, transB=1)
    graph = check(matmul_bias_add, [gemm, op("Add", ["m", "b"], ["y"])], {"x": [4, 3]}, weights, tmp_path)
    assert graph.nodes[-1].attrs["transpose_x2"] is True


def test_products_that_are_no_fully_connected_layer_stay(tmp_path: Path) -> None:
    product, add = op("MatMul", ["x", "w"], ["m"]), op("Add", ["m", "b"], ["y"])
    weights = {"w": rand(3, 5), "b": rand(5)}
    check(matmul_bias_add, [product, add], {"x": [2, 4, 3]}, weights, tmp_path, count=(0, 0))
    check(matmul_bias_add, [product, add], {"x": [4, 3]}, weights | {"b": rand(4, 1)}, tmp_path, count=(0, 0))
    check(matmul_bias_add, [product, add], {"x": [1, 3]}, weights | {"b": rand(4, 5)}, tmp_path, count=(0, 0))
    gemm = op("Gemm", ["x", "w", "b"], ["m"])
    check(matmul_bias_add, [gemm, add], {"x": [4, 3]}, weights, tmp_path, count=(0, 0))


# ---- what does nothing -----------------------------------------------------------------------------------------------


def test_copies_go_away(tmp_path: Path) -> None:
    nodes = [
        op("Identity", ["x"], ["a"]),
        op("Dropout", ["a"], ["b", "mask"]),
        op("Transpose", ["b"], ["c"], perm=[0, 1, 2, 3]),
        op("Reshape", ["c", "shape"], ["d"]),
        op("Concat", ["d"], ["e"], axis=1),
        op("Relu", ["e"], ["y"]),
    ]
    graph = check(copy_removal, nodes, X, {"shape": np.array([2, 4, 6, -1], np.int64)}, tmp_path, count=(5, 5))
    assert types(graph) == ["Relu"]


def test_copies_that_matter_stay(tmp_path: Path) -> None:
    check(copy_removal, [op("Identity", ["x"], ["y"])], X, {}, tmp_path, count=(1, 0))
    check(
        copy_removal,
        [op("Identity", ["x"], ["y"]), op("Relu", ["y"], ["z"])],
        X,
        {},
        tmp_path,
        ("y", "z"),
        count=(1, 0),
    )
    nodes = [
        op("Dropout", ["x"], ["a", "mask"]),
        op("Cast", ["mask"], ["m"], to=TensorProto.FLOAT),
        op("Mul", ["a", "m"], ["y"]),
    ]
    check(copy_removal, nodes, X, {}, tmp_path, count=(0, 0))


def test_casts(tmp_path: Path) -> None:
    def cast(source: str, target: str, to: int):
        return op("Cast", [source], [target], to=to)

    F, H, I8, I32 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.INT32
    relu = op("Relu", ["b"], ["y"])
    assert types(check(cast_remove, [cast("x", "b", F), relu], X, {}, tmp_path)) == ["Relu"]
    check(cast_remove, [cast("x", "y", F)], X, {}, tmp_path, count=(1, 0))
    half = {"x": (H, [2, 3])}
    nodes = [cast("x", "a", F), cast("a", "b", H), op("Neg", ["b"], ["y"])]
    assert types(check(cast_cast, nodes, half, {}, tmp_path)) == ["Neg"]
    nodes = [cast("x", "a", I32), cast("a", "y", F)]
    assert types(check(cast_cast, nodes, {"x": (I8, [2, 3])}, {}, tmp_path)) == ["Cast"]
    nodes = [cast("x", "a", H), cast("a", "y", F)]  # rounds
    check(cast_cast, nodes, X, {}, tmp_path, count=(1, 0))
    nodes = [cast("x", "a", I32), cast("a", "y", F)]  # cuts the fraction off
    check(cast_cast, nodes, X, {}, tmp_path, count=(1, 0))


def test_lossless_agrees_with_numpy() -> None:
    numbers = {
        0: "f4",
        1: "f2",
        2: "i1",
        3: "i4",
        4: "u1",
        6: "i2",
        7: "u2",
        8: "u4",
        9: "i8",
        10: "u8",
        11: "f8",
        12: "?",
    }
    for first, one in numbers.items():
        for second, other in numbers.items():
            if second == 12 or (first in (3, 9, 10, 8) and second in (0, 1, 11)):
                continue  # NumPy calls int64 → double safe, which it is not
            assert cast_cast.lossless(first, second) == np.can_cast(one, other, "safe"), (one, other)
    assert not cast_cast.lossless(9, 11)
    assert cast_cast.lossless(3, 11)
    assert not cast_cast.lossless(3, 0)


def test_squeeze_and_unsqueeze_cancel(tmp_path: Path) -> None:
    inputs = {"x": [2, 1, 3, 1]}
    axes = {"axes": np.array([1, 3], np.int64), "same": np.array([-1, 1], np.int64), "less": np.array([1], np.int64)}
    relu = op("Relu", ["b"], ["y"])
    nodes = [op("Squeeze", ["x", "axes"], ["a"]), op("Unsqueeze", ["a", "same"], ["b"]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path)) == ["Relu"]
    nodes = [op("Unsqueeze", ["x", "axes"], ["a"]), op("Squeeze", ["a", "axes"], ["b"]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path)) == ["Relu"]
    nodes = [op("Squeeze", ["x", "axes"], ["a"]), op("Unsqueeze", ["a", "less"], ["b"]), relu]
    check(squeeze_unsqueeze, nodes, inputs, axes, tmp_path, count=(0, 0))
    nodes = [op("Squeeze", ["x"], ["a"], axes=[1]), op("Unsqueeze", ["a"], ["b"], axes=[1]), relu]
    assert types(check(squeeze_unsqueeze, nodes, inputs, {}, tmp_path, opset=11)) == ["Relu"]


def test_transposes_cancel_or_join(tmp_path: Path) -> None:
    relu = op("Relu", ["b"], ["y"])
    there, back = op("Transpose", ["x"], ["a"], perm=[0, 2, 3, 1]), op("Transpose", ["a"], ["b"], perm=[0, 3, 1, 2])
    assert types(check(transpose_pair, [there, back, relu], X, {}, tmp_path)) == ["Relu"]
    again = op("Transpose", ["a"], ["b"], perm=[3, 0, 1, 2])
    graph = check(transpose_pair, [there, again, relu], X, {}, tmp_path)
    assert types(graph) == ["Transpose", "Relu"]
    turned = [op("Transpose", ["x"], ["a"]), op("Transpose", ["a"], ["b"])]
    assert types(check(transpose_pair, [*turned, relu], X, {}, tmp_path)) == ["Relu"]
    other = op("Relu", ["a"], ["z"])
    check(transpose_pair, [there, again, relu, other], X, {}, tmp_path, ("y", "z"), count=(1, 0))


def test_equal_nodes_are_one(tmp_path: Path) -> None:
    nodes = [
        op("LeakyRelu", ["x"], ["a"], alpha=0.1),
        op("LeakyRelu", ["x"], ["b"], alpha=0.1),
        op("LeakyRelu", ["x"], ["c"], alpha=0.2),
        op("Mul", ["a", "k"], ["d"]),
        op("Mul", ["b", "l"], ["e"]),
        op("Sum", ["c", "d", "e"], ["y"]),
    ]
    constants = {"k": np.array(2, np.float32), "l": np.array(2, np.float32)}
    graph = check(common_subexpression, nodes, X, constants, tmp_path, count=(2, 2))
    assert sorted(types(graph)) == ["AccumulateNV2", "LeakyRelu", "LeakyRelu", "Mul"]


def test_chance_and_results_are_not_joined(tmp_path: Path) -> None:
    nodes = [op("Relu", ["x"], ["y"]), op("Relu", ["x"], ["z"])]
    check(common_subexpression, nodes, X, {}, tmp_path, ("y", "z"), count=(1, 0))
    nodes = [op("RandomNormalLike", ["x"], ["a"]), op("RandomNormalLike", ["x"], ["b"]), op("Add", ["a", "b"], ["y"])]
    graph = load(model(nodes, X, ["y"]), tmp_path)
    assert common_subexpression.run(graph) == (0, 0)


# ---- names -----------------------------------------------------------------------------------------------------------

ROOT, HALF, ONE = np.array(2**0.5, np.float32), np.array(0.5, np.float32), np.array(1, np.float32)
SCALARS = {"root": ROOT, "inverse": 1 / ROOT, "half": HALF, "one": ONE}
ERF = [op("Div", ["x", "root"], ["a"]), op("Erf", ["a"], ["b"]), op("Add", ["b", "one"], ["c"])]
TAILS = [
    [op("Mul", ["x", "c"], ["d"]), op("Mul", ["d", "half"], ["y"])],
    [op("Mul", ["c", "half"], ["d"]), op("Mul", ["x", "d"], ["y"])],
    [op("Mul", ["x", "half"], ["d"]), op("Mul", ["d", "c"], ["y"])],
]


@pytest.mark.parametrize("tail", TAILS)
def test_gelu_with_erf(tail, tmp_path: Path) -> None:
    graph = check(gelu, [*ERF, *tail], X, SCALARS, tmp_path)
    assert types(graph) == ["Gelu"]
    assert len(graph.nodes[-1].origin) == 5
    scaled = [op("Mul", ["inverse", "x"], ["a"]), *ERF[1:], *tail]
    assert types(check(gelu, scaled, X, SCALARS, tmp_path)) == ["Gelu"]


@pytest.mark.parametrize("power", ["Pow", "Mul"])
def test_gelu_with_tanh(power, tmp_path: Path) -> None:
    cube = [op("Pow", ["x", "three"], ["p"])]
    if power == "Mul":
        cube = [op("Mul", ["x", "x"], ["q"]), op("Mul", ["q", "x"], ["p"])]
    nodes = [
        *cube,
        op("Mul", ["p", "k"], ["r"]),
        op("Add", ["x", "r"], ["s"]),
        op("Mul", ["s", "t"], ["a"]),
        op("Tanh", ["a"], ["b"]),
        op("Add", ["b", "one"], ["c"]),
        *TAILS[2],
    ]
    constants = SCALARS | {
        "three": np.array(3, np.float32),
        "k": np.array(0.044715, np.float32),
        "t": np.array((2 / np.pi) ** 0.5, np.float32),
    }
    graph = check(gelu, nodes, X, constants, tmp_path)
    assert types(graph) == ["Gelu"]
    assert graph.nodes[-1].attrs == {"approximate": "tanh"}


def test_what_only_looks_like_gelu_stays(tmp_path: Path) -> None:
    check(gelu, [*ERF, *TAILS[0]], X, SCALARS | {"half": np.array(0.4, np.float32)}, tmp_path, count=(0, 0))
    check(gelu, [*ERF, *TAILS[0]], X, SCALARS, tmp_path, ("y", "c"), count=(0, 0))
    flipped = [op("Div", ["root", "x"], ["a"]), *ERF[1:], *TAILS[0]]
    check(gelu, flipped, X, SCALARS, tmp_path, count=(0, 0))


def test_layer_norm(tmp_path: Path) -> None:
    def chain(mean_attrs: dict, extra: list[str], square):
        return [
            op("ReduceMean", ["x", *extra], ["m"], **mean_attrs),
            op("Sub", ["x", "m"], ["d"]),
            square,
            op("ReduceMean", ["p", *extra], ["v"], **mean_attrs),
            op("Add", ["v", "eps"], ["e"]),
            op("Sqrt", ["e"], ["s"]),
            op("Div", ["d", "s"], ["q"]),
            op("Mul", ["q", "gamma"], ["g"]),
            op("Add", ["g", "beta"], ["y"]),
        ]

    constants = {
        "two": np.array(2, np.float32),
        "eps": np.array(1e-5, np.float32),
        "gamma": rand(8),
        "beta": rand(8, seed=1),
    }
    inputs = {"x": [2, 5, 8]}
    graph = check(layer_norm, chain({"axes": [-1]}, [], op("Pow", ["d", "two"], ["p"])), inputs, constants, tmp_path)
    assert types(graph) == ["LayerNorm"]
    node = graph.nodes[-1]
    assert node.attrs["begin_norm_axis"] == -1
    assert [value.name for value in node.inputs[:3] if value is not None] == ["x", "gamma", "beta"]
    axes = {"axes": np.array([2], np.int64)}
    graph = check(
        layer_norm, chain({}, ["axes"], op("Mul", ["d", "d"], ["p"])), inputs, constants | axes, tmp_path, opset=18
    )
    assert types(graph) == ["LayerNorm"]
    check(
        layer_norm, chain({"axes": [1]}, [], op("Pow", ["d", "two"], ["p"])), inputs, constants, tmp_path, count=(0, 0)
    )


def test_mish_and_squares(tmp_path: Path) -> None:
    nodes = [op("Softplus", ["x"], ["a"]), op("Tanh", ["a"], ["b"]), op("Mul", ["x", "b"], ["y"])]
    assert types(check(mish, nodes, X, {}, tmp_path)) == ["Mish"]
    check(mish, nodes, X, {}, tmp_path, ("y", "b"), count=(0, 0))
    assert types(check(mul_square, [op("Mul", ["x", "x"], ["y"])], X, {}, tmp_path)) == ["Square"]
    two = {
        "two": np.array(2, np.float32),
        "wide": np.full((3, 1, 1, 1, 1), 2, np.float32),
        "three": np.array(3, np.float32),
    }
    assert types(check(pow_square, [op("Pow", ["x", "two"], ["y"])], X, two, tmp_path)) == ["Square"]
    check(pow_square, [op("Pow", ["x", "three"], ["y"])], X, two, tmp_path, count=(0, 0))
    one = {"wide": np.full((1, 1, 1, 1, 1), 2, np.float32)}
    check(pow_square, [op("Pow", ["x", "wide"], ["y"])], X, one, tmp_path, count=(0, 0))


def test_convolution_and_relu_are_one_node(tmp_path: Path) -> None:
    graph = check(conv_relu, [CONV_BIAS, op("Relu", ["c"], ["y"])], X, W | B, tmp_path)
    node = graph.nodes[-1]
    assert (node.type, node.name) == ("Conv2D", "Conv_0Relu_1")
    assert node.attrs["relu_flag"] is True
    assert node.input_names == ["x", "filter", "bias"]
    assert len(node.origin) == 2
    check(conv_relu, [CONV, op("Relu", ["c"], ["y"])], X, W, tmp_path, ("y", "c"), count=(0, 0))


def test_what_bodies_take_by_name_stays(tmp_path: Path) -> None:
    def body(kind: str, name: str):
        result = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        return helper.make_graph([op(kind, [name], ["z"])], "body", [], [result])

    nodes = [
        op("Identity", ["x"], ["i"]),
        op("Relu", ["x"], ["r"]),
        op("Relu", ["x"], ["s"]),
        op("If", ["c"], ["a"], then_branch=body("Abs", "i"), else_branch=body("Neg", "r")),
        op("If", ["c"], ["b"], then_branch=body("Exp", "i"), else_branch=body("Neg", "s")),
        op("Add", ["a", "b"], ["t"]),
        op("Sub", ["t", "i"], ["y"]),
    ]
    made = model(nodes, {"x": [2, 3], "c": (TensorProto.BOOL, [])}, ["y"])
    graph = load(made, tmp_path)
    order.run(graph, Switches(), FusionReport())
    for choice in (True, False):
        feeds = {"x": rand(2, 3), "c": np.array(choice)}
        np.testing.assert_allclose(compute(graph, feeds)[0], original(made, feeds)[0], rtol=1e-6)


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_the_whole_order_on_a_block(tmp_path: Path) -> None:
    nodes = [
        op("Pad", ["x", "pads"], ["p"]),
        op("Conv", ["p", "w"], ["c0"]),
        op("Add", ["c0", "k"], ["c1"]),
        op("Mul", ["c1", "k"], ["c"]),
        NORM,
        op("Relu", ["y"], ["r"]),
        op("Identity", ["r"], ["i"]),
        op("Conv", ["i", "v"], ["z"]),
    ]
    weights = (
        W | norm_weights(8) | {"k": rand(8, 1, 1), "v": rand(2, 8, 1, 1), "pads": np.array([0, 0, 1, 1] * 2, np.int64)}
    )
    made = model(nodes, X, ["z"], weights)
    graph = load(made, tmp_path)
    report = FusionReport()
    order.run(graph, Switches(), report)
    assert types(graph) == ["Conv2D", "Conv2D"]
    assert report.counts("ConvBatchnormFusionPass") == (1, 1)
    assert report.counts("TbeCommonRules0FusionPass") == (1, 1)
    feeds = {"x": rand(2, 4, 6, 6, seed=11)}
    np.testing.assert_allclose(compute(graph, feeds)[0], original(made, feeds)[0], rtol=1e-4, atol=1e-4)


def test_switched_off_passes_do_not_run(tmp_path: Path) -> None:
    made = model([CONV, NORM, op("Relu", ["y"], ["z"])], X, ["z"], W | norm_weights(8))
    graph = load(made, tmp_path)
    order.run(graph, Switches({"GraphFusion": {"ALL": False}, "UBFusion": {"ALL": False}}), report := FusionReport())
    assert types(graph) == ["Conv2D", "BatchNorm", "Relu"]
    assert report.content() == [{"session_and_graph_id_0_0": {"graph_fusion": {}, "ub_fusion": {}}}]


UNARY = ["Relu", "Sigmoid", "Tanh", "Identity", "Neg", "Softplus", "Dropout", "Cast", "Transpose", "Erf", "Abs"]
CHANNELS = 4


def random_model(seed: int):
    """A random graph of pictures of one size: chains that passes know, loose ends, shared values, constants."""
    rng = np.random.default_rng(seed)
    nodes, values, weights = [], ["x"], {}

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights[name] = (rng.standard_normal(shape) * 0.5).astype(np.float32)
        return name

    def add(kind: str, *inputs: str, **attrs) -> None:
        values.append(f"v{len(nodes)}")
        nodes.append(op(kind, list(inputs), [values[-1]], **attrs))

    for _ in range(int(rng.integers(6, 18))):
        x = values[-1] if rng.random() < 0.7 else str(rng.choice(values))
        choice = int(rng.integers(0, 9))
        if choice <= 2:
            kind = str(rng.choice(UNARY))
            attrs = {"Cast": {"to": 1}, "Transpose": {"perm": [0, 1, 3, 2]}}.get(kind, {})
            add(kind, x, **attrs)
        elif choice == 3:
            add(
                "Conv",
                x,
                weight(CHANNELS, CHANNELS, 3, 3),
                *([weight(CHANNELS)] if rng.random() < 0.5 else []),
                pads=[1, 1, 1, 1],
            )
        elif choice == 4:
            shapes = [(CHANNELS, 1, 1), (), (1, 1, 1, 1), (5, 5), (1, CHANNELS, 1, 1)]
            constant = weight(*shapes[int(rng.integers(len(shapes)))])
            pair = (x, constant) if rng.random() < 0.5 else (constant, x)
            add(str(rng.choice(["Mul", "Add"])), *pair)
        elif choice == 5:
            statistics = [weight(CHANNELS) for _ in range(4)]
            weights[statistics[3]] = np.abs(weights[statistics[3]]) + 0.5
            add("BatchNormalization", x, *statistics)
        elif choice == 6:
            add(str(rng.choice(["Add", "Mul", "Max"])), x, str(rng.choice(values)))
        elif choice == 7:
            weights["two"] = np.array(2, np.float32)
            add("Tanh", x)
            add("Pow", values[-1], "two")
        else:
            add("Softplus", x)
            add("Tanh", values[-1])
            add("Mul", x, values[-1])
    outputs = list(dict.fromkeys([values[-1], str(rng.choice(values[1:]))]))
    return model(nodes, {"x": [1, CHANNELS, 5, 5]}, outputs, weights)


@pytest.mark.parametrize("seed", range(40))
def test_any_sequence_of_passes_keeps_the_numbers(seed: int, tmp_path: Path) -> None:
    made = random_model(seed)
    graph = load(made, tmp_path)
    feeds = {"x": rand(1, CHANNELS, 5, 5, seed=seed) * 0.5}
    expected = original(made, feeds)
    steps = list(order.ORDER)
    if seed % 2:
        np.random.default_rng(seed).shuffle(steps)
    for step in steps:
        match, effect = step.run(graph)
        assert 0 <= effect <= match
        graph.verify()
    names = [value.name for value in graph.values()]
    assert len(names) == len(set(names))
    for mine, theirs in zip(compute(graph, feeds), expected, strict=True):
        scale = max(1.0, float(np.abs(theirs).max()))
        np.testing.assert_allclose(mine / scale, theirs / scale, atol=1e-5)


def test_passes_are_linear() -> None:
    """Ten times the nodes may not take much more than ten times as long."""

    def graph_of(count: int) -> Graph:
        graph = Graph("g", {"": 13})
        value = graph.data_node("x", 0, (1, 4)).output
        for index in range(count):
            kind = ("Relu", "Identity", "Neg", "Sigmoid")[index % 4]
            out = Value(f"v{index}", 0, (1, 4))
            source = Source([{"op_type": kind, "input": [value.name], "output": [out.name]}], [value.name], [out.name])
            graph.add(Node(f"n{index}", kind, [value], [out], source=source, origin=[f"n{index}"]))
            value = out
        graph.outputs.append(Output(value, "y"))
        return graph

    def seconds(count: int) -> float:
        graph = graph_of(count)
        begin = time.process_time()
        order.run(graph, Switches(), FusionReport())
        return time.process_time() - begin

    seconds(200)
    assert seconds(20000) < 40 * seconds(2000) + 0.5
