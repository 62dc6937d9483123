"""Operators of the ONNX table and their relatives, against NumPy formulas and ONNX's reference evaluator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from softnpu import ops
from softnpu.base.dtypes import from_numpy
from softnpu.compiler.lowering.infer import encode_model, infer_node
from softnpu.compiler.lowering.lower import lower, site_of
from softnpu.graph.ir import Graph
from softnpu.graph.onnx_def import make_tensor, make_value_info

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)


class Const:
    """An input that the graph holds as a constant."""

    def __init__(self, value: Any) -> None:
        self.array = np.asarray(value)


def run(
    type_: str, inputs: list[Any], outputs: int = 1, formats: dict[int, int] | None = None, **attrs: Any
) -> list[Array]:
    """Build a graph of one operator, infer, run it, and compare what was inferred with what came out."""
    graph = Graph("one")
    values: list[Any] = []
    feeds = {}
    for index, given in enumerate(inputs):
        if given is None:
            values.append(None)
        elif isinstance(given, Const):
            values.append(graph.const(given.array))
        else:
            node = graph.data_node(
                f"x{index}", from_numpy(given.dtype.name), given.shape, (formats or {}).get(index, 2)
            )
            feeds[f"x{index}"] = given
            values.append(node.output)
    node = graph.op(type_, values, "op", outputs, **attrs)
    infer_node(graph, node)
    results = _engine(graph, node, feeds)
    for value, result in zip(node.outputs, results, strict=True):
        assert value.dtype == from_numpy(result.dtype.name)
        if value.shape is not None:
            assert len(value.shape) == result.ndim
            assert all(known in (-1, real) for known, real in zip(value.shape, result.shape, strict=True))
    return results


def _engine(graph: Graph, node: Any, feeds: dict[str, Array]) -> list[Array]:
    import onnxruntime

    if node.attrs.get("groups", 1) != 1 and node.type == "TransData":
        operator = ops.find(node.type)
        assert operator is not None and operator.compute is not None
        return list(operator.compute(site_of(node), *feeds.values()))
    lowered = lower(graph)
    if lowered.host:
        operator = ops.find(node.type)
        assert operator is not None and operator.compute is not None
        arrays = [
            None if value is None else value.const.array() if value.const else feeds[value.name]
            for value in node.inputs
        ]
        return list(operator.compute(site_of(node), *arrays))
    inputs = [make_value_info(one.output.name, one.output.dtype, one.output.shape) for one in graph.inputs]
    weights = [make_tensor(one.output.name, one.data) for one in graph.nodes if one.data is not None]
    weights += [make_tensor(key, data) for key, data in lowered.constants.items()]
    data = encode_model(
        graph, lowered.nodes, inputs, [{"name": value.name} for value in node.outputs], weights, lowered.domains
    )
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return [np.asarray(one) for one in session.run(None, feeds)]


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def close(found: Array, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        found.astype(np.float64), np.asarray(expected, np.float64), rtol=tolerance, atol=tolerance
    )


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return np.asarray([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.reshape(-1).astype(float)]).reshape(
        x.shape
    )


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


X = floats(3, 8)
CELU = np.maximum(0, 3 * X) + np.minimum(0, 1.5 * (np.exp(X / 2) - 1))
ELEMENTWISE: list[tuple[str, dict[str, Any], Any]] = [
    ("Gelu", {}, gelu_tanh(X)),
    ("GeluV2", {}, gelu(X)),
    ("GeluV2", {"approximate": "tanh"}, gelu_tanh(X)),
    ("FastGelu", {}, X * sigmoid(1.702 * X)),
    ("Swish", {}, X * sigmoid(X)),
    ("Swish", {"scale": 2.0}, X * sigmoid(2 * X)),
    ("SwiGlu", {}, X[:, :4] * sigmoid(X[:, :4]) * X[:, 4:]),
    ("HardSigmoid", {"alpha": 0.2, "beta": 0.4}, np.clip(0.2 * X + 0.4, 0, 1)),
    ("HardSwish", {}, X * np.clip(X + 3, 0, 6) / 6),
    ("HardMax", {}, X.max(axis=1, keepdims=True) == X),
    ("HardMax", {"axis": 0}, X.max(axis=0, keepdims=True) == X),
    ("Celu", {"alpha1": 1.5, "alpha2": 2.0, "alpha3": 3.0}, CELU),
    ("CeluV2", {"alpha": 2.0}, np.maximum(0, X) + np.minimum(0, 2 * (np.exp(X / 2) - 1))),
    ("Shrink", {"lambd": 0.6, "bias": 0.1}, np.where(X < -0.6, X + 0.1, np.where(X > 0.6, X - 0.1, 0))),
    ("ThresholdedRelu", {"alpha": 0.3}, np.where(X > 0.3, X, 0)),
    ("Muls", {"value": 2.5}, X * 2.5),
    ("Adds", {"value": 2.5}, X + 2.5),
    ("TensorMove", {}, X),
    ("SquareSumV1", {"axis": [1]}, (X**2).sum(1, keepdims=True)),
    ("SquareSumV1", {"axis": [0, 1], "keep_dims": False}, (X**2).sum()),
    ("LpNormV2", {"p": 1.0, "axes": [1]}, np.abs(X).sum(1)),
    ("LpNormV2", {"axes": [0], "keepdim": True}, np.sqrt((X**2).sum(0, keepdims=True))),
    ("LpNormV2", {"p": math.inf}, np.abs(X).max()),
    ("LpNormV2", {"p": 0.0, "axes": [0]}, np.full(8, 3.0)),
    ("LpNormV2", {"p": 3.0, "axes": [1]}, (np.abs(X) ** 3).sum(1) ** (1 / 3)),
    ("MVNV2", {"axes": [1]}, (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)),
    ("Unsqueeze", {"axes": [0, 3]}, X[None, :, :, None]),
    ("Trilu", {"upper": 0}, np.tril(X)),
    ("ConfusionTransposeD", {"perm": [1, 0], "shape": [4, 6], "transpose_first": True}, X.T.reshape(4, 6)),
    ("ConfusionTransposeD", {"perm": [1, 0], "shape": [4, 6], "transpose_first": False}, X.reshape(4, 6).T),
    ("Flatten", {"axis": 0}, X.reshape(1, 24)),
]


@pytest.mark.parametrize(
    ("type_", "attrs", "expected"), ELEMENTWISE, ids=[f"{row[0]}-{i}" for i, row in enumerate(ELEMENTWISE)]
)
def test_of_one_input(type_: str, attrs: dict[str, Any], expected: Any) -> None:
    close(run(type_, [X], **attrs)[0], expected)


@pytest.mark.parametrize("type_", ["Gelu", "Swish", "Muls", "Celu"])
def test_half_precision_stays(type_: str) -> None:
    half = X.astype(np.float16)
    found = run(type_, [half], **({"value": 2.0} if type_ == "Muls" else {}))[0]
    assert found.dtype == np.float16
    expected = {
        "Gelu": gelu_tanh(X),
        "Swish": X * sigmoid(X),
        "Muls": 2 * X,
        "Celu": np.maximum(0, X) + np.minimum(0, np.exp(X) - 1),
    }
    close(found, expected[type_], 1e-2)


def test_of_several_inputs() -> None:
    y, z = floats(3, 8), floats(3, 8)
    close(run("Axpy", [X, y], alpha=0.5)[0], X + 0.5 * y)
    close(run("FusedMulAdd", [X, y, z])[0], X * y + z)
    close(run("AccumulateNV2", [X, y, z], N=3)[0], X + y + z)
    assert run("CastLike", [X, np.zeros(1, np.int32)])[0].dtype == np.int32
    close(run("Einsum", [X, y], equation="ij,kj->ik")[0], X @ y.T)
    close(run("MatrixDeterminant", [floats(2, 3, 3) * 0 + np.diag([1, 2, 3]).astype(np.float32)])[0], [6, 6])
    gated, active = run("GeGluV2", [X], outputs=2, approximate=0)
    close(active, gelu(X[:, 4:]))
    close(gated, X[:, :4] * gelu(X[:, 4:]))
    close(
        run("Expand", [X[:, None], Const(np.array([2, 1, 2, 8], np.int32))])[0],
        np.broadcast_to(X[:, None], (2, 3, 2, 8)),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint32])
def test_shifts_keep_the_sign(dtype: Any) -> None:
    low = -100 if np.issubdtype(dtype, np.signedinteger) else 0
    x, count = RNG.integers(low, 100, 20).astype(dtype), RNG.integers(0, 5, 20).astype(dtype)
    np.testing.assert_array_equal(run("LeftShift", [x, count])[0], np.left_shift(x, count))
    np.testing.assert_array_equal(run("RightShift", [x, count])[0], np.right_shift(x, count))


def test_bits() -> None:
    x, y = RNG.integers(-100, 100, 20, np.int32), RNG.integers(-100, 100, 20, np.int32)
    np.testing.assert_array_equal(run("BitwiseAnd", [x, y])[0], x & y)
    np.testing.assert_array_equal(run("BitwiseOr", [x, y])[0], x | y)
    np.testing.assert_array_equal(run("BitwiseXor", [x, y])[0], x ^ y)
    np.testing.assert_array_equal(run("Invert", [x])[0], ~x)


@pytest.mark.parametrize(
    ("kind", "result"), [(np.float16, np.float16), (np.float16, np.float32), (np.float32, np.float32)]
)
def test_gemm_of_floats(kind: Any, result: Any) -> None:
    a, b, c = floats(5, 3).astype(kind), floats(5, 4).astype(kind), floats(3, 4).astype(result)
    alpha, beta = np.array([2], result), np.array([0.5], result)
    found = run("GEMM", [a, b, c, alpha, beta], transpose_a=True)[0]
    assert found.dtype == result
    close(found, 2 * (a.T.astype(np.float64) @ b.astype(np.float64)) + 0.5 * c, 1e-5 if result != np.float16 else 1e-2)


@pytest.mark.parametrize("result", [np.int32, np.float32])
def test_gemm_of_int8(result: Any) -> None:
    a, b = RNG.integers(-128, 128, (4, 6), np.int8), RNG.integers(-128, 128, (5, 6), np.int8)
    c = RNG.integers(-9, 9, (4, 5)).astype(result)
    found = run("GEMM", [a, b, c, np.array([3], result), np.array([2], result)], transpose_b=True)[0]
    np.testing.assert_array_equal(found, 3 * (a.astype(np.int64) @ b.T.astype(np.int64)) + 2 * c)


def test_picking_and_scattering() -> None:
    data, index = floats(4, 5), RNG.integers(0, 4, (2, 5), np.int32)
    close(run("GatherElements", [data, index])[0], np.take_along_axis(data, index, 0))
    places, rows = np.array([[1], [3]], np.int32), floats(2, 5)
    expected = data.copy()
    expected[[1, 3]] = rows
    for type_ in ("ScatterNdUpdate", "TensorScatterUpdate"):
        close(run(type_, [data, places, rows])[0], expected)
    expected = data.copy()
    expected[[1, 3]] += rows
    close(run("ScatterNdAdd", [data, places, rows])[0], expected)
    close(
        run("ScatterNdMax", [data, places, rows])[0],
        np.vstack([data[0], np.maximum(data[1], rows[0]), data[2], np.maximum(data[3], rows[1])]),
    )
    close(
        run("ScatterNdMin", [data, places, rows])[0],
        np.vstack([data[0], np.minimum(data[1], rows[0]), data[2], np.minimum(data[3], rows[1])]),
    )
    spots = np.stack([RNG.permutation(5)[:2] for _ in range(4)]).astype(np.int64)
    updates, expected = floats(4, 2), data.copy()
    np.put_along_axis(expected, spots, updates, 1)
    close(run("ScatterElements", [data, spots, updates], axis=1)[0], expected)


def test_pieces_and_places() -> None:
    x = np.array([[0, 1.5], [2.0, 0]], np.float32)
    np.testing.assert_array_equal(run("NonZero", [x])[0], np.argwhere(x))
    np.testing.assert_array_equal(run("NonZero", [x], transpose=True)[0], np.array(np.nonzero(x)))
    assert run("NonZero", [x], dtype=3)[0].dtype == np.int32
    cut = [Const(np.array(one, np.int64)) for one in ([1, 0], [3, 5], [0, 1], [1, 2])]
    close(run("StridedSliceV2", [X, *cut])[0], X[1:3, 0:5:2])
    close(run("SqueezeV3", [X[:, None], Const([1])])[0], X)
    close(run("UnsqueezeV3", [X, Const([1])])[0], X[:, None])
    np.testing.assert_array_equal(run("Trilu", [X, Const(np.array(1, np.int32))])[0], np.triu(X, 1))
    values = np.array([[3, 1], [3, 2]], np.int64)
    y, place, count = run("UniqueWithCountsAndSorting", [values], outputs=3)
    expected = np.unique(values, return_inverse=True, return_counts=True)
    for found, wanted in zip(
        (y, place.reshape(-1), count), (expected[0], expected[1].reshape(-1), expected[2]), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_padding() -> None:
    pairs = Const(np.array([[1, 0], [2, 3]], np.int32))
    close(run("PadV3", [X, pairs, Const(np.float32(7))])[0], np.pad(X, [(1, 0), (2, 3)], constant_values=7))
    close(run("PadV3", [X, pairs], mode="reflect")[0], np.pad(X, [(1, 0), (2, 3)], mode="reflect"))
    close(run("PadV3", [X, pairs], mode="edge")[0], np.pad(X, [(1, 0), (2, 3)], mode="edge"))
    close(
        run("PadV3", [X, Const(np.array([1, 2, 0, 3], np.int64))], paddings_contiguous=False)[0],
        np.pad(X, [(1, 0), (2, 3)]),
    )


def test_reductions_with_axes_as_input() -> None:
    x = np.abs(X) + 0.1
    for axes in (Const(np.array([1], np.int32)), np.array([1], np.int32)):
        close(run("ReduceLogSum", [x, axes])[0], np.log(x.sum(1)))
        close(run("ReduceLogSumExp", [x, axes], keep_dims=True)[0], np.log(np.exp(x).sum(1, keepdims=True)))


def test_pools_and_resize() -> None:
    x = floats(2, 3, 4, 4)
    close(run("GlobalAveragePool", [x])[0], x.mean((2, 3), keepdims=True))
    close(run("GlobalLpPool", [x], p=2.0)[0], np.sqrt((x**2).sum((2, 3), keepdims=True)))
    sizes = Const(np.array([2, 3, 8, 8], np.int64))
    nearest = run(
        "Resize",
        [x, None, None, sizes],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )[0]
    close(nearest, x.repeat(2, 2).repeat(2, 3))
    linear = run("Resize", [x, None, Const(np.array([1, 1, 2, 2], np.float32))], mode="linear")[0]
    import cv2

    close(linear[0, 0], cv2.resize(x[0, 0], (8, 8), interpolation=cv2.INTER_LINEAR))


def reference(type_: str, inputs: list[Array], outputs: int = 1, opset: int = 20, **attrs: Any) -> list[Array]:
    """ONNX's own evaluator."""
    import onnx
    import onnx.reference

    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(outputs)]
    node = onnx.helper.make_node(type_, names, results, **attrs)
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for name, one in zip(names, inputs, strict=True)
    ]
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [
        np.asarray(one)
        for one in onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    ]


@pytest.mark.parametrize(("mode", "word"), [("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_grid_sampling(mode: str, word: str, padding: str) -> None:
    reach = (
        0.3 if mode == "bicubic" else 1.1
    )  # at the border the evaluator and the engines read the cubic rule differently
    x, grid = floats(1, 2, 5, 6), RNG.uniform(-reach, reach, (1, 3, 4, 2)).astype(np.float32)
    expected = reference("GridSample", [x, grid], mode=word, padding_mode=padding, align_corners=1)[0]
    close(
        run("GridSampler2D", [x, grid], interpolation_mode=mode, padding_mode=padding, align_corners=True)[0],
        expected,
        1e-4,
    )


def test_grid_sampling_of_volumes() -> None:
    x, grid = floats(1, 2, 3, 4, 5), RNG.uniform(-1, 1, (1, 2, 2, 2, 3)).astype(np.float32)
    expected = reference("GridSample", [x, grid], mode="linear")[0]
    close(run("GridSampler3D", [x, grid])[0], expected, 1e-4)


def test_losses_and_boxes() -> None:
    scores, labels = floats(4, 6), RNG.integers(0, 6, 4, np.int64)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    loss, log = run("SoftmaxCrossEntropyLoss", [scores, labels], outputs=2)
    close(loss, -logs[np.arange(4), labels].mean())
    close(log, logs)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 5, 1, 6]]], np.float32)
    limits = [Const(np.array([9], np.int32)), Const(np.array([0.5], np.float32)), Const(np.array([0.0], np.float32))]
    found = run("NonMaxSuppressionV6", [boxes, np.array([[[0.9, 0.8, 0.7]]], np.float32), *limits])[0]
    np.testing.assert_array_equal(found, np.array([[0, 0, 0], [0, 0, 2]], np.int32))


def test_layer_norms() -> None:
    x, gamma, beta = floats(2, 3, 8), floats(8), floats(8)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    found = run("LayerNorm", [x, gamma, beta], outputs=3, begin_norm_axis=-1, begin_params_axis=-1, epsilon=1e-5)
    for one, wanted in zip(found, (expected, mean, variance), strict=True):
        close(one, wanted)
    found = run("LayerNormV3", [x, gamma, beta], outputs=3, begin_norm_axis=2)
    close(found[2], 1 / np.sqrt(variance + 1e-5))
    half = run(
        "LayerNorm",
        [x.astype(np.float16), gamma.astype(np.float16), beta.astype(np.float16)],
        outputs=3,
        begin_norm_axis=2,
    )
    assert half[0].dtype == np.float16
    close(half[0], expected, 3e-2)


def test_root_mean_square_norms() -> None:
    x, other, gamma = floats(2, 3, 8), floats(2, 3, 8), floats(8)
    rstd = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    found = run("RmsNorm", [x, gamma], outputs=2)
    close(found[0], x * rstd * gamma)
    close(found[1], rstd)
    total = x + other
    rstd = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6)
    found = run("AddRmsNorm", [x, other, gamma], outputs=3)
    close(found[0], total * rstd * gamma)
    close(found[2], total)
    assert run("RmsNorm", [x.astype(np.float16), gamma.astype(np.float16)], outputs=2)[1].dtype == np.float32


def test_instance_and_group_norms() -> None:
    x, gamma, beta = floats(2, 6, 4, 5), floats(6), floats(6)
    scale, shift = gamma.reshape(1, 6, 1, 1), beta.reshape(1, 6, 1, 1)
    mean, variance = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-6) * scale + shift
    close(run("InstanceNorm", [x, gamma, beta], outputs=3, data_format="NCHW")[0], expected)
    last = run("InstanceNorm", [x.transpose(0, 2, 3, 1).copy(), gamma, beta], outputs=3, data_format="NHWC")[0]
    close(last, expected.transpose(0, 2, 3, 1))
    flat = x.reshape(2, 3, -1)
    mean, variance = flat.mean(2), flat.var(2)
    normal = ((flat - mean[..., None]) / np.sqrt(variance[..., None] + 1e-4)).reshape(x.shape) * scale + shift
    found = run("GroupNorm", [x, gamma, beta], outputs=3, num_groups=3, eps=1e-4)
    for one, wanted in zip(found, (normal, mean, variance), strict=True):
        close(one, wanted)
    silu = run("GroupNormSilu", [x, gamma, beta], outputs=3, num_groups=3, eps=1e-4)
    close(silu[0], normal * sigmoid(normal))
    close(silu[2], 1 / np.sqrt(variance + 1e-4))


def test_rotary_embedding() -> None:
    x, cos, sin = floats(1, 2, 3, 8), floats(1, 2, 1, 8), floats(1, 2, 1, 8)
    turned = np.concatenate([-x[..., 4:], x[..., :4]], -1)
    close(run("RotaryMul", [x, cos, sin])[0], x * cos + turned * sin)
    turned = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
    close(run("RotaryMul", [x, cos, sin], mode=1)[0], x * cos + turned * sin)


def test_transposed_convolutions() -> None:
    x, w, bias = floats(1, 4, 5, 6), floats(4, 3, 3, 2), floats(3)
    attrs = {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2], "dilations": [1, 2]}
    expected = reference("ConvTranspose", [x, w, bias], **attrs)[0]
    zero = Const(np.zeros(4, np.int32))
    cann = {"strides": [1, 1, 2, 3], "pads": [1, 0, 0, 1], "dilations": [1, 1, 1, 2], "data_format": "NCHW"}
    close(run("Conv2DTranspose", [zero, x, w, bias], output_padding=[0, 0, 1, 2], **cann)[0], expected, 1e-4)
    size = Const(np.array(expected.shape, np.int32))
    close(run("Conv2DTranspose", [size, x, w, bias], **cann)[0], expected, 1e-4)
    cann = {
        "strides": [1, 2, 3, 1],
        "pads": [1, 0, 0, 1],
        "dilations": [1, 1, 2, 1],
        "output_padding": [0, 1, 2, 0],
        "data_format": "NHWC",
    }
    last = run("Conv2DTranspose", [zero, x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy(), bias], **cann)[
        0
    ]
    close(last, expected.transpose(0, 2, 3, 1), 1e-4)


def test_transposed_convolution_of_volumes() -> None:
    x, w = floats(1, 2, 3, 3, 4), floats(2, 3, 2, 2, 2)
    expected = np.zeros((1, 3, 6, 4, 5), np.float32)
    for d in range(3):
        for h in range(3):
            for v in range(4):
                expected[0, :, 2 * d : 2 * d + 2, h : h + 2, v : v + 2] += np.einsum(
                    "i,iodhw->odhw", x[0, :, d, h, v], w
                )
    found = run(
        "Conv3DTranspose",
        [Const(np.zeros(5, np.int32)), x, w],
        strides=[1, 1, 2, 1, 1],
        pads=[0] * 6,
        data_format="NCDHW",
    )[0]
    close(found, expected, 1e-4)


def test_columns_to_picture() -> None:
    x = floats(1, 2 * 4, 9)
    sizes = [Const(np.array([4, 4], np.int32)), Const(np.array([2, 2], np.int32))]
    expected = np.zeros((1, 2, 4, 4), np.float32)
    columns = x.reshape(1, 2, 2, 2, 3, 3)
    for i in range(2):
        for j in range(2):
            expected[:, :, i : i + 3, j : j + 3] += columns[:, :, i, j]
    for given in (x, x.reshape(1, 2, 4, 9)):
        close(run("Col2ImV2", [given, *sizes], dilation=[1, 1], padding=[0, 0], stride=[1, 1])[0], expected)


def test_common_recurrent() -> None:
    x, w, r, b = floats(4, 2, 3), floats(1, 20, 3), floats(1, 20, 5), floats(1, 40)
    expected = reference("LSTM", [x, w, r, b], outputs=3, opset=14, hidden_size=5)
    for found, wanted in zip(run("CommonLSTM", [x, w, r, b], outputs=3, hidden_size=5), expected, strict=True):
        close(found, wanted, 1e-4)
    w, r, b = floats(1, 15, 3), floats(1, 15, 5), floats(1, 30)
    expected = reference("GRU", [x, w, r, b], outputs=2, opset=14, hidden_size=5, linear_before_reset=1)
    for found, wanted in zip(
        run("CommonGRU", [x, w, r, b], outputs=2, hidden_size=5, linear_before_reset=1), expected, strict=True
    ):
        close(found, wanted, 1e-4)


def test_dynamic_rnn_is_the_lstm_of_onnx() -> None:
    x, w, r, b = floats(4, 2, 3), floats(20, 3), floats(20, 5), floats(20)
    y, _, last = reference(
        "LSTM", [x, w[None], r[None], np.concatenate([b, b * 0])[None]], outputs=3, opset=14, hidden_size=5
    )
    i, o, f, c = (np.split(one, 4) for one in (w, r, b, b))  # ONNX stacks i, o, f, c
    columns = np.concatenate([i[k] for k in (0, 3, 2, 1)]).T
    inner = np.concatenate([o[k] for k in (0, 3, 2, 1)]).T
    bias = np.concatenate([f[k] for k in (0, 3, 2, 1)])
    assert len(c) == 4
    found = run("DynamicRNN", [x, np.concatenate([columns, inner]), bias], outputs=8)
    close(found[0], y[:, 0], 1e-4)
    close(found[2][-1], last[0], 1e-4)
    lengths = np.array([2, 4], np.int32)
    short = run("DynamicRNN", [x, np.concatenate([columns, inner]), bias, lengths], outputs=8)
    close(short[0][2:, 0], np.zeros((2, 5)))
    close(short[1][-1][0], y[1, 0, 0], 1e-4)


@pytest.mark.parametrize("after", [True, False])
def test_dynamic_gru_is_the_gru_of_onnx(after: bool) -> None:
    x, w, r, bi, bh = floats(4, 2, 3), floats(15, 3), floats(15, 5), floats(15), floats(15)
    y, _ = reference(
        "GRU",
        [x, w[None], r[None], np.concatenate([bi, bh])[None]],
        outputs=2,
        opset=14,
        hidden_size=5,
        linear_before_reset=int(after),
    )
    found = run("DynamicGRUV2", [x, w.T.copy(), r.T.copy(), bi, bh], outputs=6, reset_after=after)
    close(found[0], y[:, 0], 1e-4)


def test_random_numbers_have_their_distribution() -> None:
    shape = Const(np.array([200, 100], np.int32))
    normal = run("RandomStandardNormal", [shape], dtype=0, seed=3)[0]
    assert abs(float(normal.mean())) < 0.05
    assert abs(float(normal.std()) - 1) < 0.05
    uniform = run("RandomUniform", [shape], dtype=1, seed=3)[0]
    assert uniform.dtype == np.float16
    assert uniform.min() >= 0 and uniform.max() <= 1 and abs(float(uniform.astype(np.float32).mean()) - 0.5) < 0.02
    whole = run("RandomUniformInt", [shape, np.array(-3, np.int32), np.array(5, np.int32)], seed=3)[0]
    assert set(np.unique(whole)) == set(range(-3, 5))
    chance = np.full((100, 100), 0.3, np.float32)
    seed, offset = np.array([5], np.int64), np.array([0], np.int64)
    first = run("StatelessBernoulliV2", [chance, seed, offset], dtype=12)[0]
    assert abs(first.mean() - 0.3) < 0.02
    np.testing.assert_array_equal(first, run("StatelessBernoulliV2", [chance, seed, offset], dtype=12)[0])
    drawn = run("Multinomial", [np.log(np.array([[0.25, 0.75]], np.float32)), Const(np.int32(4000))], dtype=3, seed=3)[
        0
    ]
    assert abs(float(drawn.mean()) - 0.75) < 0.05


def test_quantising() -> None:
    x = floats(4, 6) * 40
    expected = np.clip(np.rint(x * np.float32(1.5) + 3), -128, 127)
    np.testing.assert_array_equal(run("AscendQuant", [x], scale=1.5, offset=3.0)[0], expected.astype(np.int8))
    scale, offset = np.abs(floats(6)) + 0.5, floats(6)
    expected = np.clip(np.rint(x * scale + offset), -128, 127)
    np.testing.assert_array_equal(run("AscendQuantV2", [x, scale, offset])[0], expected.astype(np.int8))
    np.testing.assert_array_equal(
        run("AscendQuant", [x], scale=1.0, offset=0.0, round_mode="Floor")[0], np.clip(np.floor(x), -128, 127)
    )
    expected = np.clip(np.rint(x / 0.5) + 10, 0, 255)
    half = np.array([0.5], np.float32)
    np.testing.assert_array_equal(
        run("Quantize", [x, half, np.array([10], np.int32)], dtype="torch.quint8")[0], expected.astype(np.uint8)
    )
    y, scales = run("DynamicQuant", [x.astype(np.float16)], outputs=2)
    wide = x.astype(np.float16).astype(np.float32)
    close(scales, np.abs(wide).max(1) / 127)
    assert np.abs(y - wide / (np.abs(wide).max(1, keepdims=True) / 127)).max() <= 0.5001


def test_dequantising() -> None:
    x, scale = RNG.integers(-1000, 1000, (2, 3, 4), np.int32), np.abs(floats(3)) + 0.1
    expected = x * scale[None, :, None]
    close(run("AscendDequant", [x, scale])[0], expected, 1e-4)
    words = Const(scale.view(np.uint32).astype(np.uint64))
    close(run("AscendDequant", [x, words], relu_flag=True)[0], np.maximum(expected, 0), 1e-4)
    a, b = RNG.integers(-128, 128, (4, 6), np.int8), RNG.integers(-128, 128, (5, 6), np.int8)
    column, row, bias = np.abs(floats(5)), np.abs(floats(4)), RNG.integers(-9, 9, 5, np.int32)
    product = (a.astype(np.int64) @ b.T.astype(np.int64) + bias) * column * row[:, None]
    close(run("QuantBatchMatmulV3", [a, b, column, None, bias, row], dtype=0, transpose_x2=True)[0], product, 1e-3)
    x2, offset = floats(3, 6), floats(5)
    expected = x2 @ ((b.T + offset) * column)
    close(run("WeightQuantBatchMatmulV2", [x2, b.T.copy(), column, offset])[0], expected, 1e-3)


def test_storage_layouts_by_their_definition() -> None:
    x = floats(2, 20, 3, 4)
    five = run("TransData", [x], src_format="NCHW", dst_format="NC1HWC0")[0]
    assert five.shape == (2, 2, 3, 4, 16)
    assert five[1, 1, 2, 3, 3] == x[1, 19, 2, 3]
    assert not five[:, 1, :, :, 4:].any()
    matrix = floats(18, 40)
    nz = run("TransData", [matrix], src_format="ND", dst_format="FRACTAL_NZ")[0]
    assert nz.shape == (3, 2, 16, 16)
    assert nz[2, 1, 1, 7] == matrix[17, 39]
    whole = RNG.integers(-9, 9, (18, 40), np.int8)
    nz = run("TransData", [whole], src_format="ND", dst_format="FRACTAL_NZ")[0]
    assert nz.shape == (2, 2, 16, 32)
    assert nz[1, 1, 1, 7] == whole[17, 39]
    filters = floats(20, 18, 3, 2)
    fractal = run("TransData", [filters], src_format="NCHW", dst_format="FRACTAL_Z")[0]
    assert fractal.shape == (2 * 3 * 2, 2, 16, 16)
    assert fractal[(1 * 3 + 2) * 2 + 1, 1, 3, 1] == filters[19, 17, 2, 1]
    small = run("TransData", [filters[:, :3].copy()], src_format="NCHW", dst_format="FRACTAL_Z_C04")[0]
    assert small.shape == (2, 2, 16, 16)
    assert small[1, 1, 3, 6] == filters[19, 2, 2, 1]  # k = (2 · 2 + 1) · 4 + 2 = 22


@pytest.mark.parametrize(
    ("source", "target", "shape", "groups"),
    [
        ("NCHW", "NC1HWC0", (2, 20, 3, 4), 1), ("NHWC", "NC1HWC0", (2, 3, 4, 20), 1), ("NCHW", "FRACTAL_Z", (20, 18, 3, 2), 1),
        ("HWCN", "FRACTAL_Z", (3, 2, 18, 20), 1), ("NCHW", "FRACTAL_Z", (12, 2, 3, 3), 6), ("NCHW", "FRACTAL_Z_C04", (20, 3, 3, 2), 1),
        ("ND", "FRACTAL_NZ", (3, 18, 40), 1), ("ND", "FRACTAL_NZ", (33,), 1), ("ND", "FRACTAL_ZZ", (18, 40), 1),
        ("NCDHW", "NDC1HWC0", (2, 20, 2, 3, 4), 1), ("NCDHW", "FRACTAL_Z_3D", (20, 18, 2, 3, 2), 1), ("NCHW", "NHWC1C0", (2, 20, 3, 4), 1),
        ("NCHW", "NHWC", (2, 3, 4, 5), 1), ("NCHW", "NC1HWC0_C04", (2, 3, 4, 5), 1),
    ],
)  # fmt: skip
def test_storage_layouts_there_and_back(source: str, target: str, shape: tuple[int, ...], groups: int) -> None:
    x = floats(*shape)
    stored = run("TransData", [x], src_format=source, dst_format=target, groups=groups)[0]
    graph = Graph("back")
    node = graph.op(
        "TransData",
        [graph.data_node("x", 0, stored.shape).output],
        "op",
        src_format=target,
        dst_format=source,
        groups=groups,
    )
    node.output.shape = shape
    infer_node(graph, node)
    operator = ops.find("TransData")
    assert operator is not None and operator.compute is not None
    np.testing.assert_array_equal(operator.compute(site_of(node), stored)[0], x)
    np.testing.assert_array_equal(_engine(graph, node, {"x": stored})[0], x)


def test_what_cannot_be_built_says_why() -> None:
    from softnpu.compiler.errors import AtcError

    for type_, inputs, attrs, word in (
        ("GeluV2", [X], {"approximate": "erf"}, "approximate"),
        ("Muls", [X], {}, "value"),
        ("SwiGlu", [floats(2, 3)], {}, "even"),
        ("StridedSliceV2", [X, Const([0]), Const([1])], {"begin_mask": 1}, "begin_mask"),
        ("TransData", [X], {"src_format": "NCHW", "dst_format": "NC1HWC0"}, "NCHW"),
        ("AscendQuant", [X], {"scale": 1.0, "offset": 0.0, "dst_type": 29}, "dst_type"),
    ):
        with pytest.raises(AtcError, match=word):
            run(type_, inputs, **attrs)
