"""Loads the adapter of this folder and checks it; the folder to build in is the argument."""

import sys
from pathlib import Path

import torch
import torch_npu
from torch_npu import adapt

here = Path(__file__).parent
adapt.load(here / "npu_native_functions.yaml", sources=[here / "OwnKernelNpu.cpp"], build=sys.argv[1])
x, y = torch.randn(3, 4), torch.randn(4)

found = torch.maximum(x.npu(), y.npu())
assert torch.equal(found.cpu(), torch.maximum(x, y)) and found.device.type == "npu"
mixed = torch.maximum(x.npu(), torch.arange(4).npu())
assert torch.equal(mixed.cpu(), torch.maximum(x, torch.arange(4))), mixed

added = torch_npu.npu_own_add(x.npu(), y.npu(), 3)
torch.testing.assert_close(added.cpu(), x + 3 * y)
assert torch.equal(x.npu().npu_own_add(y.npu(), 3).cpu(), added.cpu())

for dim, keepdim in (([0], False), ([1], True), ([0, 1], False)):
    torch.testing.assert_close(torch_npu.npu_own_sum(x.npu(), dim, keepdim).cpu(), x.sum(dim, keepdim))
strided = torch_npu.npu_own_sum(x.npu().t(), [0], False)
torch.testing.assert_close(strided.cpu(), x.t().sum(0))

torch.npu.config.allow_internal_format = True
facts = torch_npu.npu_own_facts(torch.randn(20, 40).to("npu:1"))
assert facts == [1, 1, 1, 1, 1, 29, 3, 2, 16, 16], facts
assert torch_npu.npu_own_unknown(torch.ones(1).npu()).item() == 101

leaf = torch.ones(2).npu().requires_grad_()
out = torch_npu.npu_own_twice(leaf)
out.sum().backward()
assert out.tolist() == [2, 2] and leaf.grad.tolist() == [7, 7]

try:
    torch_npu.npu_own_add(x.npu(), y, 1)
except RuntimeError as error:
    assert "same device" in str(error), error
else:
    raise AssertionError("tensors on two devices were taken")
print("adapter: ok")
