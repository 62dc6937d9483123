"""The page about the test cases of the ONNX project, from the numbers and reasons that the test keeps.

The suite itself is run by tests/models/test_onnx_suite.py, which fails when the numbers are out of date.
"""

from __future__ import annotations

from pathlib import Path

from generators.common import PAGE_MARK, ROOT, SUPPORT

KNOWN = ROOT / "tests/models/onnx_suite_known.txt"


def known() -> tuple[dict[str, str], dict[str, str]]:
    """The numbers of the last run, and the reason of every case that fails."""
    head: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for line in KNOWN.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = (part.strip() for part in line.partition(":"))
            (reasons if name.startswith("test_") else head)[name] = rest
    return head, reasons


def page() -> str:
    """The page as text."""
    head, reasons = known()
    counted, passed = int(head["counted"]), int(head["passed"])
    lines = [
        PAGE_MARK,
        "",
        "# The ONNX test cases",
        "",
        f"**{passed} of {counted}** cases pass ({100 * passed / counted:.1f} %).",
        "",
        "The ONNX project keeps test cases for every operator: a small model, its inputs, the outputs that are right. Each one is",
        "converted with `atc` and run through `acl.mdl`. A case counts when its inputs and outputs are tensors and onnxruntime",
        f"itself passes it from Python with NumPy arrays: {counted} of {head['collected']} with {head['versions']}. The others hold",
        "sequences or types that NumPy lacks, or operators that onnxruntime cannot run or computes otherwise. Operators of which",
        "only a draft is published count like all others.",
        "",
        "The nine light models of the ONNX project (AlexNet, DenseNet, Inception 1 and 2, ResNet-50, ShuffleNet, SqueezeNet,",
        "VGG-19, ZFNet) give the stored outputs.",
        "",
        "## What does not pass",
        "",
        "| Case | Reason |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {reason} |" for name, reason in sorted(reasons.items())]
    return "\n".join([*lines, ""])


def pages() -> dict[Path, str]:
    """What people read."""
    return {SUPPORT / "onnx_suite.md": page()}
