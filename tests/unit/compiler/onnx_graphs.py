"""Small ONNX models as graphs, and what they compute: the tests of the passes compare before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.lowering.infer import encode_model, infer_graph
from softnpu.compiler.lowering.lower import lower
from softnpu.graph.ir import Graph
from softnpu.graph.onnx_def import make_tensor, make_value_info

Arrays = dict[str, np.ndarray]


def model(
    nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: Arrays | None = None, opset: int = 13
) -> onnx.ModelProto:
    """A model; an input is a shape (float32) or a pair (type, shape)."""
    infos = []
    for name, shape in inputs.items():
        dtype, dims = (
            shape
            if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[1], list | tuple)
            else (TensorProto.FLOAT, shape)
        )
        infos.append(helper.make_tensor_value_info(name, dtype, dims))
    graph = helper.make_graph(
        nodes,
        "g",
        infos,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 8
    return onnx.shape_inference.infer_shapes(proto)


def load(proto: onnx.ModelProto, folder: Path) -> Graph:
    """The graph of a model, with shapes."""
    path = folder / "model.onnx"
    onnx.save(proto, path)
    graph, _ = read(path)
    infer_graph(graph)
    graph.verify()
    return graph


def original(proto: onnx.ModelProto, feeds: Arrays) -> list[np.ndarray]:
    """What onnxruntime makes of the model file, unoptimised."""
    return _session(proto.SerializeToString()).run(None, feeds)


def compute(graph: Graph, feeds: Arrays, optimised: bool = False) -> list[np.ndarray]:
    """What onnxruntime makes of a graph."""
    graph.verify()
    low = lower(graph)
    assert not low.host
    inputs = [make_value_info(node.output.name, node.output.dtype, node.output.shape) for node in graph.inputs]
    weights = [make_tensor(node.output.name, node.data) for node in graph.nodes if node.type == "Const" and node.data]
    weights += [make_tensor(name, constant) for name, constant in low.constants.items()]
    names = [output.value.name for output in graph.outputs]
    results = [make_value_info(output.value.name, output.value.dtype, None) for output in graph.outputs]
    data = encode_model(graph, low.nodes, inputs, results, weights, low.domains)
    return _session(data, optimised).run(names, feeds)


def _session(data: bytes, optimised: bool = False) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def types(graph: Graph) -> list[str]:
    """The types of the nodes that work."""
    return [node.type for node in graph.nodes if node.type not in ("Data", "Const")]
