"""Run lowered operators while compiling: constant folding, shapes that inference cannot tell, the last check of a model."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from softnpu.base import config
from softnpu.base.dtypes import DType, numpy_name, to_onnx
from softnpu.compiler.errors import AtcError
from softnpu.compiler.lowering.infer import encode_model
from softnpu.compiler.lowering.lower import Lowered
from softnpu.graph.ir import Constant, Graph, Shape, Value
from softnpu.graph.onnx_def import TENSOR, make_tensor, make_value_info
from softnpu.graph.wire import decode

Array = np.ndarray[Any, Any]


@functools.cache
def runtime() -> Any:
    """The engine, imported when first needed."""
    config.allow_new_opsets()
    import onnxruntime

    return onnxruntime


def initializer(name: str, constant: Constant) -> dict[str, Any]:
    """A TensorProto that holds its content (strings are stored as the message itself)."""
    if constant.dtype == DType.STRING:
        return {**decode(TENSOR, constant.data), "name": name}
    return make_tensor(name, constant)


def session(
    graph: Graph,
    lowered: Lowered,
    inputs: Iterable[Value],
    outputs: Iterable[Value],
    constants: Iterable[Value],
    optimise: bool = False,
) -> Any:
    """An engine session over lowered operators; the engine's refusal is raised as its own exception."""
    weights = [initializer(value.name, value.const) for value in constants if value.const is not None]
    weights += [initializer(name, constant) for name, constant in lowered.constants.items()]
    infos = [make_value_info(value.name, value.dtype, value.shape, value.words) for value in inputs]
    results = [
        make_value_info(value.name, value.dtype, value.shape) if to_onnx(value.dtype) else {"name": value.name}
        for value in outputs
    ]
    data = encode_model(graph, lowered.nodes, infos, results, weights, lowered.domains)
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = 1
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def fold(graph: Graph, lowered: Lowered, constants: Iterable[Value], wanted: list[Value]) -> list[Array]:
    """The values of operators that depend on constants only."""
    results = session(graph, lowered, (), wanted, constants).run([value.name for value in wanted], {})
    return [np.asarray(result) for result in results]


def zeros(value: Value, shape: Shape) -> Array:
    """A neutral input of a type and shape."""
    name = numpy_name(value.dtype)
    if not name:
        raise AtcError("E10055", f"inputs of data type {value.dtype} cannot be made here")
    return np.zeros(shape, name)
