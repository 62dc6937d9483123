"""`import acl` against a bare interpreter, and which heavy libraries it pulls in (none)."""

from __future__ import annotations

import subprocess
import sys

from _tools import Result, interleaved

HEAVY = ("onnx", "onnxruntime", "torch", "cv2", "numpy", "rich")


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def results() -> list[Result]:
    """Measure."""
    bare, with_acl, first_call = interleaved(
        lambda: _run("pass"),
        lambda: _run("import acl"),
        lambda: _run("import acl; acl.init(); acl.rt.set_device(0)"),
        rounds=15,
    )
    loaded = _run(f"import acl, sys; print([m for m in {HEAVY} if m in sys.modules])").strip()
    cost, first = (with_acl - bare) * 1000, (first_call - bare) * 1000
    return [
        Result(
            "import acl",
            f"{cost:.1f} ms",
            f"bare python {bare * 1000:.1f} ms",
            f"{with_acl / bare:.2f}",
            "< 100 ms more",
            cost < 100,
        ),
        Result(
            "import acl, init, set_device",
            f"{first:.1f} ms",
            f"bare python {bare * 1000:.1f} ms",
            f"{first_call / bare:.2f}",
            "–",
            True,
        ),
        Result("heavy modules after import acl", loaded, "–", "–", "[]", loaded == "[]"),
    ]
