"""ASCEND_RT_VISIBLE_DEVICES as PyTorch reads it: ids must ascend, an empty value is no device."""

from __future__ import annotations

import os
import subprocess
import sys


def run(program: str, **env: str) -> str:
    """The output of a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


COUNTS = {"0,1,2,3": 4, "1,3": 2, "1,0": 1, "0,2,1,3": 2, "2,2": 1, "0,1x": 1, "x": 0, "0,9": 1, "": 0}


def test_counts_before_initialisation():
    program = f"""
import os, torch
for value in {list(COUNTS)}:
    os.environ["ASCEND_RT_VISIBLE_DEVICES"] = value
    print(torch.npu.device_count(), torch.npu.is_available())
"""
    printed = run(program, SOFTNPU_DEVICES="4").split("\n")
    assert printed == [f"{count} {count > 0}" for count in COUNTS.values()]


def test_ids_must_ascend():
    program = """
import torch
print(torch.npu.device_count(), torch.accelerator.device_count(), len(torch.npu.get_rng_state_all()))
print(torch.ones(1, device="npu:1").sum().item())
try:
    torch.ones(1, device="npu:2")
except RuntimeError as error:
    print("there are 2 npu devices" in str(error))
"""
    printed = run(program, ASCEND_RT_VISIBLE_DEVICES="0,2,1,3", SOFTNPU_DEVICES="4").split("\n")
    assert printed == ["2 2 2", "1.0", "True"]


def test_no_device_is_a_clear_error():
    program = """
import torch
torch.manual_seed(1)
print(torch.npu.is_available(), torch.npu.device_count(), torch.npu.is_initialized())
for use in (
    torch.npu.current_device, torch.npu.init, lambda: torch.ones(1, device="npu"), lambda: torch.ones(1).npu(),
    torch.npu.Stream, torch.npu.get_device_name, lambda: torch.nn.Linear(2, 2).npu(), lambda: torch.npu.set_device(0),
):
    try:
        use()
        print("no error")
    except RuntimeError as error:
        print(str(error).partition(":")[0], "ERR00009" in str(error))
print(torch.ones(2).sum().item(), torch.cuda.is_available())
"""
    printed = run(program, ASCEND_RT_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="").split("\n")
    assert printed == ["False 0 False"] + ["No NPU devices are available True"] * 8 + ["2.0 False"]
