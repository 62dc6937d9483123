"""The manual's image pipeline as a flow: crop → model → model → post-process, without torch.

The functions around the models are plain NumPy (`df.pyflow`), the models are ONNX files, made here. Every node is a process of
its own, so that several frames are at work at the same time; pixels pass through shared memory. A FlowInfo travels with every
frame, and says at the end which one it was.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
from frames import CROP, LARGE, MEAN, SMALL, STD, arguments, crop, run, scale
from onnx import TensorProto, helper, numpy_helper

import dataflow as df


@df.pyflow
def preprocess(image: df.Tensor) -> df.Tensor:
    """The middle of a frame, written where the next node reads it."""
    tensor = df.alloc_tensor([1, 3, CROP, CROP], df.DT_FLOAT)
    tensor.numpy()[:] = crop(image.numpy())
    return tensor


@df.pyflow
def postprocess(image: df.Tensor) -> df.Tensor:
    """Back to numbers from 0 to 1, and large again."""
    return df.Tensor(scale(image.numpy() * np.float32(STD) + np.float32(MEAN), LARGE))


def scaling_model(path: Path) -> Path:
    """(1, 3, CROP, CROP) → (1, 3, SMALL, SMALL)."""
    sizes = numpy_helper.from_array(np.array([1, 3, SMALL, SMALL], np.int64), "sizes")
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    return save(path, [node], [sizes], CROP, SMALL)


def normalising_model(path: Path) -> Path:
    """(x - MEAN) / STD."""
    weights = [numpy_helper.from_array(np.float32(value), name) for name, value in (("mean", MEAN), ("std", STD))]
    nodes = [helper.make_node("Sub", ["x", "mean"], ["centred"]), helper.make_node("Div", ["centred", "std"], ["y"])]
    return save(path, nodes, weights, SMALL, SMALL)


def save(path: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], old: int, new: int) -> Path:
    """A model with one square input and one square output."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, side, side])
        for name, side in (("x", old), ("y", new))
    )
    graph = helper.make_graph(nodes, path.stem, [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def main() -> None:
    """Build the graph and send frames through it."""
    args = arguments(__doc__)
    df.init({"ge.exec.deviceId": "0", "softnpu.flow.engine": args.engine})
    with tempfile.TemporaryDirectory(prefix="softnpu-flow-") as folder:
        model1 = df.GraphProcessPoint(df.Framework.ONNX, str(scaling_model(Path(folder, "model1.onnx"))))
        model2 = df.GraphProcessPoint(df.Framework.ONNX, str(normalising_model(Path(folder, "model2.onnx"))))
        image = df.FlowData(name="image")
        cropped = preprocess.fnode()(image)
        scaled = model1.fnode(1, 1, name="model1")(cropped)
        normalised = model2.fnode(1, 1, name="model2")(scaled)
        graph = df.FlowGraph([postprocess.fnode()(normalised)])
        run(graph, image, args)
    df.finalize()


if __name__ == "__main__":
    main()
