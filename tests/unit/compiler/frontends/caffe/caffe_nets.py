"""Small nets for the tests of the Caffe frontend, and their comparison with OpenCV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.caffe_support import net, run, write

Array = np.ndarray[Any, Any]
MAP = (2, 6, 9, 11)


def rand(*shape: int, seed: int = 1, low: float = -1.0, high: float = 1.0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def head(**inputs: tuple[int, ...]) -> str:
    text = ""
    for name, shape in inputs.items():
        dims = " ".join(f"dim: {dim}" for dim in shape)
        text += f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
    return text


def layer(kind: str, param: str = "", bottom: str = "x", top: str = "y", name: str = "") -> str:
    bottoms = " ".join(f'bottom: "{name}"' for name in bottom.split())
    tops = " ".join(f'top: "{name}"' for name in top.split())
    return f'layer {{ name: "{name or top.split()[0]}" type: "{kind}" {bottoms} {tops} {param} }}\n'


def opencv(
    folder: Path, text: str, blobs: dict[str, list[Array]], feeds: dict[str, Array], outputs: list[str]
) -> list[Array]:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed; it is what the results are compared with")
    prototxt, weights = write(folder, text, blobs)
    other = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    for name, array in feeds.items():
        other.setInput(array, name)
    return [np.array(array) for array in other.forward(outputs)]


def compare(
    folder: Path, text: str, blobs: dict[str, list[Array]], feeds: dict[str, Array], tolerance: float = 1e-5
) -> None:
    graph = net(folder, text, blobs)
    computed = run(graph, *[feeds[node.name] for node in graph.inputs])
    wanted = opencv(folder, text, blobs, feeds, [output.name.split(":")[0] for output in graph.outputs])
    for output, ours, theirs in zip(graph.outputs, computed, wanted, strict=True):
        assert ours.size == theirs.size, (output.name, ours.shape, theirs.shape)
        np.testing.assert_allclose(
            ours.reshape(-1), theirs.reshape(-1), rtol=tolerance, atol=tolerance, err_msg=output.name
        )
