"""Runs every program of media_guide_v1_video/ as a user would: its own process, a home of its own."""

from pathlib import Path

import pytest

from tests.programs.test_pyacl_guide import run

FOLDER = Path(__file__).parent / "media_guide_v1_video"
PROGRAMS = sorted(FOLDER.glob("ch*.py"))


def test_programs_are_found() -> None:
    assert PROGRAMS, f"no programs in {FOLDER}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_every_program_of_the_chapter_runs(program: Path, tmp_path: Path) -> None:
    run(program, tmp_path)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_on_a_strict_chip_nothing_is_left_behind(program: Path, tmp_path: Path) -> None:
    text = run(program, tmp_path, SOFTNPU_CHECK="strict,leaks", SOFTNPU_SOC="Ascend310P3")
    assert "leaks" not in text
