"""Graphs of one operator for tests, and the numbers they are fed with.

`compute` runs an operator in onnxruntime and expects inference to know all; `run` also takes operators that are computed in
NumPy. `same` compares shape, type and numbers, `close` numbers only, `match` shape and numbers.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import onnxruntime

from softnpu import ops
from softnpu.base.dtypes import from_numpy
from softnpu.compiler.lowering.infer import encode_model, infer_node
from softnpu.compiler.lowering.lower import lower, site_of
from softnpu.graph.ir import Graph, Output
from softnpu.graph.onnx_def import make_tensor, make_value_info

Array = np.ndarray[Any, Any]
F = np.float32
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
    for index, operand in enumerate(inputs):
        if operand is None:
            values.append(None)
        elif isinstance(operand, Const):
            values.append(graph.const(operand.array))
        else:
            node = graph.data_node(
                f"x{index}", from_numpy(operand.dtype.name), operand.shape, (formats or {}).get(index, 2)
            )
            feeds[f"x{index}"] = operand
            values.append(node.output)
    node = graph.op(type_, values, "op", outputs, **attrs)
    infer_node(graph, node)
    results = run_node(graph, node, feeds)
    for value, result in zip(node.outputs, results, strict=True):
        assert value.dtype == from_numpy(result.dtype.name)
        if value.shape is not None:
            assert len(value.shape) == result.ndim
            assert all(known in (-1, real) for known, real in zip(value.shape, result.shape, strict=True))
    return results


def run_node(graph: Graph, node: Any, feeds: dict[str, Array]) -> list[Array]:
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
    inputs = [make_value_info(source.output.name, source.output.dtype, source.output.shape) for source in graph.inputs]
    weights = [make_tensor(source.output.name, source.data) for source in graph.nodes if source.data is not None]
    weights += [make_tensor(key, data) for key, data in lowered.constants.items()]
    data = encode_model(
        graph, lowered.nodes, inputs, [{"name": value.name} for value in node.outputs], weights, lowered.domains
    )
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return [np.asarray(source) for source in session.run(None, feeds)]


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def close(actual: Array, expected: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(
        actual.astype(np.float64), np.asarray(expected, np.float64), rtol=tolerance, atol=tolerance
    )


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gelu(x: Array) -> Array:
    return np.asarray([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.reshape(-1).astype(float)]).reshape(
        x.shape
    )


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


MATRIX = floats(3, 8)


def reference(type_: str, inputs: list[Array], outputs: int = 1, opset: int = 20, **attrs: Any) -> list[Array]:
    """ONNX's own evaluator."""
    import onnx
    import onnx.reference

    names = [f"i{i}" for i in range(len(inputs))]
    results = [f"o{i}" for i in range(outputs)]
    node = onnx.helper.make_node(type_, names, results, **attrs)
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, inputs, strict=True)
    ]
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=name) for name in results])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [
        np.asarray(array)
        for array in onnx.reference.ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    ]


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
    inputs = [make_value_info(source.output.name, source.output.dtype, source.output.shape) for source in graph.inputs]
    weights = [make_tensor(source.output.name, source.data) for source in graph.nodes if source.data is not None]
    weights += [make_tensor(name, constant) for name, constant in low.constants.items()]
    data = encode_model(
        graph, low.nodes, inputs, [{"name": value.name} for value in node.outputs], weights, low.domains
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    results = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    fixed = (
        not free
        and kind not in ("Where", "NonMaxSuppressionV3")
        and all(source is None or isinstance(source, C) for source in operands[1:])
    )
    for value, array in zip(node.outputs, results, strict=True):
        assert value.static or not fixed
        assert value.dtype == from_numpy(np.asarray(array).dtype.name)
        assert value.shape is not None and len(value.shape) == np.ndim(array)
        assert all(said in (-1, real) for said, real in zip(value.shape, np.shape(array), strict=True)), (
            value.shape,
            np.shape(array),
        )
    return results[0] if outputs == 1 else results


def same(actual: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    wanted = np.asarray(wanted)
    assert np.shape(actual) == wanted.shape
    assert np.asarray(actual).dtype == wanted.dtype
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


X = floats(2, 3, 4)


SMALL = (np.abs(X) % 0.9 + F(0.05)).astype(F)


ODD = np.array([0.0, -0.0, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan], F)


WHOLE = np.array([[7, -7, 8, -8, 0], [5, 5, -5, 3, 1]], np.int32)


OTHER = np.array([[2, 2, -3, -3, 4], [5, -2, 2, -7, 1]], np.int32)


Y = floats(3, 4)


IMAGE = floats(2, 5, 6, 3)


def nchw(x: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def naive_pool(x: Array, size: tuple[int, ...], strides: tuple[int, ...], pads: list[int], formula: Any) -> Array:
    """Channel-last windows over any number of dims; what lies outside is left out."""
    dims = len(size)
    out = [(x.shape[1 + d] + pads[2 * d] + pads[2 * d + 1] - size[d]) // strides[d] + 1 for d in range(dims)]
    y = np.zeros((x.shape[0], *out, x.shape[-1]), F)
    for position in itertools.product(*(range(length) for length in out)):
        starts = [position[d] * strides[d] - pads[2 * d] for d in range(dims)]
        cut = tuple(slice(max(start, 0), start + length) for start, length in zip(starts, size, strict=True))
        y[(slice(None), *position)] = formula(x[(slice(None), *cut)], axis=tuple(range(1, dims + 1)))
    return y


VOLUME = floats(1, 4, 5, 4, 2)


def rand(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def match(actual: Array, wanted: Array, tolerance: float = 1e-5) -> None:
    assert actual.shape == wanted.shape
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


BLOB = rand(2, 4, 5, 6)
