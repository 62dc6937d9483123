"""Test files as users of Ascend write them, run as they run them: `python test_x.py -v`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch_npu")

OPERATORS = """
import unittest
import numpy as np
import torch
import torch_npu
import torch_npu.npu.utils as utils

from torch_npu.testing.testcase import TestCase, run_tests
from torch_npu.testing.common_utils import create_common_tensor, SupportedDevices, get_npu_device, set_npu_device
from torch_npu.testing.common_utils import create_dtype_tensor, freeze_rng_state, SkipIfNotGteCANNVersion
from torch_npu.testing.common_utils import check_operators_in_prof, test_2args_broadcast, iter_indices, SkipIfNoLapack
from torch_npu.testing.decorator import Dtypes, Formats, instantiate_tests, graph_mode
from torch_npu.testing.common_distributed import skipIfUnsupportMultiNPU, with_comms

device = "npu:0"
torch.npu.set_device(device)
torch.npu.config.allow_internal_format = True


class TestAbs(TestCase):
    def cpu_op_exec(self, input1):
        return torch.abs(input1).numpy()

    def npu_op_exec(self, input1):
        return torch.abs(input1).to("cpu").numpy()

    def test_abs(self):
        shape_format = [
            [np.float32, -1, (4, 3)], [np.float32, 0, (4, 3)], [np.float32, 2, (4, 3)], [np.float16, 3, (1, 6, 4, 5)],
            [np.float32, 4, (20, 3, 3, 3)], [np.float32, 29, (8, 16)], [np.int32, -1, (3,)],
        ]
        for item in shape_format:
            cpu_input, npu_input = create_common_tensor(item, -1, 1)
            if item[1] not in (-1, 2):
                self.assertEqual(torch_npu.get_npu_format(npu_input), item[1])
            if cpu_input.dtype == torch.float16:
                cpu_input = cpu_input.to(torch.float32)
            cpu_output = self.cpu_op_exec(cpu_input)
            npu_output = self.npu_op_exec(npu_input)
            self.assertRtolEqual(cpu_output.astype(npu_output.dtype), npu_output)


class TestAdd(TestCase):
    def test_add_broadcast(self):
        for cpu_output, npu_output in test_2args_broadcast(torch.add):
            self.assertRtolEqual(cpu_output, npu_output)

    def test_add_profile(self):
        _, x = create_dtype_tensor((3, 4), torch.float32)
        with torch.autograd.profiler.profile() as prof:
            y = x + x
        self.assertTrue(check_operators_in_prof(["aten::add"], prof, ["aten::mm"]))

    @graph_mode
    def test_add_inplace(self):
        cpu_input, npu_input = create_common_tensor([np.int32, -1, (5,)], 0, 100)
        self.assertRtolEqual(cpu_input.add_(1).numpy(), npu_input.add_(1).cpu().numpy())
        for i in iter_indices(cpu_input):
            self.assertEqual(cpu_input[i], npu_input[i])


@instantiate_tests
class TestMatmul(TestCase):
    @Dtypes(torch.float, torch.half)
    @Formats(2, 29)
    def test_mm(self, dtype, npu_format):
        cpu_1, npu_1 = create_dtype_tensor((17, 33), dtype, npu_format)
        cpu_2, npu_2 = create_dtype_tensor((33, 5), dtype, npu_format)
        self.assertRtolEqual(torch.mm(cpu_1, cpu_2), torch.mm(npu_1, npu_2))


class TestConv(TestCase):
    @SupportedDevices(["Ascend910B"])
    def test_conv2d_and_backward(self):
        cpu_x, npu_x = create_common_tensor([np.float32, 3, (2, 3, 8, 8)], -1, 1)
        cpu_w, npu_w = create_common_tensor([np.float32, 4, (4, 3, 3, 3)], -1, 1)
        outputs = []
        for x, w in ((cpu_x, cpu_w), (npu_x, npu_w)):
            x, w = x.requires_grad_(), w.requires_grad_()
            y = torch.nn.functional.conv2d(x, w, padding=1)
            y.sum().backward()
            outputs.append((y.detach(), x.grad, w.grad))
        self.assertRtolEqual(*outputs)

    @SupportedDevices(["Ascend310P"])
    def test_310p_only(self):
        self.assertEqual(utils.get_soc_version(), 202)

    @SkipIfNotGteCANNVersion("99.0.0")
    def test_future(self):
        self.fail("must not run")

    @SkipIfNoLapack
    @skipIfUnsupportMultiNPU(1)
    def test_inverse(self):
        cpu_input, npu_input = create_dtype_tensor((3, 3), torch.float32)
        self.assertRtolEqual(torch.linalg.inv(cpu_input), torch.linalg.inv(npu_input), prec=1e-3)


if __name__ == "__main__":
    run_tests()
"""

FAILING = """
import numpy as np
import torch
import torch_npu
from torch_npu.testing.testcase import TestCase, run_tests

class TestWrong(TestCase):
    def test_shape(self):
        self.assertRtolEqual(np.ones((2, 1)), np.ones(2))
    def test_dtype(self):
        self.assertRtolEqual(torch.ones(2), torch.ones(2).half().npu())
    def test_nan(self):
        self.assertRtolEqual(torch.zeros(1), (torch.zeros(1).npu() / 0))
    def test_value(self):
        self.assertRtolEqual(torch.ones(3), torch.ones(3).npu() + 0.01)
    def test_good(self):
        self.assertRtolEqual(torch.ones(3), torch.ones(3).npu())

if __name__ == "__main__":
    run_tests()
"""

SEEDS = """
import random, sys
import torch, torch_npu
from torch_npu.testing.testcase import TestCase, run_tests

class TestSeed(TestCase):
    def test_draw(self):
        print("drew", random.random(), torch.rand(1).item(), torch.rand(1, device="npu").item(), torch.npu.current_device())
    def test_other(self):
        self.assertNotEqual(torch.rand(1, device="npu"), 2)

if __name__ == "__main__":
    run_tests()
"""

RUNNER = """
import unittest

class XMLTestRunner(unittest.TextTestRunner):
    def __init__(self, output, **options):
        print("reports in", output)
        super().__init__(**options)
"""


def run(folder: Path, text: str, *arguments: str, **environment: str) -> tuple[int, str]:
    file = folder / "test_user.py"
    file.write_text(text)
    clean = {name: value for name, value in os.environ.items() if name not in ("SEED", "IN_CI", "SET_NPU_DEVICE")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(file), *arguments],
        env={**clean, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_operator_file(tmp_path: Path) -> None:
    code, output = run(tmp_path, OPERATORS, "-v")
    assert code == 0 and "Ran 12 tests" in output and "OK (skipped=2)" in output, output
    assert "test_mm_float16_FRACTAL_NZ" in output
    assert "skipped 'Ascend910B is not one of Ascend310P'" in output


def test_operator_file_on_another_chip(tmp_path: Path) -> None:
    code, output = run(tmp_path, OPERATORS, "-v", "TestConv", SOFTNPU_SOC="Ascend310P3")
    assert code == 0 and "Ran 4 tests" in output and "OK (skipped=2)" in output, output
    assert "skipped 'Ascend310P is not one of Ascend910B'" in output


def test_operator_file_under_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(OPERATORS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "test_user.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0 and "10 passed, 2 skipped" in done.stdout, done.stdout


def test_failing_file_without_xmlrunner(tmp_path: Path) -> None:
    code, output = run(tmp_path, FAILING, "-v", IN_CI="1")
    assert code == 1 and "Ran 5 tests" in output and "FAILED (failures=4)" in output, output
    for reason in ("shapes differ", "dtypes differ", "NaN at different places", "3 of 3 elements differ"):
        assert reason in output
    assert "xmlrunner is not installed" in output


def drawn(output: str) -> list[str]:
    return output.split("drew ")[1].split()[:4]


def test_seed_device_and_reports(tmp_path: Path) -> None:
    (tmp_path / "xmlrunner.py").write_text(RUNNER)
    code, by_option = run(tmp_path, SEEDS, "--seed", "7", "TestSeed.test_draw", IN_CI="1")
    assert code == 0 and "reports in test-reports" in by_option and "Ran 1 test" in by_option, by_option
    code, elsewhere = run(tmp_path, SEEDS, SEED="7", SET_NPU_DEVICE="npu:1")
    assert code == 0 and "reports in" not in elsewhere and "Ran 2 tests" in elsewhere, elsewhere
    assert drawn(by_option)[:3] == drawn(elsewhere)[:3]
    assert (drawn(by_option)[3], drawn(elsewhere)[3]) == ("0", "1")
