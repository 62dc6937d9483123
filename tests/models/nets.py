"""Small networks that several tests convert."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
WEIGHT: Array = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
BIAS: Array = np.arange(4, dtype=np.float32)


def save(path: Path, graph: onnx.GraphProto, opset: int = 13) -> Path:
    """Write a model that every version of onnxruntime reads."""
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def floats(name: str, shape: list[Any]) -> onnx.ValueInfoProto:
    """The description of an input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def tensors(arrays: dict[str, Array]) -> list[onnx.TensorProto]:
    """Constants of a graph."""
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def convolution(folder: Path, batch: int | str = 2) -> Path:
    """A convolution with padding and stride, then Relu, Sigmoid and the sum of both; `data` of 3 × 8 × 8."""
    nodes = [
        helper.make_node("Conv", ["data", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Sigmoid", ["c"], ["s"], "sigmoid"),
        helper.make_node("Add", ["r", "s"], ["y"], "sum"),
    ]
    x, y = floats("data", [batch, 3, 8, 8]), floats("y", [batch, 4, 4, 4])
    return save(
        folder / "convolution.onnx", helper.make_graph(nodes, "net", [x], [y], tensors({"w": WEIGHT, "b": BIAS}))
    )


def attention(folder: Path) -> Path:
    """One head of attention over 6 words of 8 numbers with a residual and a LayerNormalization; `data` of 2 × 6 × 8."""
    rng = np.random.default_rng(1)
    held: dict[str, Array] = {word: rng.standard_normal((8, 8)).astype(np.float32) for word in ("wq", "wk", "wv")}
    held |= {"root": np.array(8**0.5, np.float32), "gamma": np.ones(8, np.float32), "beta": np.zeros(8, np.float32)}
    nodes = [
        *(helper.make_node("MatMul", ["data", f"w{word}"], [word], f"project_{word}") for word in "qkv"),
        helper.make_node("Transpose", ["k"], ["kt"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["qk"], "scores"),
        helper.make_node("Div", ["qk", "root"], ["scaled"], "scale"),
        helper.make_node("Softmax", ["scaled"], ["share"], "softmax", axis=-1),
        helper.make_node("MatMul", ["share", "v"], ["mixed"], "mix"),
        helper.make_node("Add", ["mixed", "data"], ["added"], "residual"),
        helper.make_node("LayerNormalization", ["added", "gamma", "beta"], ["y"], "norm", axis=-1),
    ]
    x, y = floats("data", [2, 6, 8]), floats("y", [2, 6, 8])
    return save(folder / "attention.onnx", helper.make_graph(nodes, "attention", [x], [y], tensors(held)), opset=17)
