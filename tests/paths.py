"""Where things lie, for tests in folders of any depth."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
NATIVE = ROOT / "native" / "torch"
PROGRAMS = ROOT / "tests" / "programs"
