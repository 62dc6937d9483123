"""Small ONNX files for the tests of the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.onnx.reader import read
from softnpu.compiler.lowering.infer import infer_graph
from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import compute, original

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.array([[1.5, -2.0, 3.0]], np.float32)


def info(name: str, dtype: int = FLOAT, dims: Any = (1, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: Any = (), opset: int = 13) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def load(proto: onnx.ModelProto, folder: Path) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    graph, _ = read(path)
    graph.verify()
    return graph


def refused(proto: onnx.ModelProto, folder: Path) -> AtcError:
    with pytest.raises(AtcError) as caught:
        load(proto, folder)
    return caught.value


def check(proto: onnx.ModelProto, folder: Path, feeds: dict[str, Any] | None = None) -> Graph:
    """The graph computes what onnxruntime computes from the file."""
    feeds = {"x": X} if feeds is None else feeds
    graph = load(proto, folder)
    infer_graph(graph)
    for computed, wanted in zip(compute(graph, feeds), original(proto, feeds), strict=True):
        np.testing.assert_array_equal(computed, wanted)
    return graph
