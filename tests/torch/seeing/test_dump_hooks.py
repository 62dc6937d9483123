"""`torch_npu.hooks` of 1.8.1: two runs of a model compared module by module."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import torch_npu
import torch_npu.hooks
from torch import nn


def run_with_hooks(path: Path, device: str, scale: float) -> None:
    torch_npu.hooks.seed_all(7)
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 2)))
    x = torch.randn(5, 4)
    with torch.no_grad():
        model[1][1].weight.mul_(scale)
    torch_npu.hooks.set_dump_path(str(path))
    torch_npu.hooks.register_acc_cmp_hook(model)
    model.to(device)(x.to(device)).sum().backward()


def test_hooks_compare_two_runs(tmp_path: Path) -> None:
    npu_file, cpu_file, result = tmp_path / "npu.pkl", tmp_path / "cpu.pkl", tmp_path / "result.csv"
    run_with_hooks(npu_file, "npu", 1.0)
    run_with_hooks(cpu_file, "cpu", 2.0)
    torch_npu.hooks.tools.compare(str(npu_file), str(cpu_file), str(result))
    table = {row["NPU Name"]: row for row in csv.DictReader(result.read_text().splitlines())}
    first, last = table["Module.0_Linear.0.forward.output.0"], table["Module.1.1_Linear.0.forward.output.0"]
    assert float(first["Cosine"]) == pytest.approx(1, abs=1e-5)
    assert float(first["MaxAbsErr"]) < 1e-5
    assert (first["NPU Tensor Dtype"], first["NPU Tensor Shape"]) == ("torch.float32", "[5, 3]")
    assert float(last["MaxAbsErr"]) > 0.01, "this layer's weights differ"
    assert "Module.0_Linear.0.backward.output.0" in table
    with pytest.raises(ValueError, match="is no file of"):
        torch_npu.hooks.tools.compare(str(result), str(cpu_file), str(tmp_path / "x"))
    with pytest.raises(ValueError, match="does not exist"):
        torch_npu.hooks.set_dump_path(str(tmp_path / "no" / "a.pkl"))
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        torch_npu.hooks.register_acc_cmp_hook(3)
