"""The whole declared surface, called at random from several threads in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("random_surface.py")


def drive(tmp_path: Path, calls: int, seed: int, **extra: str) -> None:
    """Run the program; its exit code tells crash (negative), deviation (1) and hang (its own watchdog ends it)."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SOFTNPU_", "ASCEND_"))}
    environment |= {
        "HOME": str(tmp_path),
        "SOFTNPU_RUNTIME_DIR": str(tmp_path / "run"),
        "SOFTNPU_MEMORY": "256M",
        "MALLOC_ARENA_MAX": "1",  # the C library keeps an arena per thread, which would look like a leak
        **extra,
    }
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(PROGRAM), str(calls), str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    logs = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("plog-*.log"))
    defects = [line for line in logs.splitlines() if "internal error" in line]
    assert not defects, defects[:3]


def test_two_hundred_thousand_calls(tmp_path: Path) -> None:
    drive(tmp_path, 200_000, seed=20261115)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_in_strict_mode_end_in_documented_codes(tmp_path: Path, seed: int) -> None:
    drive(tmp_path, 20_000, seed, SOFTNPU_CHECK="strict")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_calls_with_more_seeds_end_in_documented_codes(tmp_path: Path, seed: int) -> None:
    drive(tmp_path, 400_000, seed)
