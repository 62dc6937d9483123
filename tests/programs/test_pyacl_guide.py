"""Runs every program of pyacl_guide/ as a user would: its own process, a home of its own, no settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "pyacl_guide"
PROGRAMS = sorted(FOLDER.rglob("ch*_*.py"))
TIME_LIMIT_S = 60


def run(program: Path, home: Path, **settings: str) -> str:
    """Run one program, require exit code 0, return what it printed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SOFTNPU_", "ASCEND_"))}
    env.update(settings, HOME=str(home))
    output = home / "output.txt"
    with output.open("wb") as file:
        try:
            code: int | str = subprocess.run(
                [sys.executable, str(program)], stdout=file, stderr=subprocess.STDOUT, env=env, timeout=TIME_LIMIT_S
            ).returncode
        except subprocess.TimeoutExpired:
            code = f"none after {TIME_LIMIT_S} s"
    text = output.read_text(encoding="utf-8", errors="replace")
    assert code == 0, f"{program.name}: exit code {code}\n{text}"
    return text


def test_programs_are_found() -> None:
    assert PROGRAMS, f"no programs in {FOLDER}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_every_program_of_the_guide_runs(program: Path, tmp_path: Path) -> None:
    run(program, tmp_path)


@pytest.mark.parametrize(
    ("visible", "devices"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("1", [1]),
        ("2,3,4", [2, 3, 4]),
        ("4,3,2", [4, 3, 2]),
        ("2,3,-1,5", [2, 3]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_visible_devices_are_those_of_the_environment(visible: str | None, devices: list[int], tmp_path: Path) -> None:
    settings = {"SOFTNPU_DEVICES": "8"}
    if visible is not None:
        settings["ASCEND_RT_VISIBLE_DEVICES"] = visible
    text = run(FOLDER / "ch03/ch03_4_visible_devices.py", tmp_path, **settings)
    wanted = [f"count {len(devices)}", *(f"index {i} device {n}" for i, n in enumerate(devices))]
    assert text.splitlines() == wanted
