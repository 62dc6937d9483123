"""What these tests share: a place to convert and run models in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def workshop(runtime: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a test, with a runtime; onnxruntime is the engine, so that nothing is measured."""
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")
    monkeypatch.chdir(tmp_path)
    return tmp_path
