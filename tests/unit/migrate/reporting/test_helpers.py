"""The helper package of -sim against torch itself, in a process without any device."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytest.importorskip("libcst")
from softnpu.migrate.reporting.reports import write_template

CHECK = """
import torch, torch.nn.functional as F
import ascend_function as a
from ascend_function import similar_api as s
torch.manual_seed(0)

def same(x, y): torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5)

for kwargs in (dict(), dict(stride=2, padding=1), dict(padding=(2, 0, 1), dilation=(2, 1, 1), groups=2, bias=False),
               dict(padding="same"), dict(padding=1, padding_mode="replicate")):
    ours, theirs = s.Conv3d(4, 6, 3, **kwargs), torch.nn.Conv3d(4, 6, 3, **kwargs)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 4, 7, 8, 9, requires_grad=True)
    same(ours(x), theirs(x)); same(ours(x[0]), theirs(x[0]))
    same(torch.autograd.grad(ours(x).sum(), x)[0], torch.autograd.grad(theirs(x).sum(), x)[0])
x = torch.randn(2, 3, 9, 7)
y, index = F.max_pool2d(x, 2, return_indices=True)
same(s.MaxUnpool2d(2)(y, index, output_size=x.shape), F.max_unpool2d(y, index, 2, output_size=x.shape))
x = torch.randn(2, 3, 8, 6)
y, index = F.max_pool2d(x, 2, return_indices=True)
same(s.max_unpool2d(y, index, 2), F.max_unpool2d(y, index, 2))
x = torch.randn(2, 3, 10)
y, index = F.max_pool1d(x, 3, 2, return_indices=True)
same(s.MaxUnpool1d(3, 2)(y, index, x.shape), F.max_unpool1d(y, index, 3, 2, output_size=x.shape))
for repeats in (2, torch.tensor([1, 0, 3])):
    same(s.repeat_interleave(x, repeats, 1), torch.repeat_interleave(x, repeats, 1))
same(s.repeat_interleave(x, 2), torch.repeat_interleave(x, 2))
same(s.pad(x, (1, 2)), F.pad(x, (1, 2))); same(s.pad(x, (1, 2), mode="reflect"), F.pad(x, (1, 2)))
z = torch.randn(1, 2, 4, 4)
same(s.ReflectionPad2d(1)(z), F.pad(z, (1, 1, 1, 1)))
bn = s.SyncBatchNorm(2); same(bn(z), torch.nn.BatchNorm2d(2)(z))
model = torch.nn.Sequential(torch.nn.BatchNorm2d(2)); assert s.SyncBatchNorm.convert_sync_batchnorm(model) is model
s.set_default_tensor_type("torch.npu.HalfTensor"); assert torch.ones(1).dtype is torch.float16
s.set_default_tensor_type(torch.FloatTensor); assert torch.ones(1).dtype is torch.float32
try: s.set_default_tensor_type("torch.npu.IntTensor")
except TypeError: pass
else: raise AssertionError
parallel = a.TorchDataParallel(model); same(parallel(z), model(z)); assert list(parallel.state_dict())[0].startswith("module.")
"""


def test_near_equivalents_give_what_torch_gives(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    write_template("ascend_function", tmp_path / "ascend_function")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECK],
        cwd=tmp_path,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
