"""Models for the tests of passes, and the check of one pass against onnxruntime on the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx.helper import make_node as op

from softnpu.graph.ir import Graph
from tests.unit.compiler.onnx_graphs import compute, load, model, original


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


def check(step, nodes, inputs, weights, tmp_path: Path, outputs=("y",), opset=13, count=(1, 1)) -> Graph:
    """Run one pass on a model and compare with the file's own result."""
    proto = model(list(nodes), inputs, list(outputs), weights, opset)
    graph = load(proto, tmp_path)
    assert step.run(graph) == count
    graph.sweep()
    rng = np.random.default_rng(9)
    feeds = {}
    for node in graph.inputs:
        dtype = {0: np.float32, 1: np.float16, 2: np.int8, 3: np.int32, 12: np.bool_}[node.output.dtype]
        feeds[node.name] = (rng.standard_normal(node.output.shape) * 3).astype(dtype)
    for mine, theirs in zip(compute(graph, feeds), original(proto, feeds), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    return graph
