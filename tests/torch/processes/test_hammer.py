"""Sixteen threads at once: no crash, every value right, nothing left behind (tests/robustness/torch_hammer.py)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.paths import ROOT

PROGRAM = ROOT / "tests" / "robustness" / "torch_hammer.py"


def _hammer(seconds: int, seed: int) -> dict:
    result = subprocess.run(
        [sys.executable, str(PROGRAM), str(seconds), str(seed)], capture_output=True, text=True, timeout=seconds + 150
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads(result.stdout.splitlines()[-1])["done"]


def test_sixteen_threads():
    done = _hammer(8, 1)
    assert sum(done.values()) > 1000
    for action in (
        "hold",
        "mm",
        "streams",
        "pinned",
        "out_of_memory",
        "empty_cache",
        "history",
        "statistics",
        "backward",
    ):
        assert done.get(action, 0) > 0, f"{action} was never done: {done}"


@pytest.mark.slow
def test_sixteen_threads_for_five_minutes():
    assert _hammer(300, 2)["hold"] > 1000
