"""Damaged JPEG, PNG, H.264 and H.265 through acl.media: a code each, and the next good file decodes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KINDS = ("jpeg", "png", "h264", "h265")


def run(program: str, *words: object, seconds: float, folder: Path) -> str:
    """A program of this folder in a process of its own; what it printed."""
    env = {**os.environ, "ASCEND_GLOBAL_LOG_LEVEL": "4", "SOFTNPU_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / program), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=env,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def check(text: str) -> None:
    found = re.search(r"refused (\d+), decoded (\d+)", text)
    assert found, text
    assert int(found[1]) > 0, "no damaged file was refused: the damage does no harm"


@pytest.mark.parametrize("kind", KINDS)
def test_some_damaged_files(kind: str, tmp_path: Path) -> None:
    check(run("media_damage.py", kind, 200 if kind.startswith("h26") else 5000, 1, seconds=120, folder=tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_damaged_files(kind: str, tmp_path: Path) -> None:
    check(run("media_damage.py", kind, 5000, 7, seconds=1500, folder=tmp_path))


@pytest.mark.slow
def test_ten_minutes_of_everything(tmp_path: Path) -> None:
    assert "flat" in run("media_soak.py", 600, seconds=900, folder=tmp_path)


def test_seconds_of_everything(tmp_path: Path) -> None:
    assert "flat" in run("media_soak.py", 12, seconds=120, folder=tmp_path)
