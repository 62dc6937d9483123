"""Models and pictures for the examples: made here, with fixed seeds, so that nothing has to be downloaded.

As a command it lays out the folder of the manual's first program:

    python examples/models.py first_app        # first_app/model/resnet50.om, first_app/data/dog1_1024_683.jpg, …
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOC = "Ascend310P3"
BLOCKS = (3, 4, 6, 3)  # ResNet-50: bottlenecks per stage


class Net:
    """An ONNX graph under construction; weights are random numbers of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """Add an operator and return the name of its output."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def weight(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> str:
        """A random constant."""
        name = f"weight_{len(self.weights)}"
        values = self.random.standard_normal(shape, np.float32) * np.float32(scale) + np.float32(offset)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def conv(self, x: str, channels: int, wanted: int, size: int, stride: int = 1) -> str:
        """A convolution without bias, scaled so that the variance of its input is kept."""
        weight = self.weight(wanted, channels, size, size, scale=(2 / (channels * size * size)) ** 0.5)
        return self.add("Conv", x, weight, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)

    def norm(self, x: str, channels: int, gain: float = 1.0) -> str:
        """A batch normalisation as training would leave it."""
        scale, bias = self.weight(channels, scale=0.1, offset=gain), self.weight(channels, scale=0.1)
        mean = self.weight(channels, scale=0.1)
        variance = f"weight_{len(self.weights)}"
        values = self.random.uniform(0.5, 1.5, channels).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, variance))
        return self.add("BatchNormalization", x, scale, bias, mean, variance, epsilon=1e-5)

    def save(self, path: Path, x: tuple[str, list], y: tuple[str, str, list]) -> Path:
        """Write the model; `x` is the input's name and shape, `y` the output's name, its last tensor and shape."""
        self.nodes.append(helper.make_node("Identity", [y[1]], [y[0]], y[0]))
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (x, (y[0], y[2]))]
        graph = helper.make_graph(self.nodes, path.stem, infos[:1], infos[1:], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        onnx.save(model, path)
        return path


def resnet50(path: Path, width: int = 64, size: int = 224, batch: int | str = 1, classes: int = 1000) -> Path:
    """ResNet-50 with random weights: the manual's signature, the real topology. A smaller width makes it quicker."""
    net = Net(seed=50)
    x = net.add("Relu", net.norm(net.conv("actual_input_1", 3, width, 7, 2), width))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(BLOCKS):
        middle = width << stage
        for block in range(count):
            x = _bottleneck(net, x, channels, middle, 2 if stage and not block else 1)
            channels = 4 * middle
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    weight, bias = net.weight(classes, channels, scale=0.5 / channels**0.5), net.weight(classes, scale=0.1)
    x = net.add("Gemm", x, weight, bias, transB=1)
    return net.save(path, ("actual_input_1", [batch, 3, size, size]), ("output1", x, [batch, classes]))


def _bottleneck(net: Net, x: str, channels: int, middle: int, stride: int) -> str:
    """1x1, 3x3, 1x1 and the way around them."""
    y = net.add("Relu", net.norm(net.conv(x, channels, middle, 1), middle))
    y = net.add("Relu", net.norm(net.conv(y, middle, middle, 3, stride), middle))
    y = net.norm(net.conv(y, middle, 4 * middle, 1), 4 * middle, gain=0.3)
    if channels != 4 * middle:
        x = net.norm(net.conv(x, channels, 4 * middle, 1, stride), 4 * middle)
    return net.add("Relu", net.add("Add", x, y))


def classifier(path: Path, shape: list) -> Path:
    """A small network of pictures of any size; dims of the shape may be names, which leaves them open."""
    net = Net(seed=7)
    x = net.add("Relu", net.conv("data", shape[1], 16, 3, 2))
    x = net.add("Relu", net.conv(x, 16, 32, 3, 2))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    x = net.add("Softmax", net.add("Gemm", x, net.weight(32, 10, scale=0.3), net.weight(10)), axis=1)
    return net.save(path, ("data", shape), ("prob", x, [shape[0], 10]))


def edges(path: Path, shape: list) -> Path:
    """A small network whose result is a map as large as the picture."""
    net = Net(seed=8)
    x = net.add("Relu", net.conv("data", shape[1], 8, 3))
    x = net.add("Sigmoid", net.conv(x, 8, 1, 3))
    return net.save(path, ("data", shape), ("map", x, [shape[0], 1, *shape[2:]]))


# ---- conversion, reference, pictures ---------------------------------------------------------------------------------


def convert(model: Path, output: Path, *options: str) -> Path:
    """Convert an ONNX model with `atc`, as on the command line; returns the path of the .om."""
    words = [f"--model={model}", "--framework=5", f"--output={output}", f"--soc_version={SOC}", *options]
    return atc(output.parent, *words) / f"{output.name}.om"


def atc(folder: Path, *words: str) -> Path:
    """Run the command `atc` in a folder."""
    print("$ atc", " ".join(words), flush=True)
    done = subprocess.run([sys.executable, "-m", "softnpu.cli.atc", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return folder


def reference(model: Path, **inputs: np.ndarray) -> np.ndarray:
    """The first output of the original model in onnxruntime: what every example compares its result with."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def picture(width: int, height: int, seed: int) -> np.ndarray:
    """A picture of coloured waves, RGB bytes."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    planes = []
    for _ in range(3):
        u, v, w = random.uniform(0.005, 0.03, 3)
        planes.append(np.sin(x * u + random.uniform(0, 6)) + np.sin(y * v) + np.cos((x + y) * w))
    waves = np.stack(planes, axis=-1)
    return ((waves + 3) * (255 / 6)).astype(np.uint8)


def lay_out(folder: Path, width: int = 64) -> Path:
    """The folder of the manual's first program: a model and two pictures."""
    from PIL import Image

    (folder / "data").mkdir(parents=True, exist_ok=True)
    for number in (1, 2):
        Image.fromarray(picture(1024, 683, number)).save(folder / "data" / f"dog{number}_1024_683.jpg")
    model = resnet50(folder.resolve() / "model" / "resnet50.onnx", width)
    convert(model, model.with_suffix(""), "--input_shape=actual_input_1:1,3,224,224")
    return folder


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=64, help="channels of the first layer; 64 is the real ResNet-50")
    args = parser.parse_args()
    lay_out(args.folder, args.width)
