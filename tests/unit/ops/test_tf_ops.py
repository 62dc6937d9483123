"""The operators that TensorFlow graphs need, one node each, against NumPy formulas written here."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnxruntime
import pytest

from softnpu.base.dtypes import from_numpy
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import encode_model, infer_node
from softnpu.compiler.lowering.lower import lower
from softnpu.graph.ir import Graph, Output
from softnpu.graph.onnx_def import make_tensor, make_value_info

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
F = np.float32


class C:
    """A constant operand."""

    def __init__(self, value: Any, dtype: Any = None) -> None:
        self.array = np.asarray(value, dtype if dtype is not None else np.asarray(value).dtype)
        if dtype is None and self.array.dtype == np.int64:
            self.array = self.array.astype(np.int32)


def compute(kind: str, *operands: Any, outputs: int = 1, opset: int = 20, free: bool = False, **attrs: Any) -> Any:
    """Run one operator; what inference said must be what comes out. `free` leaves the first dim of the inputs unknown."""
    graph = Graph("g", {"": opset}, 3)
    values, feeds = [], {}
    for index, operand in enumerate(operands):
        if operand is None:
            values.append(None)
        elif isinstance(operand, C):
            values.append(graph.const(operand.array, f"c{index}"))
        else:
            shape = (-1, *operand.shape[1:]) if free and operand.ndim else operand.shape
            values.append(graph.data_node(f"x{index}", from_numpy(operand.dtype.name), shape).output)
            feeds[f"x{index}"] = operand
    node = graph.op(kind, values, "op", outputs, **attrs)
    infer_node(graph, node)
    graph.outputs = [Output(value, value.name) for value in node.outputs]
    low = lower(graph)
    inputs = [make_value_info(one.output.name, one.output.dtype, one.output.shape) for one in graph.inputs]
    weights = [make_tensor(one.output.name, one.data) for one in graph.nodes if one.data is not None]
    weights += [make_tensor(name, constant) for name, constant in low.constants.items()]
    data = encode_model(
        graph, low.nodes, inputs, [{"name": value.name} for value in node.outputs], weights, low.domains
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    found = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    fixed = (
        not free
        and kind not in ("Where", "NonMaxSuppressionV3")
        and all(one is None or isinstance(one, C) for one in operands[1:])
    )
    for value, array in zip(node.outputs, found, strict=True):
        assert value.static or not fixed
        assert value.dtype == from_numpy(np.asarray(array).dtype.name)
        assert value.shape is not None and len(value.shape) == np.ndim(array)
        assert all(said in (-1, real) for said, real in zip(value.shape, np.shape(array), strict=True)), (
            value.shape,
            np.shape(array),
        )
    return found[0] if outputs == 1 else found


def same(found: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    wanted = np.asarray(wanted)
    assert np.shape(found) == wanted.shape
    assert np.asarray(found).dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def rnd(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F)


X = rnd(2, 3, 4)
SMALL = (np.abs(X) % 0.9 + F(0.05)).astype(F)
ODD = np.array([0.0, -0.0, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan], F)

UNARY = {
    "Abs": (X, np.abs), "Neg": (X, np.negative), "Sign": (X, np.sign), "Floor": (X, np.floor), "Ceil": (X, np.ceil), "Rint": (ODD[:5], np.rint),
    "Round": (ODD[:5], np.rint), "Sqrt": (SMALL, np.sqrt), "Reciprocal": (SMALL, lambda x: 1 / x), "Inv": (SMALL, lambda x: 1 / x),
    "Rsqrt": (SMALL, lambda x: 1 / np.sqrt(x)), "Square": (X, np.square), "Exp": (X, np.exp), "Log": (SMALL, np.log),
    "Log1p": (np.array([1e-7, -1e-6, 0.3, -0.7, 5, 1e6], F), np.log1p), "Expm1": (np.array([1e-7, -1e-6, 0.3, -0.7, 5, -20], F), np.expm1),
    "Sigmoid": (X, lambda x: 1 / (1 + np.exp(-x))), "Tanh": (X, np.tanh), "Softplus": (X, lambda x: np.log1p(np.exp(x))),
    "Softsign": (X, lambda x: x / (1 + np.abs(x))), "Elu": (X, lambda x: np.where(x > 0, x, np.expm1(x))),
    "Selu": (X, lambda x: F(1.05070098) * np.where(x > 0, x, F(1.67326324) * np.expm1(x))),
    "Erf": (X, lambda x: np.vectorize(math.erf)(x).astype(F)), "Sin": (X, np.sin), "Cos": (X, np.cos), "Tan": (SMALL, np.tan),
    "Asin": (SMALL, np.arcsin), "Acos": (SMALL, np.arccos), "Atan": (X, np.arctan), "Sinh": (X, np.sinh), "Cosh": (X, np.cosh),
    "Asinh": (X, np.arcsinh), "Acosh": (SMALL + 1, np.arccosh), "Atanh": (SMALL, np.arctanh), "IsNan": (ODD, np.isnan), "IsInf": (ODD, np.isinf),
    "IsFinite": (ODD, np.isfinite), "Identity": (X, lambda x: x), "ZerosLike": (ODD, np.zeros_like), "OnesLike": (ODD, np.ones_like),
    "LogicalNot": (X > 0, np.logical_not), "L2Loss": (X, lambda x: (np.square(x).sum() / 2).astype(F)),
    "Size": (X, lambda x: np.int32(x.size)), "Rank": (X, lambda x: np.int32(x.ndim)), "Shape": (X, lambda x: np.array(x.shape, np.int32)),
    "InvertPermutation": (np.array([3, 0, 2, 1], np.int32), lambda x: np.argsort(x).astype(np.int32)),
    "Where": (X > 0.5, np.argwhere),
    "SoftmaxV2": (X, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "LogSoftmaxV2": (X, lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x, formula = UNARY[kind]
    same(compute(kind, x), formula(x))


@pytest.mark.parametrize("kind", ["Elu", "Softplus", "Tan", "Log1p", "Expm1", "Erf", "Sigmoid", "Rsqrt", "L2Loss"])
def test_doubles_keep_their_type(kind: str) -> None:
    x, formula = UNARY[kind]
    found = compute(kind, x.astype(np.float64))
    assert np.asarray(found).dtype == np.float64
    np.testing.assert_allclose(found, formula(x.astype(np.float64)), rtol=1e-4, atol=1e-6)


def test_attributes_of_element_wise_operators() -> None:
    same(compute("Exp", X, base=2.0, scale=0.5, shift=1.0), np.exp2(X * F(0.5) + 1))
    same(compute("Log", SMALL, base=10.0, scale=3.0, shift=0.5), np.log10(3 * SMALL + F(0.5)))
    same(compute("Round", X, decimals=1), np.round(X, 1))
    same(compute("Elu", X, alpha=0.7, scale=2.0), np.where(X > 0, 2 * X, F(1.4) * np.expm1(X)))
    same(compute("Elu", X, alpha=0.7, input_scale=3.0), np.where(X > 0, X, F(0.7) * np.expm1(3 * X)))
    wanted = np.exp(X) / np.exp(X).sum((0, 2), keepdims=True)
    same(compute("SoftmaxV2", X, axes=[0, -1]), wanted)
    same(compute("LogSoftmaxV2", X, axes=[0, 2]), np.log(wanted))
    same(compute("SoftmaxV2", X, axes=[1], opset=11), np.exp(X) / np.exp(X).sum(1, keepdims=True))
    same(compute("Cast", X * 3, dst_type=3), np.trunc(X * 3).astype(np.int32))
    same(compute("Cast", np.array([0, 2], np.int32), dst_type=12), np.array([False, True]))
    same(compute("Shape", X, dtype=9), np.array([2, 3, 4]))
    same(compute("AddN", X, X, X, N=3), 3 * X)
    same(compute("ClipByValue", X, C(-0.5, F), C(0.5, F)), X.clip(-0.5, 0.5))
    same(
        compute("ClipByValue", np.array([-9, 3], np.int16), C(-5, np.int16), C(2, np.int16)),
        np.array([-5, 2], np.int16),
    )
    with pytest.raises(AtcError, match="base -2"):
        compute("Exp", X, base=-2.0)
    with pytest.raises(AtcError, match="base 1"):
        compute("Log", X, base=1.0)


WHOLE = np.array([[7, -7, 8, -8, 0], [5, 5, -5, 3, 1]], np.int32)
OTHER = np.array([[2, 2, -3, -3, 4], [5, -2, 2, -7, 1]], np.int32)
Y = rnd(3, 4)
BINARY = {
    "Add": (X, Y, np.add), "AddV2": (WHOLE, OTHER, np.add), "Sub": (X, Y, np.subtract), "Mul": (X, Y, np.multiply), "RealDiv": (X, Y, np.divide),
    "Div": (WHOLE, OTHER, lambda a, b: np.trunc(a / b).astype(np.int32)), "FloorDiv": (WHOLE, OTHER, np.floor_divide), "Mod": (WHOLE, OTHER, np.fmod),
    "FloorMod": (WHOLE, OTHER, np.mod), "Pow": (SMALL, Y, np.power), "Maximum": (X, Y, np.maximum), "Minimum": (WHOLE, OTHER, np.minimum),
    "Greater": (WHOLE, OTHER, np.greater), "GreaterEqual": (WHOLE, OTHER, np.greater_equal), "Less": (X, Y, np.less), "LessEqual": (WHOLE, OTHER, np.less_equal),
    "Equal": (WHOLE, OTHER, np.equal), "NotEqual": (WHOLE, OTHER, np.not_equal), "LogicalAnd": (X > 0, Y > 0, np.logical_and),
    "LogicalOr": (X > 0, Y > 0, np.logical_or), "SquaredDifference": (X, Y, lambda a, b: np.square(a - b)),
    "DivNoNan": (X, np.array([0, 2, 0, 4], F), lambda a, b: np.where(b == 0, F(0), a / np.where(b == 0, F(1), b))),
}  # fmt: skip


@pytest.mark.parametrize("kind", BINARY)
def test_binary(kind: str) -> None:
    x, y, formula = BINARY[kind]
    same(compute(kind, x, y), formula(x, y))


def test_binary_in_other_types() -> None:
    floats = (np.array([5.5, -5.5, 5.5, -5.5, -4], F), np.array([2, 2, -2, -2, 2], F))
    same(compute("FloorMod", *floats), np.mod(*floats))
    same(compute("Mod", *floats), np.fmod(*floats))
    same(compute("FloorDiv", *floats), np.floor_divide(*floats))
    same(compute("Maximum", WHOLE.astype(np.int16), OTHER.astype(np.int16)), np.maximum(WHOLE, OTHER).astype(np.int16))
    same(compute("Pow", np.array([2, 3], np.uint8), np.array([3, 4], np.uint8)), np.array([8, 81], np.uint8))
    same(compute("GreaterEqual", X, Y, opset=11), X >= Y)
    same(compute("LessEqual", X, Y, opset=11), X <= Y)
    half = X.astype(np.float16)
    same(compute("Mul", half, half), half * half, 1e-2)


REDUCTIONS = {
    "Mean": np.mean,
    "Sum": np.sum,
    "Max": np.max,
    "Min": np.min,
    "Prod": np.prod,
    "All": np.all,
    "Any": np.any,
}


@pytest.mark.parametrize("word", REDUCTIONS)
def test_reductions(word: str) -> None:
    formula = REDUCTIONS[word]
    x = X > -0.5 if word in ("All", "Any") else X
    same(compute(f"Reduce{word}", x, C([0, -1])), formula(x, axis=(0, 2)))
    same(compute(f"Reduce{word}", x, C(1), keep_dims=True), formula(x, axis=1, keepdims=True))
    same(compute(f"Reduce{word}D", x, axes=[1, 2], keep_dims=True), formula(x, axis=(1, 2), keepdims=True))
    same(compute(f"Reduce{word}D", x, axes=2), formula(x, axis=2))
    same(compute(f"Reduce{word}", x, C(np.zeros(0, np.int32))), x)
    same(compute(f"Reduce{word}D", x, axes=[], noop_with_empty_axes=False), formula(x))
    if word not in ("All", "Any"):
        small = np.array([[1, 2], [3, 1]], np.int8)
        same(compute(f"Reduce{word}D", small, axes=[1]), formula(small, axis=1).astype(np.int8))
        same(compute(f"Reduce{word}D", x, axes=[1], opset=11), formula(x, axis=1))
    with pytest.raises(AtcError, match="axis 3"):
        compute(f"Reduce{word}D", x, axes=[3])


def test_reductions_over_computed_axes() -> None:
    graph = Graph("g", {"": 20}, 3)
    x, axes = graph.data_node("x", 0, (2, 3)).output, graph.data_node("axes", 3, (1,)).output
    node = graph.op("ReduceSum", [x, axes], keep_dims=True)
    infer_node(graph, node)
    assert node.output.dtype == 0


def test_places_of_extremes() -> None:
    same(compute("ArgMaxV2", X, C(1), dtype=3), X.argmax(1).astype(np.int32))
    same(compute("ArgMax", X, C(-1)), X.argmax(-1))
    same(compute("ArgMin", X, C(0)), X.argmin(0))
    same(compute("ArgMaxD", X, dimension=2, dtype=9), X.argmax(2))
    same(compute("ArgMinD", X, dimension=1, dtype=3), X.argmin(1).astype(np.int32))
    same(compute("ArgMaxV2", np.array([3, 1, 3], np.int16), C([0])), np.int64(0))
    with pytest.raises(AtcError, match="dimension 4"):
        compute("ArgMaxD", X, dimension=4)
    with pytest.raises(AtcError, match="dtype 0"):
        compute("ArgMaxD", X, dimension=1, dtype=0)
    with pytest.raises(AtcError, match="constant"):
        compute("ArgMaxV2", X, np.array(1, np.int32))


def test_joining_and_splitting() -> None:
    same(compute("Pack", X, X, axis=1, N=2), np.stack([X, X], 1))
    same(compute("Pack", X, X, axis=-1, N=2), np.stack([X, X], -1))
    for index, part in enumerate(compute("Unpack", X, outputs=3, num=3, axis=1)):
        same(part, X[:, index])
    for index, part in enumerate(compute("Unpack", X, outputs=4, num=4, axis=-1)):
        same(part, X[..., index])
    with pytest.raises(AtcError, match="num 5"):
        compute("Unpack", X, outputs=5, num=5)
    joined = np.concatenate([X, X], 2)
    same(compute("ConcatV2", X, X, C(2), N=2), joined)
    same(compute("Concat", C(-1), X, X, N=2), joined)
    same(compute("ConcatD", X, X, concat_dim=2, N=2), joined)
    for found in (
        compute("Split", C(2), X, outputs=2, num_split=2),
        compute("SplitD", X, outputs=2, split_dim=-1, num_split=2),
    ):
        same(found[0], X[..., :2])
        same(found[1], X[..., 2:])
    found = compute("SplitV", X, C([1, -1, 1]), C(2), outputs=3, num_split=3)
    for part, wanted in zip(found, (X[..., :1], X[..., 1:3], X[..., 3:]), strict=True):
        same(part, wanted)
    same(compute("SplitD", X, split_dim=0, num_split=1), X)
    with pytest.raises(AtcError, match="3 elements into 2"):
        compute("SplitD", X, outputs=2, split_dim=1, num_split=2)
    with pytest.raises(AtcError, match="only one may be -1"):
        compute("SplitV", X, C([-1, -1, 1]), C(2), outputs=3, num_split=3)


def test_shapes_change() -> None:
    same(compute("ExpandDims", X, C(-1)), X[..., None])
    same(compute("ExpandDims", X, C([0])), X[None])
    ones = X[:, None, :, None]
    same(compute("Squeeze", ones), X)
    same(compute("Squeeze", ones, axis=[1]), ones[:, 0])
    same(compute("Reshape", X, C([4, -1])), X.reshape(4, 6))
    same(compute("Reshape", X, C([0, -1])), X.reshape(2, 12))
    same(compute("Reshape", X[:0], C([0, 5]), allowzero=1), np.zeros((0, 5), F))
    same(compute("Reshape", X, C([12]), axis=1), X.reshape(2, 12))
    same(compute("Reshape", X, C([3, 1]), axis=1, num_axes=1), X.reshape(2, 3, 1, 4))
    same(compute("Reshape", X, np.array([6, 4], np.int64)), X.reshape(6, 4))
    same(compute("Transpose", X, C([2, 0, 1])), X.transpose(2, 0, 1))
    same(compute("TransposeD", X, perm=[1, 0, 2]), X.transpose(1, 0, 2))
    same(compute("Tile", X, C([1, 2, 1])), np.tile(X, (1, 2, 1)))
    same(compute("TileD", X, multiples=[2, 1, 1]), np.tile(X, (2, 1, 1)))
    same(compute("BroadcastTo", X[:, :1], C([2, 5, 4])), np.broadcast_to(X[:, :1], (2, 5, 4)))
    same(compute("Fill", C([2, 3]), C(1.5, F)), np.full((2, 3), 1.5, F))
    same(compute("Fill", np.array([2, 3], np.int32), np.array([7], np.int32)), np.full((2, 3), 7, np.int32))
    same(compute("Range", C(2), C(11), C(3)), np.arange(2, 11, 3, np.int32))
    same(compute("Range", np.array(0.5, F), np.array(2, F), np.array([0.5], F)), np.arange(0.5, 2, 0.5, F))
    same(compute("RangeD", np.zeros(4, F), start=1.0, limit=3.0, delta=0.5), np.arange(1, 3, 0.5, F))
    same(compute("ReverseV2", X, C([0, -1])), X[::-1, :, ::-1])
    same(compute("ReverseV2", X, C(np.zeros(0, np.int32))), X)


def test_gathering() -> None:
    index = np.array([[2, 0], [1, 1]], np.int32)
    same(compute("GatherV2", X, index, C(1)), np.take(X, index, 1))
    same(compute("GatherV2D", X, index, axis=-1), np.take(X, index, 2))
    same(compute("Gather", X, np.array([1], np.int64)), X[[1]])
    same(compute("GatherNd", X, np.array([[0, 2], [1, 0]], np.int32)), X[[0, 1], [2, 0]])
    wanted = np.stack([np.take(X[row], index[row], 0) for row in range(2)])
    same(compute("GatherV2", X, index, C(1), batch_dims=1), wanted)
    same(compute("Gather", X, index, batch_dims=1), wanted)
    wanted = np.stack([np.take(X[row], index[row], 1) for row in range(2)])
    same(compute("GatherV2", X, index, C(2), batch_dims=1), wanted)
    same(compute("GatherV2D", X, index, axis=-1, batch_dims=-1), wanted)
    deep = RNG.integers(0, 4, (2, 3, 2, 5)).astype(np.int32)
    wanted = np.stack([np.stack([X[a, b][deep[a, b]] for b in range(3)]) for a in range(2)])
    same(compute("GatherV2", X, deep, C(2), batch_dims=2), wanted)


def test_slices() -> None:
    same(compute("Slice", X, C([0, 1, 2]), C([2, -1, 2])), X[:, 1:, 2:4])
    same(compute("Slice", X, np.array([0, 1, 2], np.int32), np.array([2, -1, 2], np.int32)), X[:, 1:, 2:4])
    same(compute("SliceD", X, offsets=[1, 0, 1], size=[1, 2, -1]), X[1:, :2, 1:])
    with pytest.raises(AtcError, match="along axis 1"):
        compute("SliceD", X, offsets=[0, 2, 0], size=[1, 2, 1])
    same(compute("StridedSliceD", X, begin=[0, 1, 3], end=[2, 3, 0], strides=[1, 1, -1]), X[0:2, 1:3, 3:0:-1])
    same(compute("StridedSliceD", X, begin=[1], end=[2]), X[1:2])


SPECS: list[tuple[Any, ...]] = [
    (slice(None),), (slice(1, None), slice(None, 2)), (slice(None, None, -1),), (slice(None), slice(2, 0, -1), slice(None, None, 2)),
    (1,), (-1,), (slice(None), -2), (0, slice(None), 3), (..., 2), (..., slice(1, 3)), (1, ..., slice(None, None, -2)), (...,),
    (None, slice(0, 1)), (slice(None), None, 0, None), (None, ..., -1, None), (slice(-2, -1), ..., None, slice(-3, None)),
]  # fmt: skip


def _spec(index: tuple[Any, ...]) -> tuple[list[list[int]], dict[str, int]]:
    """A Python index as TensorFlow writes it."""
    rows, masks = [], dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
    for place, one in enumerate(index):
        bit = 1 << place
        if one is None:
            masks["new_axis_mask"] |= bit
            rows.append([0, 0, 1])
        elif one is Ellipsis:
            masks["ellipsis_mask"] |= bit
            rows.append([0, 0, 1])
        elif isinstance(one, slice):
            masks["begin_mask"] |= bit * (one.start is None)
            masks["end_mask"] |= bit * (one.stop is None)
            rows.append([one.start or 0, one.stop or 0, one.step or 1])
        else:
            masks["shrink_axis_mask"] |= bit
            rows.append([one, one + 1, 1])
    return [list(column) for column in zip(*rows, strict=True)], masks


@pytest.mark.parametrize("index", SPECS, ids=str)
def test_strided_slices_are_pythons(index: tuple[Any, ...]) -> None:
    columns, masks = _spec(index)
    same(compute("StridedSlice", X, *(C(column) for column in columns), **masks), X[index])
    begin, end = (np.array(column, np.int32) for column in columns[:2])
    same(compute("StridedSlice", X, begin, end, C(columns[2]), **masks), X[index])


def test_strided_slices_refuse() -> None:
    with pytest.raises(AtcError, match="none may be 0"):
        compute("StridedSliceD", X, begin=[0], end=[1], strides=[0])
    with pytest.raises(AtcError, match="2 ellipses"):
        compute("StridedSliceD", X, begin=[0, 0], end=[1, 1], strides=[1, 1], ellipsis_mask=3)
    with pytest.raises(AtcError, match="equally many"):
        compute("StridedSliceD", X, begin=[0, 0], end=[1], strides=[1])
    with pytest.raises(AtcError, match="cuts 4 dims"):
        compute("StridedSliceD", X, begin=[0] * 4, end=[1] * 4)


def test_padding() -> None:
    pads = [(0, 1), (2, 0), (1, 1)]
    same(compute("Pad", X, C(pads)), np.pad(X, pads))
    same(compute("Pad", X, np.array(pads, np.int32)), np.pad(X, pads))
    same(compute("PadD", X, paddings=pads), np.pad(X, pads))
    same(compute("PadV2", X, C(pads), C(2.5, F)), np.pad(X, pads, constant_values=2.5))
    same(
        compute("PadV2", WHOLE, C([(1, 0), (0, 1)]), np.array([4], np.int32)),
        np.pad(WHOLE, [(1, 0), (0, 1)], constant_values=4),
    )
    same(
        compute("MirrorPad", X, C([(1, 0), (2, 1), (0, 3)]), mode="REFLECT"),
        np.pad(X, [(1, 0), (2, 1), (0, 3)], "reflect"),
    )
    same(
        compute("MirrorPad", X, C([(2, 1), (3, 0), (0, 4)]), mode="SYMMETRIC"),
        np.pad(X, [(2, 1), (3, 0), (0, 4)], "symmetric"),
    )
    with pytest.raises(AtcError, match="no more than 3"):
        compute("MirrorPad", X, C([(0, 0), (4, 0), (0, 0)]), mode="SYMMETRIC")
    with pytest.raises(AtcError, match="mode 'EDGE'"):
        compute("MirrorPad", X, C(pads), mode="edge")
    with pytest.raises(AtcError, match="pair of non-negative"):
        compute("Pad", X, C([(0, -1), (0, 0), (0, 0)]))


def test_choosing() -> None:
    other = rnd(2, 3, 4)
    same(compute("Select", X > 0, X, other), np.where(X > 0, X, other))
    rows = np.array([True, False])
    same(compute("Select", rows, X, other), np.where(rows[:, None, None], X, other))
    same(compute("SelectV2", X[:, :, :1] > 0, X, C(0.0, F)), np.where(X[:, :, :1] > 0, X, F(0)))
    small = np.array([1, 2], np.int16)
    same(compute("SelectV2", rows, small, -small), np.where(rows, small, -small))
    indices = np.array([[0, 2], [-1, 3]], np.int32)
    row = np.eye(3, dtype=F)
    wanted = np.stack([np.stack([row[0], row[2]]), np.zeros((2, 3), F)]) * 4 + 1
    same(compute("OneHot", indices, C(3), C(5.0, F), C(1.0, F)), wanted)
    same(compute("OneHot", indices, np.array(3, np.int32), C(5.0, F), C(1.0, F), axis=1), np.moveaxis(wanted, -1, 1))
    same(compute("OneHotD", indices, C(5.0, F), C(1.0, F), depth=3, axis=0), np.moveaxis(wanted, -1, 0))
    for kind, more, attrs in (("TopK", [C(2)], {}), ("TopKV2", [np.array([2], np.int32)], {}), ("TopKD", [], {"k": 2})):
        values, places = compute(kind, X, *more, outputs=2, **attrs)
        order = np.argsort(-X, -1, "stable")[..., :2].astype(np.int32)
        same(places, order)
        same(values, np.take_along_axis(X, order, -1))
    values, places = compute("TopKD", np.array([[4, 1, 4, 3]], np.uint8).T, outputs=2, k=3, dim=0, largest=True)
    same(values, np.array([[4, 4, 3]], np.uint8).T)
    same(places, np.array([[0, 2, 3]], np.int32).T)


def test_running_sums_and_sequences() -> None:
    same(compute("Cumsum", X, C(1)), np.cumsum(X, 1))
    same(compute("Cumsum", X, C(2), exclusive=True), np.cumsum(X, 2) - X)
    same(compute("Cumsum", WHOLE, C([-1]), reverse=True), np.cumsum(WHOLE[:, ::-1], 1)[:, ::-1].astype(np.int32))
    same(compute("Cumsum", WHOLE.astype(np.int8), C(1)), np.cumsum(WHOLE, 1).astype(np.int8))
    lengths = np.array([1, 3], np.int32)
    wanted = X.copy()
    for row, length in enumerate(lengths):
        wanted[row, :length] = X[row, :length][::-1]
    same(compute("ReverseSequence", X, lengths, seq_dim=1), wanted)
    moved = X.transpose(2, 1, 0)
    same(compute("ReverseSequence", moved, lengths, seq_dim=1, batch_dim=2), wanted.transpose(2, 1, 0))


def test_products() -> None:
    a, b = rnd(3, 4), rnd(4, 5)
    bias = rnd(5)
    for kind in ("MatMul", "MatMulV2"):
        same(compute(kind, a, b), a @ b)
        same(compute(kind, a.T.copy(), b.T.copy(), transpose_x1=True, transpose_x2=True), a @ b)
        same(compute(kind, a, b, bias), a @ b + bias)
    stack = rnd(2, 3, 4)
    for kind in ("BatchMatMul", "BatchMatMulV2"):
        same(compute(kind, stack, rnd(2, 4, 5) * 0 + b), stack @ b)
        same(compute(kind, stack.transpose(0, 2, 1).copy(), b.T.copy(), adj_x1=True, adj_x2=True), stack @ b)
    same(compute("BatchMatMulV2", stack, b, bias), stack @ b + bias)
    same(compute("MatMul", WHOLE, OTHER, transpose_x2=True), WHOLE @ OTHER.T)
    with pytest.raises(AtcError, match="offset"):
        compute("MatMulV2", a, b, offset_x=3)


IMAGE = rnd(2, 5, 6, 3)


def naive_conv(x: Array, w: Array, strides: list[int], pads: list[int], dilations: list[int]) -> Array:
    """NHWC data, HWIO filter, by loops."""
    x = np.pad(x, [(0, 0), pads[:2], pads[2:], (0, 0)])
    kh, kw = ((size - 1) * rate + 1 for size, rate in zip(w.shape, dilations, strict=False))
    oh, ow = (x.shape[1] - kh) // strides[0] + 1, (x.shape[2] - kw) // strides[1] + 1
    y = np.zeros((x.shape[0], oh, ow, w.shape[3]), F)
    for i, j in itertools.product(range(oh), range(ow)):
        top, left = i * strides[0], j * strides[1]
        patch = x[:, top : top + kh : dilations[0], left : left + kw : dilations[1]]
        y[:, i, j] = np.tensordot(patch, w, ([1, 2, 3], [0, 1, 2]))
    return y


def nchw(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


@pytest.mark.parametrize(("strides", "dilations"), [([1, 1], [1, 1]), ([2, 2], [1, 1]), ([1, 1], [2, 2])])
def test_depthwise_convolution(strides: list[int], dilations: list[int]) -> None:
    w = rnd(3, 2, 3, 2)
    pads = [1, 0, 2, 1]
    parts = [naive_conv(IMAGE[..., c : c + 1], w[:, :, c : c + 1], strides, pads, dilations) for c in range(3)]
    wanted = np.concatenate(parts, -1)
    attrs: dict[str, Any] = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "pads": pads}
    same(compute("DepthwiseConv2D", IMAGE, C(w), data_format="NHWC", **attrs), wanted)
    bias = rnd(6)
    swapped = {"strides": [1, 1, *strides], "dilations": [1, 1, *dilations], "pads": pads, "data_format": "NCHW"}
    same(compute("DepthwiseConv2D", nchw(IMAGE), w, bias, **swapped), nchw(wanted + bias))
    rows = w.transpose(2, 3, 0, 1).reshape(6, 1, 3, 2)
    same(compute("DepthwiseConv2D", nchw(IMAGE), rows, filter_format="NCHW", **swapped), nchw(wanted))


def test_same_padding_of_free_sizes() -> None:
    w = rnd(3, 3, 3, 1)
    parts = [naive_conv(IMAGE[..., c : c + 1], w[:, :, c : c + 1], [2, 2], [1, 1, 0, 1], [1, 1]) for c in range(3)]
    attrs = {"strides": [1, 2, 2, 1], "pads": [-1, -1, -1, -1]}
    same(compute("DepthwiseConv2D", IMAGE, C(w), **attrs), np.concatenate(parts, -1))
    same(compute("DepthwiseConv2D", IMAGE, C(w), free=True, **attrs), np.concatenate(parts, -1))


@pytest.mark.parametrize(
    ("size", "strides", "padding"), [((5, 6), (2, 3), "SAME"), ((7, 9), (2, 3), "VALID"), ((5, 6), (1, 1), "SAME")]
)
def test_transposed_convolution(size: tuple[int, int], strides: tuple[int, int], padding: str) -> None:
    """It is the transpose of the convolution: <conv(a), b> = <a, back(b)> for every a and b."""
    w, a = rnd(3, 2, 4, 3), rnd(1, *size, 4)
    pads = [0, 0, 0, 0]
    if padding == "SAME":
        totals = [max((-(-s // t) - 1) * t + k - s, 0) for s, t, k in zip(size, strides, (3, 2), strict=True)]
        pads = [totals[0] // 2, totals[0] - totals[0] // 2, totals[1] // 2, totals[1] - totals[1] // 2]
    forward = naive_conv(a, w, list(strides), pads, [1, 1])
    b = rnd(*forward.shape)
    for given in (pads, [-1] * 4 if padding == "SAME" else pads):
        found = compute(
            "Conv2DBackpropInput", C([1, *size, 4]), C(w), b, strides=[1, *strides, 1], pads=given, data_format="NHWC"
        )
        assert found.shape == a.shape
        np.testing.assert_allclose((found * a).sum(), (forward * b).sum(), rtol=1e-4)
    with pytest.raises(AtcError, match="check input_size"):
        compute("Conv2DBackpropInput", C([1, 40, 40, 4]), C(w), b, strides=[1, *strides, 1], pads=pads)


def naive_pool(x: Array, size: tuple[int, ...], strides: tuple[int, ...], pads: list[int], formula: Any) -> Array:
    """Channel-last windows over any number of dims; what lies outside is left out."""
    dims = len(size)
    out = [(x.shape[1 + d] + pads[2 * d] + pads[2 * d + 1] - size[d]) // strides[d] + 1 for d in range(dims)]
    y = np.zeros((x.shape[0], *out, x.shape[-1]), F)
    for place in itertools.product(*(range(one) for one in out)):
        starts = [place[d] * strides[d] - pads[2 * d] for d in range(dims)]
        cut = tuple(slice(max(start, 0), start + one) for start, one in zip(starts, size, strict=True))
        y[(slice(None), *place)] = formula(x[(slice(None), *cut)], axis=tuple(range(1, dims + 1)))
    return y


@pytest.mark.parametrize(("kind", "formula"), [("MaxPool", np.max), ("AvgPool", np.mean)])
def test_pooling(kind: str, formula: Any) -> None:
    attrs: dict[str, Any] = {"ksize": [1, 3, 2, 1], "strides": [1, 2, 2, 1]}
    wanted = naive_pool(IMAGE, (3, 2), (2, 2), [1, 1, 0, 0], formula)
    same(compute(kind, IMAGE, padding="SAME", **attrs), wanted)
    same(compute(kind, IMAGE, padding="SAME", free=True, **attrs), wanted)
    valid = naive_pool(IMAGE, (3, 2), (2, 2), [0] * 4, formula)
    same(compute(kind, IMAGE, padding="VALID", data_format="NHWC", **attrs), valid)
    same(
        compute(kind, nchw(IMAGE), padding="VALID", ksize=[1, 1, 3, 2], strides=[1, 1, 2, 2], data_format="NCHW"),
        nchw(valid),
    )
    with pytest.raises(AtcError, match="padding 'FULL'"):
        compute(kind, IMAGE, padding="FULL", **attrs)
    with pytest.raises(AtcError, match="batch and channel"):
        compute(kind, IMAGE, padding="SAME", ksize=[1, 2, 2, 3], strides=[1, 1, 1, 1])


def test_pooling_with_pads() -> None:
    x = nchw(IMAGE)
    attrs: dict[str, Any] = {"ksize": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [1, 0, 1, 1]}
    same(compute("MaxPoolV3", x, **attrs), nchw(naive_pool(IMAGE, (3, 3), (2, 2), [1, 0, 1, 1], np.max)))
    same(
        compute("AvgPoolV2", x, exclusive=True, **attrs), nchw(naive_pool(IMAGE, (3, 3), (2, 2), [1, 0, 1, 1], np.mean))
    )
    padded = np.pad(IMAGE, [(0, 0), (1, 0), (1, 1), (0, 0)])
    same(compute("AvgPoolV2", x, exclusive=False, **attrs), nchw(naive_pool(padded, (3, 3), (2, 2), [0] * 4, np.mean)))
    everything = {"ksize": [1, 1, 1, 1], "strides": [1, 1, 1, 1], "global_pooling": True}
    same(compute("MaxPoolV3", x, **everything), x.max((2, 3), keepdims=True))
    same(compute("AvgPoolV2", IMAGE, data_format="NHWC", **everything), IMAGE.mean((1, 2), keepdims=True))
    ceil = compute("MaxPoolV3", x, ksize=[1, 1, 2, 2], strides=[1, 1, 2, 2], ceil_mode=True)
    same(ceil[:, :, 2], np.maximum(x[:, :, 4, 0::2], x[:, :, 4, 1::2]))


VOLUME = rnd(1, 4, 5, 4, 2)


def test_volumes() -> None:
    w = rnd(2, 3, 2, 2, 3)
    wanted = np.zeros((1, 3, 2, 3, 3), F)
    for d, h, k in itertools.product(range(3), range(2), range(3)):
        wanted[0, d, h, k] = np.tensordot(VOLUME[0, d : d + 2, h * 2 : h * 2 + 3, k : k + 2], w, 4)
    attrs = {"strides": [1, 1, 2, 1, 1], "pads": [0] * 6}
    same(compute("Conv3D", VOLUME, C(w), **attrs), wanted)
    turned = w.transpose(4, 3, 0, 1, 2).copy()
    same(
        compute("Conv3D", nchw(VOLUME), turned, strides=[1, 1, 1, 2, 1], pads=[0] * 6, data_format="NCDHW"),
        nchw(wanted),
    )
    pool: dict[str, Any] = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1]}
    same(
        compute("MaxPool3D", VOLUME, padding="SAME", **pool),
        naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [0, 0, 0, 1, 0, 0], np.max),
    )
    same(
        compute("MaxPool3D", VOLUME, padding="VALID", **pool), naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [0] * 6, np.max)
    )
    same(
        compute("AvgPool3D", VOLUME, pads=[1, 0, 0, 1, 0, 0], count_include_pad=False, **pool),
        naive_pool(VOLUME, (2, 2, 2), (2, 2, 2), [1, 0, 0, 1, 0, 0], np.mean),
    )
    with pytest.raises(AtcError, match="divisor_override 3"):
        compute("AvgPool3D", VOLUME, divisor_override=3, **pool)


def test_bias_and_normalisation() -> None:
    same(compute("BiasAdd", IMAGE, C(np.arange(3, dtype=F))), IMAGE + np.arange(3, dtype=F))
    same(
        compute("BiasAdd", nchw(IMAGE), np.arange(3, dtype=F), data_format="NCHW"), nchw(IMAGE + np.arange(3, dtype=F))
    )
    scale, offset, mean, variance = rnd(3), rnd(3), rnd(3), np.abs(rnd(3)) + F(0.5)
    wanted = (IMAGE - mean) / np.sqrt(variance + F(1e-3)) * scale + offset
    attrs = {"epsilon": 1e-3, "is_training": False}
    numbers = (scale, offset, mean, variance)
    same(compute("BatchNorm", IMAGE, *numbers, **attrs), wanted, 1e-4)
    same(
        compute("BatchNorm", nchw(IMAGE), *(C(one) for one in numbers), data_format="NCHW", **attrs), nchw(wanted), 1e-4
    )
    same(compute("BatchNorm", IMAGE[:, 0, 0], *numbers, **attrs), wanted[:, 0, 0], 1e-4)
    volume = IMAGE[:, None]
    same(compute("BatchNorm", volume, *numbers, data_format="NDHWC", **attrs), wanted[:, None], 1e-4)
    found = compute("BatchNorm", IMAGE, *numbers, outputs=6, **attrs)
    same(found[1], mean)
    same(found[4], variance)
    same(compute("BatchNorm", IMAGE.astype(np.float16), *numbers, **attrs), wanted.astype(np.float16), 2e-2)


@pytest.mark.parametrize("word", ["NHWC", "NCHW"])
def test_normalisation_in_training(word: str) -> None:
    scale, offset = rnd(3), rnd(3)
    mean, variance = IMAGE.mean((0, 1, 2)), IMAGE.var((0, 1, 2))
    wanted = (IMAGE - mean) / np.sqrt(variance + F(1e-3)) * scale + offset
    x = IMAGE if word == "NHWC" else nchw(IMAGE)
    found = compute("BatchNorm", x, scale, offset, outputs=5, epsilon=1e-3, data_format=word, is_training=True)
    same(found[0], wanted if word == "NHWC" else nchw(wanted), 1e-4)
    same(found[1], mean)
    same(found[2], IMAGE.var((0, 1, 2), ddof=1), 1e-4)
    same(found[4], variance, 1e-4)


def test_blocks() -> None:
    x = rnd(2, 4, 6, 3)
    deep = x.reshape(2, 2, 2, 3, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 3, 12)
    same(compute("SpaceToDepth", x, block_size=2), deep)
    same(compute("DepthToSpace", deep, block_size=2), x)
    same(compute("SpaceToDepth", nchw(x), block_size=2, data_format="NCHW"), nchw(deep))
    same(compute("DepthToSpace", (deep * 10).astype(np.int32), block_size=2), (x * 10).astype(np.int32))
    crd = deep.reshape(2, 2, 3, 3, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 4, 6, 3)
    same(compute("DepthToSpace", deep, block_size=2, mode="CRD"), crd)
    x = rnd(2, 3, 5, 3)
    padded = np.pad(x, [(0, 0), (1, 0), (0, 1), (0, 0)])
    batches = padded.reshape(2, 2, 2, 2, 3, 3).transpose(2, 4, 0, 1, 3, 5).reshape(12, 2, 2, 3)
    blocks, pads = C([2, 3]), C([(1, 0), (0, 1)])
    same(compute("SpaceToBatchND", x, blocks, pads), batches)
    same(compute("BatchToSpaceND", batches, blocks, pads), x)
    same(compute("SpaceToBatchND", x, blocks, pads, free=True), batches)
    same(compute("BatchToSpaceND", batches, blocks, pads, free=True), x)
    with pytest.raises(AtcError, match="multiples of the blocks"):
        compute("SpaceToBatchND", x, C([3, 3]), pads)


def tf_bilinear(x: Array, size: tuple[int, int], corners: bool, centres: bool) -> Array:
    """TensorFlow's formula: lower and upper neighbour and the distance, along height and then width."""
    for axis, result in zip((1, 2), size, strict=True):
        length = x.shape[axis]
        scale = (length - 1) / (result - 1) if corners and result > 1 else length / result
        at = (np.arange(result) + 0.5) * scale - 0.5 if centres else np.arange(result) * scale
        low = np.maximum(np.floor(at), 0).astype(int)
        high = np.minimum(np.ceil(at), length - 1).astype(int)
        low = np.minimum(low, length - 1)
        part = (at - np.floor(at)).reshape([-1 if axis == d else 1 for d in range(4)])
        first, second = np.take(x, low, axis), np.take(x, high, axis)
        x = first + (second - first) * part
    return x.astype(F)


def tf_nearest(x: Array, size: tuple[int, int], corners: bool, centres: bool) -> Array:
    for axis, result in zip((1, 2), size, strict=True):
        length = x.shape[axis]
        rows = []
        for place in range(result):
            if corners and result > 1:
                at = math.floor(place * (length - 1) / (result - 1) + 0.5)
            elif corners:
                at = 0
            else:
                at = math.floor((place + 0.5) * length / result) if centres else (place * length) // result
            rows.append(min(at, length - 1))
        x = np.take(x, rows, axis)
    return x


@pytest.mark.parametrize(("corners", "centres"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(10, 12), (3, 4), (7, 9), (1, 1), (5, 6)])
def test_resizing(size: tuple[int, int], corners: bool, centres: bool) -> None:
    attrs = {"align_corners": corners, "half_pixel_centers": centres}
    same(compute("ResizeBilinearV2", IMAGE, C(size), **attrs), tf_bilinear(IMAGE, size, corners, centres))
    same(compute("ResizeNearestNeighborV2", IMAGE, C(size), **attrs), tf_nearest(IMAGE, size, corners, centres))
    swapped = {**attrs, "data_format": "NCHW"}
    same(compute("ResizeBilinearV2", nchw(IMAGE), C(size), **swapped), nchw(tf_bilinear(IMAGE, size, corners, centres)))
    same(
        compute("ResizeNearestNeighborV2", nchw(IMAGE), C(size), **swapped),
        nchw(tf_nearest(IMAGE, size, corners, centres)),
    )
    same(compute("ResizeBilinearV2", IMAGE, C(size), free=True, **attrs), tf_bilinear(IMAGE, size, corners, centres))
    computed = np.array(size, np.int32)
    same(compute("ResizeBilinearV2", IMAGE, computed, **attrs), tf_bilinear(IMAGE, size, corners, centres))
    same(compute("ResizeNearestNeighborV2", IMAGE, computed, **attrs), tf_nearest(IMAGE, size, corners, centres))


def test_resizing_other_types() -> None:
    picture = RNG.integers(0, 255, (1, 4, 4, 3)).astype(np.uint8)
    same(compute("ResizeBilinearV2", picture, C([6, 7])), tf_bilinear(picture.astype(F), (6, 7), False, False))
    same(compute("ResizeNearestNeighborV2", picture, C([6, 7])), tf_nearest(picture, (6, 7), False, False))
    same(compute("ResizeBilinearV2", IMAGE, C([3, 3]), opset=11), tf_bilinear(IMAGE, (3, 3), False, False))
    half = IMAGE.astype(np.float16)
    same(compute("ResizeBilinearV2", half, C([3, 3]), dtype=0), tf_bilinear(half.astype(F), (3, 3), False, False))
    with pytest.raises(AtcError, match="only one may be true"):
        compute("ResizeBilinearV2", IMAGE, C([3, 3]), align_corners=True, half_pixel_centers=True)
    with pytest.raises(AtcError, match="positive height"):
        compute("ResizeNearestNeighborV2", IMAGE, C([0, 3]))


def test_suppression() -> None:
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0, -1, -1], [0, 10, 1, 11], [0, 10, 1, 11.1]], F)
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.05], F)
    limits = (C(10), C(0.5, F), C(0.1, F))
    same(compute("NonMaxSuppressionV3", boxes, scores, *limits), np.array([3, 0, 2], np.int32))
    same(compute("NonMaxSuppressionV3", boxes, scores, C(1), C(0.5, F), C(0.1, F)), np.array([3], np.int32))
    same(
        compute("NonMaxSuppressionV3", boxes.astype(np.float16), scores.astype(np.float16), *limits),
        np.array([3, 0, 2], np.int32),
    )


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (2, 1)])
def test_crops(size: tuple[int, int], method: str) -> None:
    boxes = np.array([[0, 0, 1, 1], [0.1, 0.3, 0.75, 0.5], [0.6, 0.9, 0.2, 0.1], [-0.5, 0, 0.5, 1.5]], F)
    owners = np.array([0, 1, 1, 0], np.int32)
    height, width = IMAGE.shape[1:3]
    wanted = np.full((4, *size, 3), 7.0, F)
    for number, (y1, x1, y2, x2) in enumerate(boxes):
        for i, j in itertools.product(range(size[0]), range(size[1])):
            y = (y1 + i * (y2 - y1) / (size[0] - 1) if size[0] > 1 else (y1 + y2) / 2) * (height - 1)
            x = (x1 + j * (x2 - x1) / (size[1] - 1) if size[1] > 1 else (x1 + x2) / 2) * (width - 1)
            if not (0 <= y <= height - 1 and 0 <= x <= width - 1):
                continue
            image = IMAGE[owners[number]]
            if method == "nearest":
                wanted[number, i, j] = image[math.floor(y + 0.5), math.floor(x + 0.5)]
                continue
            top, left = math.floor(y), math.floor(x)
            rows = [
                image[row, left] + (image[row, math.ceil(x)] - image[row, left]) * (x - left)
                for row in (top, math.ceil(y))
            ]
            wanted[number, i, j] = rows[0] + (rows[1] - rows[0]) * (y - top)
    found = compute("CropAndResize", IMAGE, boxes, owners, C(size), extrapolation_value=7.0, method=method)
    same(found, wanted, 1e-4)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches(padding: str) -> None:
    attrs = {"ksizes": [1, 2, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 2, 1, 1], "padding": padding}
    pads = [(1, 1), (1, 1)] if padding == "SAME" else [(0, 0), (0, 0)]
    x = np.pad(IMAGE, [(0, 0), *pads, (0, 0)])
    rows = [
        x[:, i : i + 3 : 2, j : j + 3].reshape(2, -1)
        for i in range(0, x.shape[1] - 2, 2)
        for j in range(x.shape[2] - 2)
    ]
    wanted = np.stack(rows, 1).reshape(2, -1, x.shape[2] - 2, 18)
    same(compute("ExtractImagePatches", IMAGE, **attrs), wanted)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(AtcError, match="lacks the attribute 'dst_type'"):
        compute("Cast", X)
    with pytest.raises(AtcError, match="lacks its input 1"):
        compute("Add", X)
    with pytest.raises(AtcError, match="data format 'NCWX'"):
        compute("MaxPool", IMAGE, ksize=[1, 1, 1, 1], strides=[1, 1, 1, 1], padding="SAME", data_format="NCWX")
