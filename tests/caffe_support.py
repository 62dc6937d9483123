"""Small Caffe nets for tests: write them, read them, run the graph with onnxruntime (NumPy where an operator says so)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from softnpu import ops
from softnpu.compiler.frontends.caffe.reader import read
from softnpu.compiler.lowering.infer import encode_model, infer_node
from softnpu.compiler.lowering.lower import lower, site_of
from softnpu.graph.ir import Constant, Graph, Node, Output
from softnpu.graph.onnx_def import make_tensor, make_value_info
from softnpu.graph.wire import Message, encode

Array = np.ndarray[Any, Any]
_SHAPE = Message("BlobShape").add(dim=(1, "int64", True))
_BLOB = Message("BlobProto").add(shape=(7, _SHAPE), data=(5, "bytes"))
_LAYER = Message("LayerParameter").add(name=(1, "string"), type=(2, "string"), blobs=(7, _BLOB, True))
_NET = Message("NetParameter").add(name=(1, "string"), layer=(100, _LAYER, True))


def caffemodel(blobs: dict[str, list[Array]], types: dict[str, str]) -> bytes:
    """The bytes of a weight file."""
    layers = []
    for name, kind in types.items():
        contents = [
            {"shape": {"dim": list(blob.shape)}, "data": blob.astype("<f4").tobytes()} for blob in blobs.get(name, ())
        ]
        layers.append({"name": name, "type": kind, "blobs": contents})
    return encode(_NET, {"name": "net", "layer": layers})


def write(folder: Path, text: str, blobs: dict[str, list[Array]] | None = None) -> tuple[Path, Path]:
    """A prototxt and its weights on disk."""
    prototxt, weights = folder / "net.prototxt", folder / "net.caffemodel"
    prototxt.write_text(text, encoding="utf-8")
    types = dict(re.findall(r'layer\s*{\s*name:\s*"([^"]*)"\s*type:\s*"([^"]*)"', text))
    weights.write_bytes(caffemodel(blobs or {}, types or {"nobody": "Input"}))
    return prototxt, weights


def net(folder: Path, text: str, blobs: dict[str, list[Array]] | None = None) -> Graph:
    """The graph of a net."""
    graph, _ = read(*write(folder, text, blobs), "net")
    graph.verify()
    return graph


def run(graph: Graph, *inputs: Array) -> list[Array]:
    """The outputs of a graph for inputs in its order."""
    known = {node.output.name: array for node, array in zip(graph.inputs, inputs, strict=True)}
    known |= {
        node.output.name: node.data.array() for node in graph.nodes if node.type == "Const" and node.data is not None
    }
    part: list[Node] = []
    for node in [*graph.nodes, None]:
        if node is not None and node.type in ("Data", "Const"):
            continue
        operator = ops.find(node.type) if node is not None else None
        if operator is not None and operator.lower is not None:
            assert node is not None
            part.append(node)
            continue
        known |= _session(graph, part, known)
        part = []
        if node is not None:
            assert operator is not None and operator.compute is not None, node.type
            taken = [known[value.name] for value in node.inputs if value is not None]
            for value, array in zip(node.outputs, operator.compute(site_of(node), *taken), strict=True):
                known[value.name] = array
    for output in graph.outputs:
        array = known[output.value.name]
        assert output.value.shape is not None
        assert array.shape == output.value.shape, f"{output.name}: {array.shape} was inferred as {output.value.shape}"
    return [known[output.value.name] for output in graph.outputs]


def _session(graph: Graph, nodes: list[Node], known: dict[str, Array]) -> dict[str, Array]:
    import onnxruntime

    if not nodes:
        return {}
    low = lower(graph, nodes)
    results = [value for node in nodes for value in node.outputs]
    taken = {name: known[name] for node in low.nodes for name in node["input"] if name in known}
    feeds = [make_value_info(name, Constant.of(array).dtype, array.shape) for name, array in taken.items()]
    constants = [make_tensor(name, array) for name, array in low.constants.items()]
    data = encode_model(graph, low.nodes, feeds, [{"name": value.name} for value in results], constants, low.domains)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return dict(zip([value.name for value in results], session.run(None, taken), strict=True))


def op(kind: str, *inputs: Array | None, outputs: int = 1, **attrs: Any) -> list[Array]:
    """One operator on arrays."""
    graph = Graph("one", framework=0)
    values = [
        None if array is None else graph.data_node(f"x{index}", Constant.of(array).dtype, array.shape).output
        for index, array in enumerate(inputs)
    ]
    node = graph.op(kind, values, kind.lower(), outputs, **attrs)
    infer_node(graph, node)
    graph.outputs = [Output(value, value.name) for value in node.outputs]
    return run(graph, *[array for array in inputs if array is not None])
