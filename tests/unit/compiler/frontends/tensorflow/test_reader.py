"""Frozen TensorFlow graphs, written here message by message, against NumPy formulas."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from softnpu.base.dtypes import from_numpy
from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.tensorflow import table
from softnpu.compiler.frontends.tensorflow.proto import GRAPH, constant_of
from softnpu.compiler.frontends.tensorflow.reader import read
from softnpu.compiler.lowering.infer import encode_model
from softnpu.compiler.lowering.lower import lower
from softnpu.graph.ir import Graph
from softnpu.graph.onnx_def import make_tensor, make_value_info
from softnpu.graph.wire import encode

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
F = np.float32
TYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "float16": 19,
}


def rnd(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F)


def attr(value: Any) -> dict[str, Any]:
    """An AttrValue of a Python value; a type object is a data type, a tuple a shape."""
    if isinstance(value, bool):
        return {"b": value}
    if isinstance(value, int):
        return {"i": value}
    if isinstance(value, float):
        return {"f": value}
    if isinstance(value, str):
        return {"s": value.encode()}
    if isinstance(value, type):
        return {"type": TYPES[np.dtype(value).name]}
    if isinstance(value, tuple):
        return {"shape": {"dim": [{"size": dim} for dim in value]}}
    if isinstance(value, list):
        return {"list": {"i": value}}
    assert isinstance(value, np.ndarray)
    return {"tensor": tensor(value)}


def tensor(array: Array) -> dict[str, Any]:
    shape = {"dim": [{"size": dim} for dim in array.shape]}
    return {
        "dtype": TYPES[array.dtype.name],
        "tensor_shape": shape,
        "tensor_content": np.ascontiguousarray(array).tobytes(),
    }


class Net:
    """A GraphDef in the making."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []

    def op(self, kind: str, name: str, *inputs: str, **attrs: Any) -> str:
        attributes = {key: value if isinstance(value, dict) else attr(value) for key, value in attrs.items()}
        self.nodes.append({"name": name, "op": kind, "input": list(inputs), "attr": attributes})
        return name

    def const(self, name: str, value: Any, dtype: Any = None) -> str:
        array = np.asarray(value, dtype)
        if dtype is None and array.dtype == np.int64:
            array = array.astype(np.int32)
        return self.op("Const", name, dtype=array.dtype.type, value=array)

    def input(self, name: str, *shape: int, dtype: Any = F) -> str:
        return self.op("Placeholder", name, dtype=dtype, shape=tuple(shape))

    def data(self) -> bytes:
        return encode(GRAPH, {"node": self.nodes, "versions": {"producer": 1000}})

    def read(self, folder: Path, **shapes: list[int]) -> Graph:
        return self.read_all(folder, shapes)[0]

    def read_all(self, folder: Path, shapes: dict[str, list[int]], form: str = "NHWC") -> tuple[Graph, list[str]]:
        path = folder / "model.pb"
        path.write_bytes(self.data())
        return read(path, "model", form, shapes)


def run(graph: Graph, **feeds: Array) -> list[Array]:
    low = lower(graph)
    assert not low.host
    inputs = [make_value_info(node.output.name, node.output.dtype, node.output.shape) for node in graph.inputs]
    weights = [make_tensor(node.output.name, node.data) for node in graph.nodes if node.data is not None]
    weights += [make_tensor(name, constant) for name, constant in low.constants.items()]
    data = encode_model(
        graph, low.nodes, inputs, [{"name": output.value.name} for output in graph.outputs], weights, low.domains
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    results: list[Array] = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    for output, array in zip(graph.outputs, results, strict=True):
        assert output.value.dtype == from_numpy(np.asarray(array).dtype.name)
        if output.value.shape is not None:
            assert all(said in (-1, real) for said, real in zip(output.value.shape, np.shape(array), strict=True))
    return results


def same(computed: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    wanted = np.asarray(wanted)
    assert np.shape(computed) == wanted.shape and np.asarray(computed).dtype == wanted.dtype
    np.testing.assert_allclose(computed, wanted, rtol=tolerance, atol=tolerance)


def naive_conv(x: Array, w: Array, stride: int, pads: list[int], rate: int = 1) -> Array:
    """NHWC data, HWIO filter, by loops."""
    x = np.pad(x, [(0, 0), pads[:2], pads[2:], (0, 0)])
    kh, kw = ((size - 1) * rate + 1 for size in w.shape[:2])
    oh, ow = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    y = np.zeros((x.shape[0], oh, ow, w.shape[3]), F)
    for i, j in itertools.product(range(oh), range(ow)):
        patch = x[:, i * stride : i * stride + kh : rate, j * stride : j * stride + kw : rate]
        y[:, i, j] = np.tensordot(patch, w, ([1, 2, 3], [0, 1, 2]))
    return y


def types(graph: Graph) -> list[str]:
    return [node.type for node in graph.nodes if node.type not in ("Const", "Data")]


# ---- whole models ------------------------------------------------------------------------------------------------------


def test_a_classifier_computes_what_numpy_does(tmp_path: Path) -> None:
    net = Net()
    w, bias, scale, offset, mean = rnd(3, 3, 3, 4), rnd(4), rnd(4), rnd(4), rnd(4)
    variance, dense = np.abs(rnd(4)) + F(0.5), rnd(4, 5)
    net.input("image", -1, 8, 7, 3)
    net.op("Conv2D", "conv", "image", net.const("w", w), strides=[1, 2, 2, 1], padding="SAME", data_format="NHWC", T=F)
    net.op("BiasAdd", "biased", "conv", net.const("b", bias))
    net.op(
        "FusedBatchNormV3", "bn", "biased", net.const("s", scale), net.const("o", offset), net.const("m", mean), net.const("v", variance),
        epsilon=0.001, is_training=False, data_format="NHWC",
    )  # fmt: skip
    net.op("Relu6", "relu", "bn")
    net.op("MaxPool", "pool", "relu", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME")
    net.op("Mean", "mean", "pool", net.const("axes", [1, 2]), keep_dims=False)
    net.op("MatMul", "dense", "mean", net.const("dense/w", dense.T.copy()), transpose_b=True)
    net.op("Softmax", "probabilities", "dense")
    graph = net.read(tmp_path, image=[2, 8, 7, 3])
    assert types(graph) == ["Conv2D", "BiasAdd", "BatchNorm", "Relu6", "MaxPool", "ReduceMean", "MatMul", "SoftmaxV2"]
    assert [output.name for output in graph.outputs] == ["probabilities:0"]
    assert graph.framework == 3 and graph.inputs[0].output.format == 1
    conv = graph.node("conv")
    assert conv is not None and conv.attrs["pads"] == [0, 1, 1, 1] and conv.output.shape == (2, 4, 4, 4)
    x = rnd(2, 8, 7, 3)
    y = naive_conv(x, w, 2, [0, 1, 1, 1]) + bias
    y = ((y - mean) / np.sqrt(variance + F(0.001)) * scale + offset).clip(0, 6)
    padded = np.pad(y, [(0, 0), (0, 1), (0, 1), (0, 0)], constant_values=-np.inf)
    y = np.max([padded[:, i : i + 4, j : j + 4] for i in (0, 1) for j in (0, 1)], axis=0)
    logits = y.mean((1, 2)) @ dense
    wanted = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    same(run(graph, image=x)[0], wanted.astype(F))


def test_a_free_batch_stays_free(tmp_path: Path) -> None:
    net = Net()
    w = rnd(3, 3, 3, 2)
    net.input("image", -1, 6, 6, 3)
    net.op("Conv2D", "conv", "image", net.const("w", w), strides=[1, 1, 1, 1], padding="SAME")
    flatten(net, "conv", 72)
    graph = net.read(tmp_path)
    assert types(graph) == ["Conv2D", "Reshape"]
    assert graph.outputs[0].value.shape == (-1, 72)
    x = rnd(3, 6, 6, 3)
    same(run(graph, image=x)[0], naive_conv(x, w, 1, [1, 1, 1, 1]).reshape(3, 72))


def flatten(net: Net, source: str, width: int) -> None:
    """What tf.layers.flatten writes: Shape → StridedSlice → Pack → Reshape."""
    net.op("Shape", "flat/shape", source, out_type=np.int32)
    for name, value in (("a", [0]), ("b", [1]), ("c", [1])):
        net.const(f"flat/{name}", value)
    net.op("StridedSlice", "flat/slice", "flat/shape", "flat/a", "flat/b", "flat/c", shrink_axis_mask=1)
    net.op("Pack", "flat/pack", "flat/slice", net.const("flat/width", width), N=2, axis=0)
    net.op("Reshape", "flat", source, "flat/pack")


def test_shape_arithmetic_ends_static(tmp_path: Path) -> None:
    net = Net()
    net.input("x", -1, 4, 6)
    flatten(net, "x", 24)
    graph = net.read(tmp_path, x=[5, 4, 6])
    assert types(graph) == ["Reshape"]
    assert graph.outputs[0].value.shape == (5, 24)


def test_arithmetic_on_dims(tmp_path: Path) -> None:
    """Heads of attention: [batch, 4, 6] → [batch, 4, 2, 3], all numbers computed from the shape."""
    net = Net()
    net.input("x", -1, 4, 6)
    net.op("Shape", "shape", "x")
    net.op("Unpack", "dims", "shape", num=3, axis=0)
    net.op("FloorDiv", "part", "dims:2", net.const("two", 2))
    net.op("Cast", "same", "part", DstT=np.int32)
    net.op("Mul", "product", "same", net.const("one", 1))
    net.op("Pack", "wanted", "dims", "dims:1", "two", "product", N=4)
    net.op("Reshape", "y", "x", "wanted")
    x = rnd(3, 4, 6)
    fixed = net.read(tmp_path, x=[3, 4, 6])
    assert types(fixed) == ["Reshape"]
    same(run(fixed, x=x)[0], x.reshape(3, 4, 2, 3))
    graph = net.read(tmp_path)
    same(run(graph, x=x)[0], x.reshape(3, 4, 2, 3))


def test_what_depends_on_an_unknown_dim_is_not_folded(tmp_path: Path) -> None:
    net = Net()
    net.input("x", -1, -1)
    net.op("Shape", "shape", "x")
    net.op("Prod", "count", "shape", net.const("zero", [0]))
    net.op("Sub", "less", "count", net.const("one", 1))
    net.op("Size", "size", "x")
    graph = net.read(tmp_path)
    same(run(graph, x=rnd(3, 5))[0], np.int32(14))
    same(run(graph, x=rnd(2, 2))[1], np.int32(4))


def test_a_decoder_computes_what_numpy_does(tmp_path: Path) -> None:
    """Transposed convolution whose output shape is computed, resizing, a skip connection."""
    net = Net()
    w = rnd(3, 3, 2, 4)
    net.input("x", -1, 5, 6, 4)
    net.op("Shape", "shape", "x")
    net.op(
        "StridedSlice",
        "batch",
        "shape",
        net.const("a", [0]),
        net.const("b", [1]),
        net.const("c", [1]),
        shrink_axis_mask=1,
    )
    net.op("Pack", "size", "batch", net.const("h", 10), net.const("wd", 12), net.const("ch", 2), N=4)
    net.op("Conv2DBackpropInput", "up", "size", net.const("w", w), "x", strides=[1, 2, 2, 1], padding="SAME")
    net.op("ResizeNearestNeighbor", "near", "x", net.const("target", [10, 12]))
    net.op("ConcatV2", "both", "up", "near", net.const("axis", 3), N=2)
    x = rnd(2, 5, 6, 4)
    wanted = np.zeros((2, 11, 13, 2), F)
    for i, j, a, b in itertools.product(range(5), range(6), range(3), range(3)):
        wanted[:, 2 * i + a, 2 * j + b] += x[:, i, j] @ w[a, b].T
    wanted = np.concatenate([wanted[:, :10, :12], x.repeat(2, 1).repeat(2, 2)], -1)
    for shapes in ({}, {"x": [2, 5, 6, 4]}):
        graph = net.read(tmp_path, **shapes)
        assert types(graph) == (
            ["Conv2DBackpropInput", "ResizeNearestNeighborV2", "ConcatV2"] if shapes else types(graph)
        )
        same(run(graph, x=x)[0], wanted)


# ---- single operators through the tables ---------------------------------------------------------------------------------


def result_of(tmp_path: Path, kind: str, operands: list[Any], result: int = 0, **attrs: Any) -> Array:
    """The first result of an operator: arrays are placeholders, ("c", value) are constants."""
    net, names, feeds = Net(), [], {}
    for index, operand in enumerate(operands):
        if isinstance(operand, tuple):
            names.append(net.const(f"c{index}", operand[1]))
        else:
            names.append(net.input(f"x{index}", *operand.shape, dtype=operand.dtype.type))
            feeds[f"x{index}"] = operand
    net.op(kind, "op", *names, **attrs)
    graph = net.read(tmp_path)
    assert graph.outputs[result].name == f"op:{result}"
    return run(graph, **feeds)[result]


IMAGE = rnd(1, 5, 6, 4)


def test_convolutions_compute_what_numpy_does(tmp_path: Path) -> None:
    w = rnd(3, 2, 4, 3)
    unit = [1, 1, 1, 1]
    explicit = {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 1, 0, 0], "strides": unit}
    same(result_of(tmp_path, "Conv2D", [IMAGE, ("c", w)], **explicit), naive_conv(IMAGE, w, 1, [2, 1, 0, 1]))
    dilated = {"padding": "VALID", "strides": unit, "dilations": [1, 2, 2, 1]}
    same(result_of(tmp_path, "Conv2D", [IMAGE, w], **dilated), naive_conv(IMAGE, w, 1, [0] * 4, 2))
    first = np.ascontiguousarray(np.moveaxis(IMAGE, -1, 1))
    computed = result_of(tmp_path, "Conv2D", [first, ("c", w)], strides=unit, padding="VALID", data_format="NCHW")
    same(computed, np.moveaxis(naive_conv(IMAGE, w, 1, [0] * 4), -1, 1))
    halves = rnd(3, 2, 2, 6)
    parts = [naive_conv(IMAGE[..., 2 * g : 2 * g + 2], halves[..., 3 * g : 3 * g + 3], 1, [1, 1, 0, 1]) for g in (0, 1)]
    same(result_of(tmp_path, "Conv2D", [IMAGE, ("c", halves)], strides=unit, padding="SAME"), np.concatenate(parts, -1))
    deep = rnd(3, 3, 4, 2)
    parts = [naive_conv(IMAGE[..., c : c + 1], deep[:, :, c : c + 1], 2, [1, 1, 0, 1]) for c in range(4)]
    computed = result_of(tmp_path, "DepthwiseConv2dNative", [IMAGE, ("c", deep)], strides=[1, 2, 2, 1], padding="SAME")
    same(computed, np.concatenate(parts, -1))
    volume, kernel = rnd(1, 3, 4, 4, 2), rnd(3, 4, 4, 2, 5)
    computed = result_of(tmp_path, "Conv3D", [volume, ("c", kernel)], strides=[1] * 5, padding="VALID")
    same(computed, np.tensordot(volume[0], kernel, 4)[None, None, None, None])


def test_pools_compute_what_numpy_does(tmp_path: Path) -> None:
    attrs: dict[str, Any] = {"ksize": [1, 5, 6, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    same(result_of(tmp_path, "MaxPool", [IMAGE], **attrs), IMAGE.max((1, 2), keepdims=True))
    same(result_of(tmp_path, "AvgPool", [IMAGE], **attrs), IMAGE.mean((1, 2), keepdims=True))
    computed = result_of(tmp_path, "MaxPoolV2", [IMAGE, ("c", [1, 5, 6, 1]), ("c", [1, 1, 1, 1])], padding="VALID")
    same(computed, IMAGE.max((1, 2), keepdims=True))
    volume = rnd(1, 2, 2, 3, 2)
    cube: dict[str, Any] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    same(result_of(tmp_path, "AvgPool3D", [volume], **cube)[0, 0, 0, 1], volume[0, :, :, 2].mean((0, 1)))
    same(result_of(tmp_path, "MaxPool3D", [volume], **cube)[0, 0, 0, 0], volume[0, :, :, :2].max((0, 1, 2)))


def test_resizes_compute_what_numpy_does(tmp_path: Path) -> None:
    at = (np.arange(10) + 0.5) * 0.5 - 0.5
    low, high = np.clip(np.floor(at), 0, 4).astype(int), np.clip(np.ceil(at), 0, 4).astype(int)
    part = (at - np.floor(at))[None, :, None, None]
    wanted = IMAGE[:, low] * (1 - part) + IMAGE[:, high] * part
    same(result_of(tmp_path, "ResizeBilinear", [IMAGE, ("c", [10, 6])], half_pixel_centers=True), wanted.astype(F))
    picture = np.arange(20, dtype=np.uint8).reshape(1, 4, 5, 1)
    same(result_of(tmp_path, "ResizeNearestNeighbor", [picture, ("c", [2, 5])]), picture[:, ::2])
    assert result_of(tmp_path, "ResizeBilinear", [picture, ("c", [2, 5])]).dtype == F


X = rnd(2, 3, 4)
SINGLE: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "Add": ([X, X], {}, X + X), "AddV2": ([X, X], {}, X + X), "AddN": ([X, X, X], {"N": 3}, 3 * X), "Abs": ([X], {}, np.abs(X)),
    "ArgMax": ([X, ("c", 1)], {"output_type": np.int32}, X.argmax(1).astype(np.int32)), "ArgMin": ([X, ("c", -1)], {}, X.argmin(-1)),
    "BatchMatMulV2": ([X, X], {"adj_y": True}, X @ X.transpose(0, 2, 1)), "BatchMatMul": ([X, X], {"adj_x": True}, X.transpose(0, 2, 1) @ X),
    "All": ([X > -1, ("c", [0])], {}, (X > -1).all(0)), "Any": ([X > 1, ("c", [0])], {"keep_dims": True}, (X > 1).any(0, keepdims=True)),
    "Cast": ([X], {"DstT": np.int32}, X.astype(np.int32)), "Concat": ([("c", 1), X, X], {"N": 2}, np.concatenate([X, X], 1)),
    "Cumsum": ([X, ("c", 1)], {"reverse": True}, X[:, ::-1].cumsum(1)[:, ::-1]), "Einsum": ([X, X], {"equation": "abc, adc -> abd"}, X @ X.transpose(0, 2, 1)),
    "ExpandDims": ([X, ("c", 1)], {}, X[:, None]), "Fill": ([("c", [2, 2]), np.array(3, F)], {}, np.full((2, 2), 3, F)),
    "FloorMod": ([X, ("c", F(0.5))], {}, np.mod(X, F(0.5))), "Gather": ([X, ("c", [1, 0])], {"validate_indices": True}, X[[1, 0]]),
    "GatherV2": ([X, ("c", [1, 0]), ("c", 2)], {}, X[..., [1, 0]]), "GatherNd": ([X, ("c", [[1, 0]])], {}, X[[1], [0]]),
    "LeakyRelu": ([X], {"alpha": 0.25}, np.where(X > 0, X, X / 4)), "LogSoftmax": ([X], {}, X - np.log(np.exp(X).sum(-1, keepdims=True))),
    "Max": ([X, ("c", [1, 2])], {}, X.max((1, 2))), "Min": ([X, ("c", 0)], {}, X.min(0)), "Prod": ([X, ("c", 0)], {}, X.prod(0)),
    "Sum": ([X, ("c", -1)], {"keep_dims": True}, X.sum(-1, keepdims=True)), "Maximum": ([X, ("c", F(0.1))], {}, np.maximum(X, F(0.1))),
    "MirrorPad": ([X, ("c", [[0, 0], [1, 1], [0, 2]])], {"mode": "REFLECT"}, np.pad(X, [(0, 0), (1, 1), (0, 2)], "reflect")),
    "OneHot": ([np.array([0, 2], np.int32), ("c", 3), ("c", F(1)), ("c", F(0))], {}, np.eye(3, dtype=F)[[0, 2]]),
    "Pad": ([X, ("c", [[0, 1], [0, 0], [2, 0]])], {}, np.pad(X, [(0, 1), (0, 0), (2, 0)])),
    "PadV2": ([X, ("c", [[0, 1], [0, 0], [2, 0]]), ("c", F(9))], {}, np.pad(X, [(0, 1), (0, 0), (2, 0)], constant_values=9)),
    "Range": ([np.array(0, np.int32), ("c", 5), ("c", 2)], {}, np.arange(0, 5, 2, np.int32)), "RealDiv": ([X, ("c", F(2))], {}, X / 2),
    "Reshape": ([X, ("c", [-1, 4])], {}, X.reshape(6, 4)), "ReverseV2": ([X, ("c", [1])], {}, X[:, ::-1]), "Rsqrt": ([np.abs(X)], {}, 1 / np.sqrt(np.abs(X))),
    "Select": ([X > 0, X, -X], {}, np.abs(X)), "SelectV2": ([X > 0, X, ("c", F(0))], {}, np.maximum(X, 0)), "Slice": ([X, ("c", [0, 1, 0]), ("c", [-1, 2, 3])], {}, X[:, 1:3, :3]),
    "SpaceToDepth": ([rnd(1, 2, 2, 1)[:, :, :, :] * 0 + 1], {"block_size": 2}, np.ones((1, 1, 1, 4), F)),
    "SpaceToBatchND": ([X, ("c", [3]), ("c", [[0, 0]])], {}, X.transpose(1, 0, 2)[:, :, None].reshape(6, 1, 4)),
    "SquaredDifference": ([X, ("c", F(1))], {}, (X - 1) ** 2), "Squeeze": ([X[:, :1]], {"squeeze_dims": [1]}, X[:, 0]),
    "StridedSlice": ([X, ("c", [0, 3]), ("c", [0, 0]), ("c", [1, -2])], {"ellipsis_mask": 1, "end_mask": 2}, X[..., 3::-2]),
    "Tile": ([X, ("c", [1, 2, 1])], {}, np.tile(X, (1, 2, 1))), "Transpose": ([X, ("c", [2, 1, 0])], {}, X.T), "TruncateDiv": ([X, ("c", F(2))], {}, X / 2),
    "Where": ([X > 0], {}, np.argwhere(X > 0)), "TopKV2": ([X, ("c", 2)], {}, -np.sort(-X, -1)[..., :2]), "TopK": ([X], {"k": 1}, X.max(-1, keepdims=True)),
    "Split": ([("c", 2), X], {"num_split": 2}, X[..., :2]), "SplitV": ([X, ("c", [3, 1]), ("c", 2)], {"num_split": 2}, X[..., :3]),
    "Unpack": ([X], {"num": 3, "axis": 1}, X[:, 0]), "Pack": ([X, X], {"axis": 2, "N": 2}, np.stack([X, X], 2)),
    "ClipByValue": ([X, ("c", F(-1)), ("c", F(1))], {}, X.clip(-1, 1)), "BroadcastTo": ([X, ("c", [2, 2, 3, 4])], {}, np.stack([X, X])),
    "LRN": ([IMAGE], {"depth_radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75}, None),
}  # fmt: skip


@pytest.mark.parametrize("kind", SINGLE)
def test_a_single_operator_computes_what_numpy_does(tmp_path: Path, kind: str) -> None:
    operands, attrs, wanted = SINGLE[kind]
    if kind == "LRN":
        padded = np.pad(IMAGE**2, [(0, 0), (0, 0), (0, 0), (1, 1)])
        wanted = IMAGE / (2 + F(0.5) * (padded[..., :-2] + padded[..., 1:-1] + padded[..., 2:])) ** F(0.75)
    same(result_of(tmp_path, kind, operands, **attrs), wanted)


def test_suppression_without_a_limit_for_scores(tmp_path: Path) -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3]], F)
    scores = np.array([0.5, -0.6, -0.9], F)
    kept = result_of(tmp_path, "NonMaxSuppressionV2", [boxes, scores, ("c", 5), ("c", F(0.5))])
    same(kept, np.array([0, 2], np.int32))
    same(
        result_of(tmp_path, "NonMaxSuppression", [boxes, scores, ("c", 5)], iou_threshold=0.95),
        np.array([0, 1, 2], np.int32),
    )


def test_the_old_normalisation_computes_what_numpy_does(tmp_path: Path) -> None:
    mean, variance, beta, gamma = rnd(4), np.abs(rnd(4)) + F(0.5), rnd(4), rnd(4)
    numbers = [("c", array) for array in (mean, variance, beta, gamma)]
    plain = (IMAGE - mean) / np.sqrt(variance + F(0.01))
    for flag, wanted in ((True, plain * gamma + beta), (False, plain + beta)):
        actual = result_of(
            tmp_path,
            "BatchNormWithGlobalNormalization",
            [IMAGE, *numbers],
            variance_epsilon=0.01,
            scale_after_normalization=flag,
        )
        same(actual, wanted)


def test_every_row_has_an_operator() -> None:
    missing = [op for op in table.ROWS if table.find(op) is None]
    assert not missing


# ---- constants, names, inputs, outputs -----------------------------------------------------------------------------------


def value_of(**message: Any) -> Array:
    return constant_of(message).array()


def shaped(*dims: int) -> dict[str, Any]:
    return {"dim": [{"size": dim} for dim in dims]}


def test_forms_of_constants() -> None:
    same(value_of(dtype=1, tensor_shape=shaped(2, 2), float_val=[1.5]), np.full((2, 2), 1.5, F))
    same(value_of(dtype=1, tensor_shape=shaped(4), float_val=[1.0, 2.0]), np.array([1, 2, 2, 2], F))
    same(value_of(dtype=3, tensor_shape=shaped(), int_val=[-7]), np.int32(-7))
    same(value_of(dtype=3, tensor_shape=shaped(3)), np.zeros(3, np.int32))
    same(value_of(dtype=19, tensor_shape=shaped(2), half_val=[0x3C00, 0xC000]), np.array([1, -2], np.float16))
    same(value_of(dtype=9, tensor_shape=shaped(1), int64_val=[-(1 << 40)]), np.array([-(1 << 40)]))
    same(value_of(dtype=10, tensor_shape=shaped(2), bool_val=[True]), np.array([True, True]))
    same(value_of(dtype=2, tensor_shape=shaped(1), double_val=[0.1]), np.array([0.1]))
    same(value_of(dtype=4, tensor_shape=shaped(2), int_val=[255, 0]), np.array([255, 0], np.uint8))
    same(value_of(dtype=23, tensor_shape=shaped(1), uint64_val=[(1 << 64) - 1]), np.array([(1 << 64) - 1], np.uint64))
    same(value_of(dtype=1, tensor_shape=shaped(0, 3)), np.zeros((0, 3), F))
    same(value_of(dtype=1, tensor_shape=shaped(2), tensor_content=np.array([3, 4], F).tobytes()), np.array([3, 4], F))


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ({"dtype": 8, "tensor_shape": shaped(1)}, "data type 8"),
        ({"dtype": 7, "tensor_shape": shaped(1)}, "strings"),
        ({"dtype": 1, "tensor_shape": shaped(-1)}, "unknown dims"),
        ({"dtype": 1, "tensor_shape": {"unknown_rank": True}}, "unknown dims"),
        ({"dtype": 1, "tensor_shape": shaped(1 << 40, 1 << 20), "float_val": [1.0]}, "would have"),
        ({"dtype": 1, "tensor_shape": shaped(2), "tensor_content": b"abc"}, "holds 3 bytes instead of 8"),
        ({"dtype": 1, "tensor_shape": shaped(1), "float_val": [1.0, 2.0]}, "holds 2 values instead of 1"),
    ],
)
def test_constants_that_cannot_be(tmp_path: Path, message: dict[str, Any], says: str) -> None:
    net = Net()
    net.input("x", 1)
    net.op("Const", "c", value={"tensor": message})
    net.op("Add", "y", "x", "c")
    with pytest.raises(AtcError, match=says) as caught:
        net.read(tmp_path)
    assert caught.value.code == "E14001" and "[c]" in caught.value.message


def test_weights_stay_views_of_the_file(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 1, 64)
    net.op("MatMul", "y", "x", net.const("w", rnd(64, 64)))
    graph = net.read(tmp_path)
    weight = graph.node("w")
    assert weight is not None and weight.data is not None and isinstance(weight.data.data, memoryview)


def test_results_by_number_and_control_inputs(tmp_path: Path) -> None:
    net = Net()
    net.op("Add", "sum", "parts:1", "through", "^check")  # users may stand before their sources
    net.input("x", 2, 4)
    net.op("Split", "parts", net.const("axis", 1), "x:0", num_split=2)
    net.op("StopGradient", "stop", "parts:0")
    net.op("CheckNumerics", "numbers", "stop", message="bad")
    net.op("Identity", "through", "numbers", "^check")
    net.op("Const", "text", value={"tensor": {"dtype": 7, "tensor_shape": shaped(), "string_val": [b"no"]}})
    net.op("Less", "smaller", "x", "x")
    net.op("Assert", "check", "smaller", "text")
    net.op("NoOp", "group", "^sum")
    graph = net.read(tmp_path)
    assert types(graph) == ["Split", "Add"]
    assert [output.name for output in graph.outputs] == ["sum:0"]
    x = rnd(2, 4)
    same(run(graph, x=x)[0], x[:, 2:] + x[:, :2])
    parts = graph.node("parts")
    assert parts is not None and parts.origin == ["parts", "stop", "numbers", "through"]


def test_outputs_are_what_nobody_takes(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2, 4)
    net.op("Relu", "hidden", "x")
    net.op("Identity", "named", "hidden")
    net.op("Identity", "copy", "x")
    net.op("TopKV2", "best", "hidden", net.const("k", 2))
    net.op("Unpack", "rows", "hidden", num=2)
    net.op("Neg", "first", "rows:1")
    net.op("Neg", "fixed", net.const("c", F(2)))
    graph = net.read(tmp_path)
    assert [output.name for output in graph.outputs] == ["named:0", "copy:0", "best:0", "best:1", "first:0", "fixed:0"]
    x = rnd(2, 4)
    computed = run(graph, x=x)
    same(computed[0], np.maximum(x, 0))
    same(computed[1], x)
    same(computed[4], -np.maximum(x[1], 0))
    same(computed[5], F(-2))


def test_only_the_first_result_of_a_normalisation_leaves(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2, 3, 3, 4)
    numbers = [net.const(name, np.ones(4, F)) for name in "smov"]
    net.op("FusedBatchNorm", "bn", "x", *numbers, is_training=False)
    net.op(
        "FusedBatchNorm", "trained", "x", *numbers[:2], net.const("a", np.zeros(0, F)), net.const("b", np.zeros(0, F))
    )
    net.op("Neg", "mean", "trained:1")
    graph = net.read(tmp_path)
    assert [output.name for output in graph.outputs] == ["bn:0", "mean:0"]
    x = rnd(2, 3, 3, 4)
    same(run(graph, x=x)[1], -x.mean((0, 1, 2)))


def test_inputs_keep_names_order_and_told_shapes(tmp_path: Path) -> None:
    net = Net()
    net.input("b", -1, 4)
    net.input("a", 2, 4)
    net.op("Placeholder", "free", dtype=np.int32, shape={"shape": {"unknown_rank": True}})
    net.op("PlaceholderWithDefault", "rate", net.const("default", F(0.5)), dtype=F, shape=())
    net.op("Mul", "scaled", "a", "rate")
    net.op("Add", "y", "b", "scaled")
    net.op("Neg", "z", "free")
    graph, notes = net.read_all(tmp_path, {"b:0": [2, 4], "free": [3]})
    assert [(node.name, node.output.shape) for node in graph.inputs] == [("b", (2, 4)), ("a", (2, 4)), ("free", (3,))]
    assert [node.attrs["index"] for node in graph.inputs] == [0, 1, 2] and not notes
    a = rnd(2, 4)
    same(run(graph, a=a, b=a, free=np.array([1, 2, 3], np.int32))[0], a * F(1.5))
    graph, notes = net.read_all(tmp_path, {"b": [7, 4], "free": [3], "rate": [], "a": [7, 4]})
    assert [node.name for node in graph.inputs] == ["b", "a", "free", "rate"]
    assert notes == ["The input [a] is [2, 4] in the model and becomes [7, 4]"]
    with pytest.raises(AtcError, match=r"\[c\]") as caught:
        net.read_all(tmp_path, {"c": [1]})
    assert caught.value.code == "E10016"
    with pytest.raises(AtcError, match="the model has 2") as caught:
        net.read_all(tmp_path, {"a": [1, 2, 3]})
    assert caught.value.code == "E10049"


def test_formats_of_inputs(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 1, 4, 4, 3)
    net.input("v", 3)
    net.op("BiasAdd", "y", "x", "v")
    for form, number in (("", 1), ("NHWC", 1), ("NCHW", 0), ("ND", 2)):
        graph, _ = net.read_all(tmp_path, {}, form)
        assert [node.output.format for node in graph.inputs] == [number, 2]
        same(run(graph, x=np.zeros((1, 4, 4, 3), F), v=np.ones(3, F))[0], np.ones((1, 4, 4, 3), F))


def test_shapes_of_many(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2, 4)
    net.input("y", 3)
    net.op("ShapeN", "shapes", "x", "y", N=2)
    net.op("ConcatV2", "all", "shapes", "shapes:1", net.const("axis", 0), N=2)
    same(run(net.read(tmp_path), x=rnd(2, 4), y=rnd(3))[0], np.array([2, 4, 3], np.int32))


# ---- what cannot be converted ----------------------------------------------------------------------------------------------


def refused(net: Net, folder: Path) -> AtcError:
    with pytest.raises(AtcError) as caught:
        net.read(folder)
    return caught.value


def test_variables_ask_for_freezing(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2)
    net.op("VariableV2", "v", dtype=F, shape=(2,))
    net.op("Identity", "v/read", "v")
    net.op("Add", "y", "x", "v/read")
    error = refused(net, tmp_path)
    assert error.code == "E12013" and "VariableV2 [v]" in error.message and "freeze the graph" in error.solution


def test_control_flow_is_refused(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2)
    net.input("p", dtype=np.bool_)
    net.op("Switch", "switch", "x", "p")
    net.op("Merge", "merge", "switch", "switch:1")
    error = refused(net, tmp_path)
    assert error.code == "E12009" and "Switch [switch], Merge [merge]" in error.message
    loop = Net()
    loop.input("x", 2)
    loop.op("Add", "a", "x", "b")
    loop.op("Neg", "b", "a")
    loop.op("Neg", "out", "b")
    assert refused(loop, tmp_path).code == "E12009"


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2)
    net.op("Lu", "lu", "x")
    net.op("Bessel", "bessel", "lu")
    net.op("Relu", "y", "bessel")
    error = refused(net, tmp_path)
    assert error.code == "E10501" and "[Bessel], [Lu]" in error.message


def test_damaged_graphs_are_refused(tmp_path: Path) -> None:
    net = Net()
    net.input("x", 2)
    net.op("Relu", "y", "nothing")
    assert "[nothing]" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 2)
    net.op("Relu", "y", "x:3")
    assert "result 3 of [x]" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 2)
    net.op("Relu", "x", "x")
    assert refused(net, tmp_path).code == "E19009"
    net = Net()
    net.input("x", 2)
    assert "no results" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 2)
    net.op("Relu", "", "x")
    assert refused(net, tmp_path).code == "E12004"
    net = Net()
    net.input("x", 2)
    net.op("Add", "y", "x")
    assert "needs 2" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 2)
    net.op("Cast", "y", "x")
    assert "[DstT]" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 2, 3)
    net.op("Unpack", "y", "x", num=-4)
    assert "-4 results" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 1, 4, 4, 3)
    net.op("Conv2D", "y", "x", net.const("w", rnd(3, 3, 2, 5)), strides=[1, 1, 1, 1], padding="SAME")
    assert "no multiple of the 2" in refused(net, tmp_path).message
    net = Net()
    net.input("x", 1, 4, 4, 3)
    net.op("Conv2D", "y", "x", net.const("w", rnd(3, 3, 3, 5)), strides=[1, 0, 1, 1], padding="SAME")
    assert "positive" in refused(net, tmp_path).message


def test_files_that_are_no_graphs(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    with pytest.raises(AtcError) as caught:
        read(path, "m", "NHWC", {})
    assert caught.value.code == "E10410"
    for content in (b"", b"\x00", b"\xff" * 40, b"not a graph at all", b"\x08\x01\x12\x04\x0a\x02\x12\x00"):
        path.write_bytes(content)
        with pytest.raises(AtcError) as caught:
            read(path, "m", "NHWC", {})
        assert caught.value.code == "E10041"


def test_damage_anywhere_is_an_error_or_a_graph(tmp_path: Path) -> None:
    net = Net()
    net.input("x", -1, 4)
    net.op("Reshape", "flat", "x", net.const("shape", [-1]))
    net.op("StridedSlice", "cut", "flat", net.const("a", [0]), net.const("b", [2]), net.const("c", [1]))
    net.op("Pack", "y", "cut", "cut", N=2)
    data = net.data()
    path = tmp_path / "model.pb"
    draw = np.random.default_rng(3)
    for trial in range(300):
        broken = bytearray(data)
        if trial % 3 == 0:
            del broken[draw.integers(1, len(data)) :]
        else:
            for offset in draw.integers(0, len(data), 1 + trial % 3):
                broken[offset] = draw.integers(0, 256)
        path.write_bytes(broken)
        try:
            graph, _ = read(path, "m", "NHWC", {})
        except AtcError:
            continue
        graph.verify()
