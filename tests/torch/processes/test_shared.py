"""npu memory that processes share: writes are seen on both sides, storages are opened once, memory lasts as long as a user."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

from softnpu.runtime.process import process
from tests.waiting import eventually

_kept: dict[str, Any] = {}


def used() -> int:
    return process().devices[0].used


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# ---- what the child does on request --------------------------------------------------------------------------------------


def keep(name: str, value: Any) -> None:
    _kept[name] = value


def drop(name: str) -> int:
    del _kept[name]
    gc.collect()
    return used()


def add(name: str, value: float) -> None:
    with torch.no_grad():
        _kept[name] += value


def values(name: str) -> list[Any]:
    return _kept[name].detach().cpu().tolist()


def shape_of(x: torch.Tensor) -> tuple[Any, ...]:
    return (
        x.shape,
        x.stride(),
        x.storage_offset(),
        x.requires_grad,
        str(x.device),
        type(x).__name__,
        x.detach().tolist(),
    )


def pointers(*names: str) -> list[int]:
    return [_kept[name].untyped_storage().data_ptr() for name in names]


def make(size: int) -> torch.Tensor:
    return torch.arange(float(size), device="npu")


def step(model: torch.nn.Module, x: torch.Tensor) -> None:
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()


def event_done(event: torch.npu.Event) -> tuple[bool, str]:
    return event.query(), type(event).__module__


def open_handle(handle: tuple[Any, ...]) -> list[float]:
    storage = torch.UntypedStorage._new_shared_npu(*handle)
    opened = torch.empty(0, device="npu").set_(storage)
    before = opened.tolist()
    opened.fill_(7)
    return before


def figures() -> tuple[int, int]:
    return used(), descriptors()


def serve(connection: Any) -> None:
    while (call := connection.recv()) is not None:
        action, args = call
        connection.send(action(*args))
        del call, args
        gc.collect()


class Child:
    """A spawned process that calls what it is sent."""

    def __init__(self, method: str) -> None:
        context = mp.get_context(method)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def __call__(self, action: Callable[..., Any], *args: Any) -> Any:
        self.connection.send((action, args))
        assert self.connection.poll(60), "the child did not answer"
        return self.connection.recv()

    def end(self) -> None:
        if self.process.is_alive():
            self.connection.send(None)
            self.process.join(20)
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    one = Child("spawn")
    yield one
    one.end()


# ---- sharing --------------------------------------------------------------------------------------------------------------


def test_writes_are_seen_on_both_sides(child: Child) -> None:
    x = torch.zeros(3, device="npu")
    view = x[1:]
    child(keep, "x", x)
    child(add, "x", 1.0)
    assert x.tolist() == [1.0] * 3 and view.tolist() == [1.0] * 2  # tensors made before the sharing follow
    view.mul_(5)
    assert child(values, "x") == [1.0, 5.0, 5.0]
    child(drop, "x")
    assert x.add_(1).tolist() == [2.0, 6.0, 6.0]


def test_large_storages_on_the_second_device(child: Child) -> None:
    x = torch.zeros(1 << 20, device="npu:1")
    child(keep, "x", x)
    child(add, "x", 2.0)
    assert x.sum().item() == 2 << 20
    child(drop, "x")


def test_a_storage_is_opened_once_and_known_when_it_comes_back(child: Child) -> None:
    x = torch.arange(4.0).npu()
    child(keep, "x", x)
    child(keep, "part", x[2:])
    one, two = child(pointers, "x", "part")
    assert one == two
    back = child(_kept_tensor, "part")
    assert back.untyped_storage().data_ptr() == x.data_ptr() and back.tolist() == [2.0, 3.0]
    child(drop, "x"), child(drop, "part")


def _kept_tensor(name: str) -> torch.Tensor:
    return _kept[name]


@pytest.mark.parametrize("kind", ["view", "grad", "parameter", "empty", "half", "bool"])
def test_geometry_and_kind_are_kept(child: Child, kind: str) -> None:
    x = {
        "view": torch.arange(12.0, device="npu:1").view(3, 4).t()[1:, ::2],
        "grad": torch.ones(2, device="npu", requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2, 2).npu(), requires_grad=False),
        "empty": torch.empty(0, 3, device="npu:1"),
        "half": torch.ones(3, dtype=torch.float16).npu(),
        "bool": torch.tensor([True, False]).npu(),
    }[kind]
    assert child(shape_of, x) == shape_of(x)


def test_a_model_is_trained_in_the_other_process(child: Child) -> None:
    model = torch.nn.Linear(2, 1).npu()
    with torch.no_grad():
        model.weight.fill_(1.0)
    child(step, model, torch.tensor([[2.0, 4.0]]).npu())
    assert model.weight.tolist() == [[0.0, -1.0]] and model.weight.grad is None


def test_memory_lasts_as_long_as_one_process_uses_it(child: Child) -> None:
    x = torch.full((5,), 3.0, device="npu")
    child(keep, "x", x)
    del x
    gc.collect()
    torch.npu.empty_cache()
    assert child(values, "x") == [3.0] * 5
    child(drop, "x")
    made = child(make, 6)  # the child has let go of it already
    assert made.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_both_books_hold_the_memory_and_both_give_it_back(child: Child) -> None:
    torch.npu.empty_cache()
    theirs, their_files = child(figures)
    files = descriptors()
    x = torch.zeros(3 << 20, dtype=torch.uint8, device="npu")
    x.share_memory_()
    torch.npu.empty_cache()
    ours = used()
    child(keep, "x", x)
    assert child(figures)[0] - theirs == 3 << 20
    assert process().memory.reach(x.data_ptr(), 3 << 20, True) is not None  # a pointer for pyACL too
    child(drop, "x")
    assert child(figures) == (theirs, their_files)
    assert used() == ours
    del x
    gc.collect()
    assert ours - used() == 3 << 20
    assert descriptors() <= files


def test_small_storages_take_a_page_not_a_chunk() -> None:
    before = used()
    xs = [torch.ones(1, device="npu").share_memory_() for _ in range(8)]
    torch.npu.empty_cache()
    assert used() - before <= 8 * 4096 + (2 << 20)
    assert sum(x.item() for x in xs) == 8.0


def test_events_cross(child: Child) -> None:
    event = torch.npu.Event(interprocess=True)
    event.record()
    assert child(event_done, event) == (True, "torch_npu.npu.streams")
    with pytest.raises(RuntimeError, match="interprocess=True"):
        child(event_done, torch.npu.Event())


def test_handles_open_the_same_memory(child: Child) -> None:
    x = torch.arange(3.0).npu()
    handle = x.untyped_storage()._share_npu_()
    assert child(open_handle, handle) == [0.0, 1.0, 2.0]
    assert x.tolist() == [7.0] * 3


def test_a_killed_process_leaves_nothing_behind() -> None:
    victim = Child("spawn")
    x = torch.zeros(1 << 16, device="npu")
    victim(keep, "x", x)
    victim(add, "x", 1.0)
    made = victim(make, 4)
    os.kill(victim.process.pid, signal.SIGKILL)
    victim.process.join(20)
    assert eventually(lambda: process().devices[0].used_by_others() <= 1 << 30)
    pids = (str(victim.process.pid), str(os.getpid()))
    assert not [one for one in Path("/dev/shm").iterdir() if any(pid in one.name for pid in pids)]
    assert x.sum().item() == 1 << 16 and made.tolist() == [0.0, 1.0, 2.0, 3.0]
    victim.end()
