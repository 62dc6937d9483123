"""Real Caffe models (those of the package hyperlpr) against OpenCV."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from softnpu.compiler.errors import AtcError
from softnpu.compiler.frontends.caffe.reader import read
from tests.caffe_support import run

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed; it is what the results are compared with")


def folder() -> Path:
    spec = importlib.util.find_spec("hyperlpr")
    path = Path(spec.origin).parent / "models" / "dnn" if spec is not None and spec.origin else Path("missing")
    if not path.is_dir():
        pytest.skip("the models of the package hyperlpr 0.0.2 are not here; pip install --no-deps hyperlpr==0.0.2")
    return path


def files(name: str) -> tuple[Path, Path]:
    return folder() / f"{name}.prototxt", folder() / f"{name}.caffemodel"


def picture(shape: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


@pytest.mark.parametrize("name", ["HorizonalFinemapping", "SegmenationFree-Inception", "refinenet"])
def test_a_model_gives_what_opencv_gives(name: str) -> None:
    prototxt, weights = files(name)
    graph, notes = read(prototxt, weights, name)
    graph.verify()
    assert notes == []
    x = picture(graph.inputs[0].output.shape)
    other = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    other.setInput(x, graph.inputs[0].name)
    wanted = other.forward([output.name.split(":")[0] for output in graph.outputs])
    for ours, theirs in zip(run(graph, x), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


_SSD = """type: "SSDDetectionOutput"
  bottom: "ssd0_concat1"
  bottom: "flatten0"
  bottom: "concat0"
  top: "out_boxnum"
  top: "detection_out"
  ssddetectionoutput_param {
    num_classes: 2
    iou_threshold: 0.45
    top_k: 400
    code_type: 2
    keep_top_k: 100
    confidence_threshold: 0.01
  }
}
"""


def test_an_ssd_model_after_the_change_that_atc_asks_for(tmp_path: Path) -> None:
    prototxt, weights = files("mininet_ssd_v1")
    with pytest.raises(AtcError) as caught:
        read(prototxt, weights, "ssd")
    assert caught.value.code == "E11008"
    text = prototxt.read_text(encoding="utf-8")
    changed = tmp_path / "ssd.prototxt"
    changed.write_text(text[: text.index('type: "DetectionOutput"')] + _SSD, encoding="utf-8")
    graph, _ = read(changed, weights, "ssd")
    x = picture((1, 3, 512, 512))
    number, boxes = run(graph, x)
    other = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    other.setInput(x, "data")
    wanted = other.forward("detection_out")[0, 0]
    count = int(number[0, 0])
    assert count == int((wanted[:, 2] > 0).sum()) > 0
    np.testing.assert_allclose(boxes[0, :count, :7], wanted[:count], rtol=1e-4, atol=1e-4)
