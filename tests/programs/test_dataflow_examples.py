"""Runs the examples with DataFlow as a user would. Their results are also computed here, by other means."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.programs.test_examples import EXAMPLES, MEDIA, OCR_MODELS, PILLOW, run

FOLDER = EXAMPLES / "dataflow"
TORCH = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "torch_npu")),
    reason="torch or native/torch is not installed: make setup",
)
ENGINES = ["embedded", "inline"]


@pytest.fixture
def examples(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the folder; what that brings along goes again."""
    for path in (*EXAMPLES.glob("*.py"), *FOLDER.glob("*.py")):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(EXAMPLES):
            del sys.modules[name]


def test_every_program_is_here() -> None:
    known = {"image_pipeline.py", "image_pipeline_npu.py", "ocr.py", "frames.py", "acl_process.py"}
    assert {path.name for path in FOLDER.glob("*.py")} == known


def check_image_run(text: str, folder: Path, nodes: list[str], count: int) -> None:
    """Every frame once and in order, with its time; small differences; a drawing of all nodes."""
    found = re.findall(r"frame (\d+) at ([\d.]+) s: transaction (\d+), shape \[1, 3, 512, 512\]", text)
    assert found == [(str(number), f"{number * 0.04:.2f}", str(number + 1)) for number in range(count)]
    differences = re.findall(r"largest difference from the formula: (\S+)", text)
    assert len(differences) == 1 and float(differences[0]) < 1e-5
    drawing = ElementTree.parse(folder / "flow.svg")
    words = {one.text for one in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert words >= {*nodes, "image"}
    assert all(re.search(rf"^{name} +ready ", text, re.MULTILINE) for name in nodes)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_image_pipeline_runs_as_written(engine: str, tmp_path: Path) -> None:
    text = run("dataflow/image_pipeline.py", tmp_path, "--engine", engine, "--frames", "7")
    check_image_run(text, tmp_path, ["preprocess_fnode", "model1", "model2", "postprocess_fnode"], 7)


@TORCH
@pytest.mark.parametrize(("engine", "level"), [("embedded", "1"), ("inline", "2")])
def test_the_image_pipeline_with_an_npu_model_runs_as_written(engine: str, level: str, tmp_path: Path) -> None:
    words = ["--engine", engine, "--frames", "6", "--level", level]
    text = run("dataflow/image_pipeline_npu.py", tmp_path, *words)
    check_image_run(text, tmp_path, ["preprocess_fnode", "Scale_fnode", "Normalise_fnode", "postprocess_fnode"], 6)


def test_the_formula_of_the_image_pipelines_is_that_of_opencv_and_onnxruntime(examples: Any, tmp_path: Path) -> None:
    import onnxruntime

    frames, pipeline = examples("frames"), examples("image_pipeline")
    cropped = np.ascontiguousarray(frames.frame(3)[:, :, 104:616, 224:736])  # 960x720, the middle 512x512
    corner = np.ascontiguousarray(cropped[:, :, :256, :256])
    for make, given, wanted in (
        (pipeline.scaling_model, cropped, frames.scale(cropped, 256)),
        (pipeline.normalising_model, corner, corner * 2 - 1),
    ):
        session = onnxruntime.InferenceSession(str(make(tmp_path / "model.onnx")), providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"x": given})[0], wanted, atol=1e-6)
    small = cropped.reshape(1, 3, 256, 2, 256, 2).mean((3, 5))  # half the size: the mean of four pixels
    np.testing.assert_allclose(frames.scale(cropped, 256), small, atol=1e-6)
    cv2 = pytest.importorskip("cv2")
    large = cv2.resize(small[0].transpose(1, 2, 0), (512, 512), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_allclose(frames.expected(frames.frame(3))[0].transpose(1, 2, 0), large, atol=1e-5)


@PILLOW
@OCR_MODELS
@MEDIA
def test_ocr_reads_what_was_drawn_and_what_the_acl_program_reads(tmp_path: Path) -> None:
    text = run("dataflow/ocr.py", tmp_path, "--count", "4", "--check", "--output", "drawn")
    assert "Every line was read exactly as it was drawn." in text
    assert "The acl program reads the same." in text
    found = re.findall(r"^drawn/ocr_(\d)\.png: (.*)$", text, re.MULTILINE)
    assert [number for number, _ in found] == ["0", "1", "2", "3"]
    assert found[1][1].startswith("with a pyACL program | Order number 4711 | ")
    assert {line for _, one in found for line in one.split(" | ")} == set(found[0][1].split(" | "))
    assert all((tmp_path / "drawn" / f"ocr_{number}.png").stat().st_size > 1000 for number in range(4))


@PILLOW
@OCR_MODELS
@MEDIA
def test_ocr_in_one_process_with_an_own_picture(tmp_path: Path) -> None:
    """A size that is no multiple of the detector's, an odd width, and much less text."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (1001, 563), (240, 240, 230))
    pen = ImageDraw.Draw(image)
    pen.text((51, 77), "DataFlow", (10, 20, 30), ImageFont.load_default(60))
    pen.text((201, 277), "2026", (10, 20, 30), ImageFont.load_default(80))
    image.save(tmp_path / "own.jpg", quality=95)
    text = run("dataflow/ocr.py", tmp_path, "own.jpg", "--engine", "inline")
    assert "ocr_0.png: DataFlow | 2026\n" in text
    drawn = np.asarray(Image.open(tmp_path / "ocr_0.png")).astype(int)
    assert drawn.shape == (563, 1001, 3)
    rows, columns = np.nonzero(np.abs(drawn - (220, 40, 40)).sum(axis=2) == 0)
    assert rows.min() < 100 and rows.max() > 330 and columns.min() < 60, "boxes around both words"


def test_the_folder_does_not_hide_the_package() -> None:
    subprocess.run([sys.executable, "-c", "import dataflow; dataflow.pyflow"], cwd=EXAMPLES, check=True, timeout=60)
