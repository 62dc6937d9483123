"""Snippets in a process of their own: environment variables of the chip are read when torch_npu is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

_PROGRAM = """
import json, sys, threading
import torch, torch_npu
found = {}

def run(name, code):
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    try:
        exec(code, scope)
        found[name] = repr(scope.get("out"))
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"

for name, code in json.loads(sys.argv[1]).items():
    thread = threading.Thread(target=run, args=(name, code))  # a thread each: it may have one device only
    thread.start()
    thread.join()
print(json.dumps(found))
"""


def python(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A program with variables set; the ones of this process that concern chips are left away, and so is a GPU, which chip mode refuses."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SOFTNPU_TORCH", "INF_NAN_"))}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=kept | {"CUDA_VISIBLE_DEVICES": ""} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def outcomes(snippets: dict[str, str], **variables: str) -> tuple[dict[str, str], str]:
    """What each snippet left in `out`, or its error; and what was written to stderr."""
    done = python(_PROGRAM, json.dumps(snippets), **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
