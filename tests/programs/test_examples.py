"""Runs every example as a user would: its own process, a home of its own, no settings."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIME_LIMIT_S = 180
SMALL = "16"  # channels of the first layer of the ResNet-50, instead of 64
MODULES = {"common.py", "media_common.py", "media/resnet.py", "models.py"}  # what the others share
PILLOW = pytest.mark.skipif(
    importlib.util.find_spec("PIL") is None, reason="Pillow is not installed: pip install pillow"
)
MEDIA = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("cv2", "av", "simplejpeg")),
    reason="the packages for media are not installed: pip install 'softnpu[media]'",
)
OCR_MODELS = pytest.mark.skipif(
    importlib.util.find_spec("rapidocr_onnxruntime") is None,
    reason="the PP-OCR models are not installed: pip install --no-deps rapidocr_onnxruntime",
)

PROGRAMS: dict[str, tuple[list[str], str]] = {  # file → arguments, a part of what it must print
    "dynamic_aipp.py": ([], "crop at 32,16"),
    "dynamic_batch.py": ([], "batch 3 is refused with 145013"),
    "dynamic_shape.py": ([], "[2, 3, 100, 60] → [2, 1, 100, 60]"),
    "multi_batch.py": ([], "ran a batch with 3 pictures"),
    "multi_stream.py": ([], "two threads, model 2"),
    "operator_add.py": ([], "the sums are right"),
    "resnet50_async.py": (["--width", SMALL, "--callback_interval", "3"], "exit acl.rt.process_report"),
    "resnet50_sync.py": (["--width", SMALL], "Resources released successfully."),
    "streams_demo.py": ([], "npu-smi"),
}
MEDIA_PROGRAMS: dict[str, tuple[list[str], str]] = {
    "media/vdec_resnet50.py": (["--width", SMALL], "all 10 pictures are equal to FFmpeg's"),
    "media/venc_image.py": ([], "16 pictures of 128x128, key frames [0]"),
    "media/vpc_jpege.py": ([], "batch, region 7: largest difference 0"),
    "media/vpc_resnet50.py": (["--width", SMALL], "the scaled picture differs from OpenCV's by"),
}


def run(name: str, folder: Path, *words: str) -> str:
    """Run one example in a folder, require exit code 0 and no leak, return what it printed."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SOFTNPU_", "ASCEND_"))}
    env |= {
        "HOME": str(folder),
        "SOFTNPU_RUNTIME_DIR": str(folder),
        "SOFTNPU_CHECK": "leaks",
        "SOFTNPU_ENGINE": "onnxruntime",  # no time is spent on finding the fastest
        "PYTHONIOENCODING": "utf-8",
    }
    found = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *words],
        cwd=folder,
        env=env,
        capture_output=True,
        timeout=TIME_LIMIT_S,
    )
    text = found.stdout.decode() + found.stderr.decode()
    assert found.returncode == 0, f"{name}: exit code {found.returncode}\n{text}"
    assert "softnpu: leaks" not in text, text
    return text


def test_every_example_is_here() -> None:
    known = {*PROGRAMS, *MEDIA_PROGRAMS, *MODULES, "first_app.py", "ocr_demo.py", "ocr_pipeline.py"}
    programs = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("media/*.py")]
    assert {path.relative_to(EXAMPLES).as_posix() for path in programs} == known


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_example_runs_and_prints_what_it_should(name: str, tmp_path: Path) -> None:
    words, part = PROGRAMS[name]
    assert part in run(name, tmp_path, *words)


@MEDIA
@pytest.mark.parametrize("name", sorted(MEDIA_PROGRAMS))
def test_every_media_example_runs(name: str, tmp_path: Path) -> None:
    words, part = MEDIA_PROGRAMS[name]
    assert part in run(name, tmp_path, *words)


@PILLOW
def test_the_guides_first_application_classifies_its_picture(tmp_path: Path) -> None:
    run("models.py", tmp_path, "first_app", "--width", SMALL)
    text = run(str(EXAMPLES / "first_app.py"), tmp_path / "first_app")
    lines = text.splitlines()
    assert lines.count("==== top5 inference results: =====") == 2 and len(lines) == 12


@PILLOW
@OCR_MODELS
@pytest.mark.parametrize("name", ["ocr_demo.py", pytest.param("ocr_pipeline.py", marks=MEDIA)])
def test_ocr_reads_what_was_drawn(name: str, tmp_path: Path) -> None:
    text = run(name, tmp_path)
    assert "Every line was read exactly as it was drawn." in text
    assert (tmp_path / "ocr_demo.png").stat().st_size > 1000
