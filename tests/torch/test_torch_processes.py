"""npu tensors between processes: spawned children, queues, pipes; forked children are told why they cannot."""

from __future__ import annotations

import multiprocessing.reduction
import pickle
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

FORKED = r"Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start method"


def packed(value: object) -> Any:
    """Through the pickler of multiprocessing, within this process."""
    return pickle.loads(bytes(multiprocessing.reduction.ForkingPickler.dumps(value)))


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_reduction_copies_values_and_keeps_the_rest(device: str, strategy: str) -> None:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy(strategy)
    try:
        x = torch.arange(6.0, device=device).view(2, 3).t()[1:]
        x.requires_grad_()
        back = packed(x)
    finally:
        mp.set_sharing_strategy(before)
    assert (back.device, back.stride(), back.requires_grad) == (x.device, x.stride(), True)
    assert torch.equal(back, x)
    back.data.zero_()
    assert x.sum().item() == 12.0


def test_reduction_keeps_sharing_inside_one_message() -> None:
    x = torch.arange(4.0).npu()
    whole, part, host = packed((x, x[2:], x.cpu()))
    whole[2] = 9.0
    assert part.tolist() == [9.0, 3.0] and host.device.type == "cpu"


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_reduction_of_parameters_storages_and_empty_tensors() -> None:
    parameter = torch.nn.Parameter(torch.ones(2).npu())
    assert type(packed(parameter)) is torch.nn.Parameter and packed(parameter).is_npu
    storage = packed(torch.arange(3.0).storage().npu())
    assert isinstance(storage, torch.npu.FloatStorage) and storage.tolist() == [0.0, 1.0, 2.0]
    empty = packed(torch.empty(0, 3, device="npu:1"))
    assert (empty.shape, str(empty.device)) == ((0, 3), "npu:1")
    assert packed(torch.npu.HalfTensor) is torch.npu.HalfTensor
    model = packed(torch.nn.Linear(2, 2).npu())
    assert all(p.is_npu for p in model.parameters())


def test_reduction_refuses_what_torch_refuses() -> None:
    x = torch.ones(2, device="npu", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        packed(x)


def test_storage_of_an_absent_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(2, device="npu:1")
    monkeypatch.setattr(torch.npu, "device_count", lambda: 1)
    with pytest.raises(
        RuntimeError, match=r"storage of npu:1 arrived in a process that has 1 devices: .* send x.cpu\(\)"
    ):
        packed(x)


def serve(requests: Any, answers: Any, model: torch.nn.Module) -> None:
    while (x := requests.get()) is not None:
        answers.put((model(x).detach(), x * 2, x.device.index, model.weight.device.type))
        del x
    answers.get()  # what was sent by descriptor must be fetched before this process ends


def test_spawned_child_takes_and_gives_npu_tensors() -> None:
    context = mp.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 3).npu()
    child = context.Process(target=serve, args=(requests, answers, model))
    child.start()
    try:
        for i in range(4):
            x = torch.full((2, 3), float(i), device="npu:0")
            requests.put(x)
            result, doubled, index, kind = answers.get(timeout=100)
            torch.testing.assert_close(result, model(x).detach())
            assert (doubled.tolist(), index, kind) == ((x * 2).tolist(), 0, "npu")
        requests.put(None)
        answers.put(None)
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


def attempt(answers: Any) -> None:
    words = []
    for action in (
        lambda: torch.ones(2, device="npu"),
        lambda: torch.ones(2).npu(),
        torch.npu.init,
        lambda: torch.npu.set_device(1),
    ):
        try:
            action()
            words.append("worked")
        except RuntimeError as error:
            words.append(str(error))
    answers.put((torch.npu._is_in_bad_fork(), words))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_forked_child_of_an_initialised_process_is_told_to_spawn() -> None:
    torch.ones(2).npu()
    context = mp.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=attempt, args=(answers,))
    child.start()
    try:
        child.join(60)
        assert child.exitcode == 0
        bad, words = answers.get()
        assert bad
        for text in words:
            assert FORKED in text
    finally:
        child.kill()
        child.join()


def spawned(rank: int, target: torch.Tensor) -> None:
    assert target.device.type == "npu" and target.sum().item() == 3.0
    if rank == 1:
        raise ValueError("rank one fails")


@pytest.mark.slow
def test_mp_spawn_reports_the_failing_rank() -> None:
    with pytest.raises(mp.ProcessRaisedException, match="rank one fails"):
        mp.spawn(spawned, args=(torch.ones(3).npu(),), nprocs=2)
