"""Bodies in C++: the guide's AddKernelNpu.cpp with its test_add.py, and what else the headers offer. Each in a process of its own:
registrations of C++ stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_npu import adapt
from torch_npu.adapt import _command

from tests.paths import PROGRAMS

SEED = PROGRAMS / "operator_guide"
_LIMIT = 600

_ADD = """
import ctypes, sys, unittest
from pathlib import Path
import torch, torch_npu
from torch_npu import adapt

folder, build = Path(sys.argv[1]), Path(sys.argv[2])
adapt.load(folder / "npu_native_functions.yaml", sources=[folder / "AddKernelNpu.cpp"], build=build, signatures="1.8")
library = ctypes.CDLL(str(next(build.glob("*.so"))))
x, y = torch.randn(5, 6), torch.randn(5, 6)
cases = [
    (torch.add(x.npu(), y.npu()), x + y), (torch.add(x.npu(), y.npu(), alpha=2), x + 2 * y), (x.npu() + 3, x + 3),
    (x.npu() + y[0].npu(), x + y[0]), (torch.add(x.npu(), y.npu(), out=torch.empty(0).npu()), x + y),
    (x.half().npu() + y.half().npu(), x.half() + y.half()), (x.npu().t().add_(y.npu().t()), (x + y).t()),
    (x.npu().add_(1), x + 1), (torch.arange(3).npu() + torch.arange(3).npu(), torch.arange(3) * 2),
]
assert library.add_kernel_calls() == len(cases), library.add_kernel_calls()
for found, wanted in cases:
    torch.testing.assert_close(found.cpu(), wanted)
leaf = x.npu().requires_grad_()
(leaf + y.npu()).sum().backward()
assert leaf.grad.eq(1).all()
sys.path.insert(0, str(folder))
import test_add
before = library.add_kernel_calls()
unittest.main(test_add, argv=["test_add.py"], exit=False)
assert library.add_kernel_calls() == before + 3
print("adapter: ok")
"""


def _run(*words: str) -> str:
    environment = {**os.environ, "MAX_JOBS": "1"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=_LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_guide_s_add(tmp_path: Path) -> None:
    said = _run("-c", _ADD, str(SEED), str(tmp_path))
    assert "adapter: ok" in said and "Ran 1 test" in said and "OK" in said


@pytest.mark.slow
def test_the_other_helpers(tmp_path: Path) -> None:
    assert "adapter: ok" in _run(str(SEED / "own" / "check.py"), str(tmp_path))


def test_the_guide_s_test_file_without_an_adapter() -> None:
    said = _run(str(SEED / "test_add.py"))
    assert "Ran 1 test" in said and "OK" in said


def test_an_extension_finds_the_headers() -> None:
    from torch_npu.utils.cpp_extension import NpuExtension

    made = NpuExtension("mine", ["a.cpp"], include_dirs=["here"])
    assert "here" in made.include_dirs and adapt.include_path() in made.include_dirs
    assert (Path(adapt.include_path()) / "torch_npu/csrc/framework/utils/OpAdapter.h").is_file()


# OpCommand's engine, without C++


def test_a_cann_operator_by_name() -> None:
    x, y, out = torch.randn(3, 4).npu(), torch.randn(3, 4).npu(), torch.empty(3, 4).npu()
    _command.run("Sub", [x, y], [out], "{}", [])
    assert torch.equal(out.cpu(), x.cpu() - y.cpu())


def test_results_over_inputs_and_strided_results() -> None:
    x = torch.randn(4, 4)
    same = x.npu()
    _command.run("Exp", [same.t()], [same], "{}", [])
    torch.testing.assert_close(same.cpu(), x.t().exp())
    wide = torch.zeros(4, 8).npu()
    _command.run("Exp", [x.npu()], [wide[:, ::2]], "{}", [])
    torch.testing.assert_close(wide.cpu()[:, ::2], x.exp())
    assert not wide[:, 1::2].any()


def test_what_cannot_be_run() -> None:
    x, out = torch.randn(2).npu(), torch.empty(2).npu()
    with pytest.raises(RuntimeError, match=r"(?s)OpCommand OperatorOfTheFuture: .*ERR01100 OPS call acl api failed"):
        _command.run("OperatorOfTheFuture", [x], [out], "{}", [])
    with pytest.raises(RuntimeError, match="outputs must be tensors on npu"):
        _command.run("Exp", [x], [torch.empty(2)], "{}", [])
    with pytest.raises(RuntimeError, match=r"torch.float8_e5m2fnuz has no type in ACL"):
        _command.run("Exp", [torch.zeros(2, dtype=torch.float8_e5m2fnuz).npu()], [out], "{}", [])
    with pytest.raises(RuntimeError, match="input 0 is absent"):
        _command.run("Exp", [None], [out], "{}", [])


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("backend: NPU\ncpp_namespace: a\nsupported:\n  - add.Tensor\n")
    with pytest.raises(adapt.AdaptError, match=r"AddKernelNpu.cpp: there is no such source file"):
        adapt.load(tmp_path / "x.yaml", sources=[tmp_path / "AddKernelNpu.cpp"])
