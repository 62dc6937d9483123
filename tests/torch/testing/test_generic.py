"""torch's own device-generic tests on npu: a user's class instantiated for the device, operator databases, several processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_npu")

GENERIC = """
import torch
import torch_npu
import torch_npu.testing
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import (
    deviceCountAtLeast, dtypes, dtypesIfPRIVATEUSE1, instantiate_device_type_tests, onlyCPU, onlyNativeDeviceTypes, onlyPRIVATEUSE1, ops,
)
from torch.testing._internal.common_methods_invocations import op_db as all_operators
from torch_npu.testing.common_methods_invocations import op_db
from torch_npu.testing import _npu_testing_utils
from torch_npu.testing.common_utils import _create_scaling_case, subtest  # the second one is torch's
from torch_npu.testing.decorator import Dtypes, instantiate_ops_tests
from torch_npu.testing.testcase import TestCase as NpuTestCase, run_tests

_npu_testing_utils.update_skip_list({"neg": "left out by the user", "test_off_npu (__main__.TestGeneric)": ["said so", []]})
NAMES = ("abs", "mm", "add", "to_sparse", "neg")


class TestGeneric(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_add(self, device, dtype):
        x = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual(device, "npu:0")
        self.assertEqual((x + x).cpu(), torch.full((3,), 2, dtype=dtype))

    def test_wrong(self, device):
        self.assertEqual(torch.ones(2, device=device), torch.zeros(2, device=device))

    @dtypes(torch.float32)
    @dtypesIfPRIVATEUSE1(torch.float16)
    def test_dtype_here(self, device, dtype):
        self.assertEqual(dtype, torch.float16)

    @onlyNativeDeviceTypes
    @onlyPRIVATEUSE1
    def test_only(self, device):
        self.assertTrue(torch.ones(1, device=device).is_npu)

    @onlyCPU
    def test_cpu(self, device):
        self.fail("must not run")

    def test_off(self, device):
        self.fail("must not run")

    @deviceCountAtLeast(2)
    def test_devices(self, devices):
        self.assertEqual(devices[:2], ["npu:0", "npu:1"])

    @ops([op for op in all_operators if op.name in NAMES], allowed_dtypes=(torch.float32,))
    def test_ops(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            self.assertTrue(op(sample.input, *sample.args, **sample.kwargs).is_npu)


class TestSecond(TestCase):
    def test_device(self, device):
        self.assertEqual(torch.device(device).type, "npu")


class TestBoth(TestCase):
    def test_device(self, device):
        self.assertEqual(torch.ones(1, device=device).sum(), 1)


instantiate_device_type_tests(TestGeneric, globals(), only_for=("npu",))
instantiate_device_type_tests(TestSecond, globals(), only_for="privateuse1")
instantiate_device_type_tests(TestBoth, globals())


@instantiate_ops_tests([op for op in op_db if op.name in NAMES])
class TestDatabase(NpuTestCase):
    @Dtypes(torch.float32)
    def test_same(self, dtype, op):
        for sample in op.sample_inputs("cpu", dtype):
            moved = sample.transform(lambda value: value.npu() if isinstance(value, torch.Tensor) else value)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            self.assertRtolEqual(expected, op(moved.input, *moved.args, **moved.kwargs))

    def test_scaling_case(self):
        control, scaled, optimizer, _, data, loss_fn, skip = _create_scaling_case()
        before = next(control.parameters()).clone()
        for x, target in data:
            loss_fn(control(x), target).backward()
        optimizer.step()
        self.assertTrue(next(scaled.parameters()).is_npu)
        self.assertNotEqual(before, next(control.parameters()))

    def test_filtered(self):
        self.assertEqual(len(all_operators) - len(op_db), 8)


if __name__ == "__main__":
    run_tests()
"""

PROCESSES = """
import torch
import torch_npu
import torch_npu.testing
from torch.testing._internal.common_distributed import MultiProcessTestCase
from torch.testing._internal.common_utils import run_tests
from torch_npu.testing.common_distributed import skipIfUnsupportMultiNPU, with_comms


class TestProcesses(MultiProcessTestCase):
    @property
    def world_size(self):
        return 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    @skipIfUnsupportMultiNPU(2)
    def test_runs(self):
        torch.npu.set_device(self.rank)
        self.assertEqual(torch.ones(1).npu().device.index, self.rank)

    @skipIfUnsupportMultiNPU(2)
    def test_wrong(self):
        self.assertEqual(self.rank, 0)

    @skipIfUnsupportMultiNPU(99)
    def test_too_many(self):
        self.fail("must not run")

    @with_comms(backend="mpi")
    def test_comms(self):
        self.fail("must not run")


if __name__ == "__main__":
    run_tests()
"""

# A backend that only has the name: enough to import, not to communicate.
COLLECTIVES = """
import torch, torch_npu
from torch_npu.testing._internal import common_dtensor, common_fsdp
from torch_npu.testing.common_distributed import with_comms

test = common_dtensor.NPUDTensorTestBase("run")
print(test.device_type, test.backend, test.world_size, common_dtensor.NUM_DEVICES, common_fsdp.DEVICE_TYPE, common_fsdp.get_devtype())

class Joined:
    def init_pg(self, eager_init, backend):
        print("joined", eager_init, backend)
    def destroy_pg(self):
        print("left")
    @with_comms(eager_init=True, backend="hccl")
    def test(self, number):
        print("ran", number)

Joined().test(3)
"""


def run(folder: Path, text: str, limit: float) -> tuple[int, list[str]]:
    """The lines of a user's tests; a GPU is hidden, since torch would make tests for it too."""
    (folder / "test_user.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "test_user.py", "-v"],
        cwd=folder,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_device_generic_tests(tmp_path: Path) -> None:
    code, lines = run(tmp_path, GENERIC, 100)
    outcome = {line.split(" ")[0] + line.split(".")[1]: line.split(" ... ")[1] for line in lines if ") ... " in line}
    generic = "TestGenericPRIVATEUSE1"
    expected = {
        f"test_add_npu_float32{generic}": "ok",
        f"test_add_npu_int64{generic}": "ok",
        f"test_wrong_npu{generic}": "FAIL",
        f"test_dtype_here_npu_float16{generic}": "ok",
        f"test_only_npu{generic}": "ok",
        f"test_cpu_npu{generic}": "skipped 'Only runs on cpu'",
        f"test_devices_npu{generic}": "ok",
        f"test_ops_abs_npu_float32{generic}": "ok",
        f"test_ops_mm_npu_float32{generic}": "ok",
        f"test_ops_add_npu_float32{generic}": "ok",
        f"test_ops_neg_npu_float32{generic}": "skipped 'left out by the user'",
        f"test_ops_to_sparse_npu_float32{generic}": "skipped 'sparse tensors are refused on npu'",
        "test_device_npuTestSecondNPU": "ok",
        "test_device_npuTestBothNPU": "ok",
        "test_device_cpuTestBothCPU": "ok",
        "test_same_abs_float32TestDatabase": "ok",
        "test_same_add_float32TestDatabase": "ok",
        "test_same_mm_float32TestDatabase": "ok",
        "test_same_neg_float32TestDatabase": "skipped 'left out by the user'",
        "test_scaling_caseTestDatabase": "ok",
        "test_filteredTestDatabase": "ok",
    }
    assert outcome.pop(f"test_off_npu{generic}").startswith(
        'skipped "Test is disabled because an issue exists disabling it: said so'
    )
    assert (code, outcome) == (1, expected)


@pytest.mark.slow
def test_several_processes(tmp_path: Path) -> None:
    code, lines = run(tmp_path, PROCESSES, 400)
    text = "\n".join(lines)
    assert code == 1 and "FAILED (errors=1, skipped=2)" in text and "ERROR: test_wrong" in text, text
    assert (
        "skipped 'Need at least 99 NPU devices'" in text and "skipped 'with_comms needs a process group backend" in text
    )


@pytest.mark.slow
def test_variants_of_torch_modules(tmp_path: Path) -> None:
    code, lines = run(tmp_path, COLLECTIVES, 100)
    assert (code, lines) == (0, ["npu hccl 2 2 npu npu", "joined True hccl", "ran 3", "left"])
