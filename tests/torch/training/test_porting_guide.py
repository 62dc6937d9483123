"""The porting guide: its replacement tables row by row, its single-operator examples.

Left to other tests: apex and mixed precision, hccl and several cards, the transfer tools, custom operators, profiler, dump.
"""

from __future__ import annotations

import copy
from unittest import TestCase

import numpy as np
import pytest
import torch
import torch.npu
from torch import nn

CALCULATE_DEVICE = "npu:0"


@pytest.fixture(autouse=True)
def first_device() -> object:
    yield
    torch.npu.set_device("npu:0")


# Table 1: device interfaces


def test_is_available_says_that_there_is_a_device() -> None:
    assert torch.npu.is_available() is True


def test_current_device_and_set_device() -> None:
    assert torch.npu.current_device() == 0
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1
    torch.npu.set_device(0)
    torch.npu.set_device(torch.device("npu:1"))
    assert torch.ones(1, device="npu").device == torch.device("npu:1")


def test_the_device_beyond_the_count_is_refused() -> None:
    count = torch.npu.device_count()
    assert count >= 2, "softnpu has two devices unless told otherwise"
    with pytest.raises(RuntimeError):
        torch.npu.set_device(count)


def test_is_npu_tells_where_a_tensor_is() -> None:
    assert torch.tensor([1, 2, 3]).npu().is_npu
    assert not torch.tensor([1, 2, 3]).is_npu


def test_npu_and_to_move_a_tensor() -> None:
    for moved in (
        torch.tensor([1, 2, 3]).npu(),
        torch.tensor([1, 2, 3]).to("npu"),
        torch.tensor([1, 2, 3]).to(CALCULATE_DEVICE),
    ):
        assert moved.device == torch.device("npu:0")
        assert moved.cpu().tolist() == [1, 2, 3]


def test_synchronize_leaves_finished_results() -> None:
    x = torch.ones(1000, device="npu")
    y = x * 2
    torch.npu.synchronize()
    assert y.sum().item() == 2000


def test_the_device_context_changes_the_device_inside() -> None:
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.zeros(1, device="npu").device.index == 1
    assert torch.npu.current_device() == 0


def test_a_stream_is_current_inside_its_scope() -> None:
    stream = torch.npu.Stream(torch.device("npu:0"))
    before = torch.npu.current_stream()
    assert stream != before
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        x = torch.ones(3, device="npu") + 1
    assert torch.npu.current_stream() == before
    stream.synchronize()
    assert x.tolist() == [2, 2, 2]


def test_the_default_stream_is_current_and_one_for_each_device() -> None:
    assert torch.npu.current_stream() == torch.npu.default_stream()
    assert torch.npu.default_stream(1) != torch.npu.default_stream(0)


def test_a_device_object_has_a_type_and_an_index() -> None:
    device = torch.device("npu:0")
    assert (device.type, device.index, str(device)) == ("npu", 0, "npu:0")


def test_an_event_is_recorded_waited_for_and_measured() -> None:
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    start.record()
    torch.randn(200, 200, device="npu") @ torch.randn(200, 200, device="npu")
    end.record()
    torch.npu.synchronize()
    assert end.query() is True
    assert 0 < start.elapsed_time(end) < 10000
    assert torch.npu.Event().query() is True


def test_the_profiler_counts_operators_and_device_time() -> None:
    x = torch.randn(64, 64, device="npu")
    with torch.autograd.profiler.profile(use_npu=True, record_shapes=True) as prof:
        for _ in range(3):
            (x @ x).relu()
    rows = {row.key: row for row in prof.key_averages()}
    assert rows["aten::mm"].count == rows["aten::relu"].count == 3
    assert 0 < rows["aten::mm"].device_time_total < 1e6, "microseconds"
    assert 0 < rows["aten::mm"].cpu_time_total < 1e6
    assert "aten::mm" in prof.table() and "NPU" in prof.table()
    with pytest.raises(RuntimeError, match="exclude each other"):
        torch.autograd.profiler.profile(use_npu=True, use_cuda=True)


# Table 2: making tensors


@pytest.mark.parametrize("dtype", [torch.long, torch.int, torch.half, torch.float, torch.bool])
def test_a_tensor_is_made_on_the_device_with_its_type(dtype: torch.dtype) -> None:
    made = torch.tensor([1, 2, 3], dtype=dtype, device="npu")
    assert (made.dtype, made.device.type) == (dtype, "npu")
    assert torch.equal(made.cpu(), torch.tensor([1, 2, 3], dtype=dtype))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("Bool", torch.bool), ("Float", torch.float), ("Int", torch.int), ("Long", torch.long), ("Half", torch.half)],
)
def test_the_legacy_types_make_tensors_on_the_device(name: str, dtype: torch.dtype) -> None:
    kind = getattr(torch.npu, f"{name}Tensor")
    made = kind([1, 2, 3])
    assert (made.dtype, made.device.type) == (dtype, "npu")
    assert torch.equal(made.cpu(), torch.tensor([1, 2, 3], dtype=dtype))
    assert made.type() == f"torch.npu.{name}Tensor"


# Single card training: the steps of main.py


class Picture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))


@pytest.mark.parametrize("write", ["npu", "to"])
def test_training_on_one_card_is_that_of_the_cpu(write: str) -> None:
    """Model, criterion, pictures and int32 targets on the card, `non_blocking` copies, from a loader; the same on the CPU."""
    torch.manual_seed(0)
    torch.npu.set_device(CALCULATE_DEVICE)
    cpu_model = Picture()
    model = copy.deepcopy(cpu_model)
    model = model.npu() if write == "npu" else model.to(CALCULATE_DEVICE)
    criterion = nn.CrossEntropyLoss().to(CALCULATE_DEVICE)
    data = torch.utils.data.TensorDataset(torch.randn(16, 3, 8, 8), torch.randint(5, (16,)))
    loader = torch.utils.data.DataLoader(data, batch_size=4, pin_memory=False)
    ours, theirs = (torch.optim.SGD(one.parameters(), 0.1, momentum=0.9) for one in (model, cpu_model))
    for images, target in loader:
        expected = nn.functional.cross_entropy(cpu_model(images), target)
        target = target.to(torch.int32)
        images, target = images.to(CALCULATE_DEVICE, non_blocking=True), target.to(CALCULATE_DEVICE, non_blocking=True)
        loss = criterion(model(images), target)
        for optimizer, one in ((ours, loss), (theirs, expected)):
            optimizer.zero_grad()
            one.backward()
            optimizer.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(
            model(data.tensors[0].to(CALCULATE_DEVICE)).cpu(), cpu_model(data.tensors[0]), rtol=1e-3, atol=1e-4
        )


def test_a_whole_network_differs_little_from_the_cpu() -> None:
    """CPU and card differ by no more than 1e-4 in the mean."""
    torch.manual_seed(0)
    cpu = Picture()
    npu, x = copy.deepcopy(cpu).npu(), torch.randn(2, 3, 8, 8)
    assert (cpu(x) - npu(x.npu()).cpu()).abs().mean().item() <= 1e-4


# Examples of one operator


class TestMax(TestCase):
    def cpu_op_exec(self, input1: torch.Tensor) -> np.ndarray:
        return torch.max(input1).to("cpu").numpy()

    def npu_op_exec(self, input1: torch.Tensor) -> np.ndarray:
        return torch.max(input1).to("cpu").numpy()

    def test_max(self) -> None:
        source = torch.randn(10, 20).mul(100).to(torch.int64)
        self.assertEqual(self.cpu_op_exec(copy.deepcopy(source)), self.npu_op_exec(copy.deepcopy(source).npu()))


class Model(nn.Module):
    def __init__(self, in_channels: int = 1, hooks: list[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, in_channels * 2, kernel_size=64)
        if hooks is not None:
            self.conv.weight.register_hook(hooks.append)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def test_conv2d_in_context_with_a_hook() -> None:
    grads: list[torch.Tensor] = []
    torch.manual_seed(0)
    cpu = Model(in_channels=4, hooks=grads)
    npu = Model(in_channels=4, hooks=grads)
    npu.load_state_dict(cpu.state_dict())
    torch.npu.set_device("npu:0")
    npu, x = npu.npu(), torch.randn(2, 4, 64, 64)
    here, there = cpu(x), npu(copy.deepcopy(x).npu())
    here.sum().backward()
    there.sum().backward()
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-4)
    assert [one.device.type for one in grads] == ["cpu", "npu"]
    torch.testing.assert_close(grads[1].cpu(), grads[0])


class IndexSelect(torch.autograd.Function):
    """The guide's replacement for channel_shuffle, with its stream synchronisation and its change of `grad_output.data`."""

    @staticmethod
    def forward(
        ctx: object, x1: torch.Tensor, x2: torch.Tensor, fp: torch.Tensor, bp1: torch.Tensor, bp2: torch.Tensor
    ) -> torch.Tensor:
        torch.npu.current_stream().synchronize()
        ctx.bp_index1, ctx.bp_index2 = bp1, bp2
        return torch.cat([x1, x2], dim=1).index_select(1, fp)

    @staticmethod
    def backward(ctx: object, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        torch.npu.current_stream().synchronize()
        return grad_output.index_select(1, ctx.bp_index1), grad_output.index_select(1, ctx.bp_index2), None, None, None


def test_channel_shuffle_by_index_select() -> None:
    """It equals the shuffle by views, forward and backward."""
    order = torch.arange(8).view(2, 4).t().reshape(-1)
    back = torch.argsort(order)
    indices = [one.npu() for one in (order, back[:4].contiguous(), back[4:].contiguous())]
    source = [torch.randn(2, 4, 3, 3, device="npu") for _ in range(2)]
    a, b = ([one.clone().requires_grad_() for one in source] for _ in range(2))
    shuffled = torch.cat(a, 1).view(2, 2, 4, 3, 3).transpose(1, 2).reshape(2, 8, 3, 3)
    selected = IndexSelect.apply(*b, *indices)
    torch.testing.assert_close(selected, shuffled)
    weight = torch.randn_like(shuffled)
    (shuffled * weight).sum().backward()
    (selected * weight).sum().backward()
    for one, two in zip(a, b, strict=True):
        torch.testing.assert_close(one.grad, two.grad)
