"""Large models: time grows with the number of nodes and not faster, memory with the weights and not much beyond."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.models.nets import Array, floats, save, tensors
from tests.models.support import Client, assert_same, convert, random, reference
from tests.paths import ROOT

TIME_LIMIT_S = 300
SMALL, LARGE = 1_000, 10_000
MOST = 3.0  # how much longer a node may take in the larger graph
MOST_MEMORY = 1.3  # peak memory in sizes of the weights

Nodes = list[onnx.NodeProto]


# ---- nodes -----------------------------------------------------------------------------------------------------------


def branches(count: int) -> tuple[Nodes, dict[str, Array]]:
    """Add a constant, part into Relu and Sigmoid, multiply: four nodes, over and over."""
    nodes: Nodes = []
    constants: dict[str, Array] = {}
    last = "x"
    for index in range(count // 4):
        held, added, left, right, made = (f"{word}{index}" for word in ("c", "a", "l", "r", "m"))
        constants[held] = np.full(4, 0.5 + index % 3, np.float32)
        nodes += [
            helper.make_node("Add", [last, held], [added], f"add{index}"),
            helper.make_node("Relu", [added], [left], f"relu{index}"),
            helper.make_node("Sigmoid", [added], [right], f"sigmoid{index}"),
            helper.make_node("Mul", [left, right], [made], f"mul{index}"),
        ]
        last = made
    nodes[-1].output[0] = "y"
    return nodes, constants


def shape_arithmetic(count: int) -> tuple[Nodes, dict[str, Array]]:
    """Shape, Gather, Concat, Reshape: what exporters write; all but the last one folds away."""
    nodes: Nodes = []
    last = "x"
    for index in range((count - 1) // 4):
        shape, first, both, made = (f"{word}{index}" for word in ("s", "g", "k", "r"))
        nodes += [
            helper.make_node("Shape", [last], [shape], f"shape{index}"),
            helper.make_node("Gather", [shape, "zero"], [first], f"gather{index}"),
            helper.make_node("Concat", [first, "rest"], [both], f"concat{index}", axis=0),
            helper.make_node("Reshape", [last, both], [made], f"reshape{index}"),
        ]
        last = made
    nodes.append(helper.make_node("Relu", [last], ["y"], "relu"))
    return nodes, {"zero": np.array([0], np.int64), "rest": np.array([-1], np.int64)}


SHAPES = {"branches": branches, "shape_arithmetic": shape_arithmetic}


def time_per_node(kind: str, count: int, folder: Path) -> float:
    """Seconds of the processor per node, to convert and to load; what other programs do does not count."""
    nodes, constants = SHAPES[kind](count)
    x, y = floats("x", [2, 4]), floats("y", [2, 4])
    model = save(folder / f"{kind}{count}.onnx", helper.make_graph(nodes, kind, [x], [y], tensors(constants)))
    start = time.process_time()
    with Client(convert(model, folder / f"{kind}{count}")) as client:
        spent = time.process_time() - start
        feeds = {"x": random(2, 4)}
        assert_same(client.run(feeds), reference(model, feeds))
    return spent / len(nodes)


@pytest.mark.parametrize("kind", ["branches", pytest.param("shape_arithmetic", marks=pytest.mark.slow)])
def test_time_grows_with_the_nodes(kind: str, workshop: Path) -> None:
    time_per_node(kind, 100, workshop)  # what happens once in a process happens here
    small = statistics.median(time_per_node(kind, SMALL, workshop) for _ in range(3))
    large = time_per_node(kind, LARGE, workshop)
    assert large <= MOST * small, f"a node takes {small * 1e6:.0f} µs among {SMALL}, {large * 1e6:.0f} among {LARGE}"


# ---- weights ---------------------------------------------------------------------------------------------------------

COUNT, SIDE = 9, 8192
PIECE = SIDE * SIDE * 4
WEIGHT_BYTES = COUNT * PIECE  # 2.25 GiB, more than a protobuf message may hold

CHILD = """
import json, sys
from pathlib import Path
import numpy as np
import acl
from tests.models.support import Client, convert

task, model, om, data = sys.argv[1:]
found = []
if task == "convert":
    convert(Path(model), Path(om).with_suffix(""))
else:
    assert acl.init() == 0 and acl.rt.set_device(0) == 0
    with Client(Path(om)) as client:
        found = client.run({"x": np.load(data)})[0][:, :2].tolist()
    assert acl.finalize() == 0
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"found": found, "peak": int(peak.split()[1]) * 1024}))
"""  # the peak of ru_maxrss would be that of the parent where this is larger


@pytest.fixture
def large_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose files go when the test ends, since pytest would keep them for three runs."""
    yield tmp_path
    for path in tmp_path.iterdir():
        if path.is_file():
            path.unlink()


def write_large(folder: Path, kind: str) -> Path:
    """A model whose weights lie in a file beside it; only the first row of each is written, the rest is a hole."""
    with open(folder / "weights.bin", "wb") as file:
        file.truncate(WEIGHT_BYTES)
        for index in range(COUNT):
            file.seek(index * PIECE)
            file.write(np.full(SIDE, index + 1, np.float32).tobytes())
    names = [f"w{index}" for index in range(COUNT)]
    kept = [external(name, index * PIECE) for index, name in enumerate(names)]
    takes = {name: [name, "x"] if kind == "Gather" else ["x", name] for name in names}
    nodes = [helper.make_node(kind, takes[name], [f"{name}_out"], f"{name}_node") for name in names]
    nodes.append(helper.make_node("Sum", [f"{name}_out" for name in names], ["y"], "sum"))
    x = helper.make_tensor_value_info("x", TensorProto.INT64, [2]) if kind == "Gather" else floats("x", [2, SIDE])
    graph = helper.make_graph(nodes, "large", [x], [floats("y", [2, SIDE])], kept)
    return save(folder / "large.onnx", graph)


def external(name: str, offset: int) -> TensorProto:
    """A constant in a part of the file."""
    made = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[SIDE, SIDE], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", PIECE)):
        made.external_data.add(key=key, value=str(value))
    return made


def in_child(folder: Path, task: str) -> dict[str, Any]:
    """Convert or run in a process of its own; says what it found and the most memory that it held."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SOFTNPU_ENGINE": "onnxruntime"}
    words = [str(folder / name) for name in ("large.onnx", "large.om", "x.npy")]
    command = [sys.executable, "-c", CHILD, task, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=TIME_LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Gather", "MatMul"])
def test_memory_grows_with_the_weights(kind: str, fresh: None, large_folder: Path) -> None:
    write_large(large_folder, kind)
    rows = np.array([0, 5], np.int64)  # the row of numbers, and a row of the hole
    chosen = np.zeros((2, SIDE), np.float32)
    chosen[[0, 1], rows] = 1
    np.save(large_folder / "x.npy", rows if kind == "Gather" else chosen)
    made = in_child(large_folder, "convert")
    assert made["peak"] < MOST_MEMORY * WEIGHT_BYTES, f"atc held {made['peak'] >> 20} MiB"
    ran = in_child(large_folder, "run")
    assert ran["found"] == [[COUNT * (COUNT + 1) / 2] * 2, [0.0] * 2]
    assert ran["peak"] < MOST_MEMORY * WEIGHT_BYTES, f"loading held {ran['peak'] >> 20} MiB"
