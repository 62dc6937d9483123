"""npu_model where there is no torch: importing it is free, using it says what to install."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[{name!r}] = None  # as if it were not installed
import softnpu.flow.drawing.npu_model as face
try:
    {use}
except ModuleNotFoundError as problem:
    print("refused", problem.name, problem)
"""


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("torch", "face.npu_model()"),
        ("torch", "face.npu_model(lambda x: x)"),
        ("torch_npu", "face.npu_model()"),
    ],
)
def test_absence_of_torch_is_told_at_decoration(name: str, use: str) -> None:
    if name == "torch_npu" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(name=name, use=use)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert done.stdout.startswith(f"refused {name} ") and "pip install" in done.stdout


def test_importing_npu_model_does_not_import_torch() -> None:
    code = "import sys, softnpu.flow.drawing.npu_model, softnpu.flow.values.torch_door; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
