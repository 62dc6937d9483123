"""A test of operators in their surroundings (line 3327)."""

import copy

import torch
from torch import nn  # manual slip: missing
from torch_npu.testing.testcase import (  # manual slip: torch's own test module has no `prec` any more
    TestCase,
    run_tests,
)


class Model(nn.Module):
    def __init__(self, in_channels=1, hooks=False):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, in_channels * 2, kernel_size=64)
        if hooks:
            self.conv.weight.register_hook(lambda grad: print(grad))

    def forward(self, x):
        out = self.conv(x)
        return out


class TestConv2d(TestCase):
    def test_conv2d(self):

        model = Model(in_channels=16)

        # model = Model(in_channels=16, hooks=True)
        input_tensor = torch.randn(4, 16, 64, 64)

        input_tensor_cpu = copy.deepcopy(input_tensor)
        out = model(input_tensor_cpu)
        loss = out.sum()
        loss.backward()
        cpuout = out

        torch.npu.set_device("npu:0")
        model_npu = Model(in_channels=16, hooks=True).npu()
        model_npu.load_state_dict(model.state_dict())  # manual slip: two models with different weights were compared
        input_tensor_npu = copy.deepcopy(input_tensor).npu()
        out = model_npu(input_tensor_npu)
        loss = out.sum()
        loss.backward()
        npuout = out
        self.assertEqual(cpuout, npuout.cpu(), prec=1e-4)


if __name__ == "__main__":
    run_tests()
