"""Modules on the device: identity of parameters, optimizers made before the move, lazy modules, packed sequences, checkpointing."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

MOVES = {
    "npu": lambda module: module.npu(),
    "npu index": lambda module: module.npu(1),
    "npu name": lambda module: module.npu("npu:1"),
    "to": lambda module: module.to("npu:0"),
    "to with dtype": lambda module: module.to(torch.device("npu:1"), torch.float64),
    "there and back": lambda module: module.npu().cpu().to("npu:1"),
}


@pytest.mark.parametrize("move", MOVES)
def test_parameters_stay_the_same_objects(move: str) -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    module.add_module("tied", nn.Linear(3, 3))
    module.tied.weight = module[0].weight
    before = dict(module.named_parameters(remove_duplicate=False))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    assert MOVES[move](module) is module
    after = dict(module.named_parameters(remove_duplicate=False))
    assert all(after[name] is before[name] and after[name].is_npu for name in before)
    assert module[1].running_mean.is_npu and module.tied.weight is module[0].weight
    value = module[0].bias.detach().clone()
    weight = module[0].weight
    module(torch.ones(4, 3, device=weight.device, dtype=weight.dtype)).sum().backward()
    gradient = module.tied.bias.grad.clone()
    tied = module.tied.bias.detach().clone()
    optimizer.step()
    assert torch.equal(module.tied.bias, tied - 0.5 * gradient)
    assert module[0].bias.shape == value.shape


def test_training_with_an_optimizer_made_before_the_move_equals_the_cpu() -> None:
    torch.manual_seed(3)
    cpu = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    npu = copy.deepcopy(cpu)
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.05) for m in (cpu, npu)]
    npu.npu()
    data = torch.randn(8, 5)
    losses: list[list[float]] = [[], []]
    for _ in range(5):
        for i, (module, inputs) in enumerate(((cpu, data), (npu, data.npu()))):
            optimizers[i].zero_grad()
            loss = module(inputs).square().mean()
            loss.backward()
            optimizers[i].step()
            losses[i].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6) and losses[0][-1] < losses[0][0]


def test_gradients_and_hooks_move_along() -> None:
    module = nn.Linear(2, 2)
    calls = []
    module.weight.register_hook(lambda grad: calls.append(str(grad.device)))
    module(torch.ones(1, 2)).sum().backward()
    module.npu()
    assert module.weight.grad.is_npu
    module(torch.ones(1, 2).npu()).sum().backward()
    assert calls == ["cpu", "npu:0"] and module.weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_data_of_a_parameter_can_be_moved() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.data = parameter.data.npu()
    assert parameter.is_npu and parameter.is_leaf


def test_absent_device_is_refused() -> None:
    module = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="99"):
        module.to("npu:99")
    with pytest.raises(RuntimeError, match="must be npu device"):
        module.npu("cpu")
    assert module.weight.device.type == "cpu"


def test_lazy_modules_move_before_they_have_a_shape() -> None:
    module = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).npu()
    assert module(torch.ones(4, 6).npu()).shape == (4, 3)
    assert all(parameter.is_npu for parameter in module.parameters())


def test_meta_module_is_made_on_the_device() -> None:
    module = nn.Linear(2, 3, device="meta").to_empty(device="npu")
    assert module.weight.is_npu and module.weight.shape == (3, 2)
    assert nn.Linear(2, 3, device="npu:1").weight.device.index == 1


@pytest.mark.parametrize("argument", [(), ("npu:1",), (1,)])
def test_packed_sequence_moves_its_data(argument: tuple[object, ...]) -> None:
    packed = pack_sequence([torch.arange(2.0), torch.arange(3.0)], enforce_sorted=False)
    moved = packed.npu(*argument) if not argument or argument[0] != 1 else packed.to(1)
    assert moved.is_npu and not packed.is_npu
    assert moved.data.device.index == (1 if argument else 0)
    assert moved.batch_sizes.device.type == "cpu" and moved.sorted_indices.is_npu
    assert pad_packed_sequence(moved)[0].tolist() == pad_packed_sequence(packed)[0].tolist()


def test_packed_sequence_through_an_lstm() -> None:
    torch.manual_seed(0)
    cpu = nn.LSTM(3, 4, batch_first=True)
    npu = copy.deepcopy(cpu).npu()
    inputs, lengths = torch.randn(2, 5, 3), torch.tensor([5, 3])
    here, _ = cpu(pack_padded_sequence(inputs, lengths, batch_first=True))
    there, _ = npu(pack_padded_sequence(inputs.npu(), lengths, batch_first=True))
    torch.testing.assert_close(there.data.cpu(), here.data)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_dropout_repeats_itself_in_backward(reentrant: bool) -> None:
    drop = nn.Dropout(0.5)

    def gradient(recompute: bool) -> torch.Tensor:
        torch.manual_seed(5)
        x = torch.ones(64, device="npu", requires_grad=True)
        y = checkpoint(drop, x * 1, use_reentrant=reentrant) if recompute else drop(x * 1)
        torch.rand(3, device="npu")
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        return x.grad

    assert torch.equal(gradient(True), gradient(False))
