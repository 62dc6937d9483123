"""A test of one operator (line 3286)."""

import copy

import torch
from torch_npu.testing.testcase import (  # manual slip: torch's own test module has no `prec` any more
    TestCase,
    run_tests,
)


class TestMax(TestCase):
    def cpu_op_exec(self, input1):
        output = torch.max(input1)
        output = output.to("cpu")
        output = output.numpy()
        return output

    def npu_op_exec(self, input1):
        output = torch.max(input1)
        output = output.to("cpu").numpy()  # manual slip: the tensor on npu was compared with an array
        return output

    def test_max(self):
        input = torch.randn(10, 20)  # manual slip: a bracket too many
        input = input.to(torch.int64)
        input_cpu = copy.deepcopy(input)
        input_npu = copy.deepcopy(input).npu()

        output_cpu = self.cpu_op_exec(input_cpu)
        output_npu = self.npu_op_exec(input_npu)

        self.assertEqual(output_cpu, output_npu, prec=1e-4)


if __name__ == "__main__":
    run_tests()
