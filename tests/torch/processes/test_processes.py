"""npu tensors between processes: spawned children, queues, pipes; forked children are told why they cannot."""

from __future__ import annotations

import multiprocessing.reduction
import os
import pickle
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
import torch_npu
from torch.multiprocessing import reductions

from tests.waiting import eventually

FORKED = r"Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the 'spawn' start method"


def packed(value: object) -> Any:
    """Through the pickler of multiprocessing, within this process."""
    return pickle.loads(bytes(multiprocessing.reduction.ForkingPickler.dumps(value)))


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_reduction_shares_memory_and_keeps_the_rest(device: str, strategy: str) -> None:
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
    assert x.sum().item() == 0.0


def test_reduction_opens_a_second_mapping_of_the_same_bytes() -> None:
    """As in another process: without the cache of storages that this one has."""
    x = torch.arange(4.0).npu()
    message = bytes(multiprocessing.reduction.ForkingPickler.dumps(x[1:]))
    reductions.shared_cache.clear()
    other = pickle.loads(message)
    assert other.data_ptr() != x[1:].data_ptr() and other.tolist() == [1.0, 2.0, 3.0]
    other.add_(1)
    assert x.tolist() == [0.0, 2.0, 3.0, 4.0]
    with pytest.raises(RuntimeError, match="not resizable"):
        other.untyped_storage().resize_(64)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(64)


def test_a_full_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(4).npu()
    address = x.data_ptr()
    with monkeypatch.context() as patch:
        patch.setattr(torch_npu._runtime.connection, "_allocate", lambda _device, _size: 0)
        with pytest.raises(
            torch.OutOfMemoryError, match=r"NPU out of memory. Tried to share 16 bytes of npu:0(?s:.*)ERR00006"
        ):
            packed(x)
    assert x.data_ptr() == address and x.sum().item() == 4.0
    assert packed(x).sum().item() == 4.0


def test_no_descriptor_left_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(24, "Too many open files")

    x = torch.ones(4).npu()
    with monkeypatch.context() as patch:
        patch.setattr(os, "memfd_create", full)
        with pytest.raises(RuntimeError, match=r"cannot be shared: .*Too many open files.*ulimit -n(?s:.*)ERR00010"):
            packed(x)
    assert packed(x).sum().item() == 4.0


def test_storages_are_moved_once_by_many_threads() -> None:
    x = torch.arange(64.0).npu()
    with ThreadPoolExecutor(8) as pool:
        backs = list(pool.map(packed, [x] * 32))
    assert {back.data_ptr() for back in backs} == {x.data_ptr()} and x.tolist() == list(range(64))


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
    monkeypatch.setattr(reductions, "storage_from_cache", lambda *_: None)
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


def attempt(answers: Any, x: torch.Tensor) -> None:
    words = []
    for action in (
        lambda: packed(x),
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
    x = torch.ones(2).npu()
    context = mp.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=attempt, args=(answers, x))
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


def ended_in_time(pid: int) -> bool:
    if eventually(lambda: os.waitpid(pid, os.WNOHANG)[0], 5):
        return True
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_lets_tensors_go_whatever_other_threads_did() -> None:
    kept = [torch.ones(4).npu() for _ in range(300)] + [torch.ones(4).pin_memory()]
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            [torch.empty(64, device="npu") for _ in range(50)]
            torch.ones(4).pin_memory()

    threads = [threading.Thread(target=hammer) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            pid = os.fork()
            if pid == 0:
                kept.clear()  # a lock that a thread held at the fork would hold this up for ever
                os._exit(0)
            assert ended_in_time(pid)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert torch.stack(kept[:300]).sum().item() == 1200.0


def spawned(rank: int, target: torch.Tensor) -> None:
    assert target.device.type == "npu" and target.sum().item() == 3.0
    if rank == 1:
        raise ValueError("rank one fails")


@pytest.mark.slow
def test_mp_spawn_reports_the_failing_rank() -> None:
    with pytest.raises(mp.ProcessRaisedException, match="rank one fails"):
        mp.spawn(spawned, args=(torch.ones(3).npu(),), nprocs=2)
