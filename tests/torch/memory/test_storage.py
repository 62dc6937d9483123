"""Storages of the device: moving, legacy classes, sharing handles, resizing."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")


def test_untyped_storage_moves_there_and_back() -> None:
    host = torch.arange(6, dtype=torch.uint8).untyped_storage()
    moved = host.npu()
    assert moved.is_npu and not host.is_npu and moved.device == torch.device("npu:0")
    assert moved.npu() is moved
    other = moved.npu("npu:1")
    assert other.device.index == 1 and other.data_ptr() != moved.data_ptr()
    assert other.tolist() == moved.cpu().tolist() == [0, 1, 2, 3, 4, 5]
    assert host.to(device=torch.device("npu:1")).device.index == 1
    with pytest.raises(RuntimeError, match="must be npu device"):
        host.npu("cpu")


def test_typed_storage_keeps_its_dtype() -> None:
    storage = torch.tensor([1.5, 2.5]).storage().npu()
    assert (storage.is_npu, storage.dtype, storage.type()) == (True, torch.float32, "torch.npu.FloatStorage")
    assert storage.half().tolist() == storage.cpu().tolist() == [1.5, 2.5]
    assert storage.half().type() == "torch.npu.HalfStorage"
    storage[0] = 9.0
    assert torch.tensor([], device="npu").set_(storage).tolist() == [9.0, 2.5]
    with pytest.raises(RuntimeError, match="quint8 dtype is not supported"):
        torch.TypedStorage(2, dtype=torch.quint8).npu()


@pytest.mark.parametrize(
    "word", ["Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short", "BFloat16"]
)
def test_legacy_storage_classes(word: str) -> None:
    kind = getattr(torch.npu, f"{word}Storage")
    dtype = getattr(torch, f"{word}Storage").dtype
    made = kind([1, 0, 1])
    assert (made.device.type, made.dtype, made.tolist()) == ("npu", dtype, [1, 0, 1])
    assert isinstance(made, kind) and not isinstance(made.cpu(), kind) and len(kind(4)) == 4
    assert kind.dtype == dtype and kind in torch._storage_classes
    assert isinstance(kind(wrap_storage=made.untyped()), kind)
    with pytest.raises(RuntimeError, match="Device of 'wrap_storage' must be npu"):
        kind(wrap_storage=torch.UntypedStorage(4))


@pytest.mark.parametrize("method", ["from_buffer", "_new_with_weak_ptr", "_new_shared_filename"])
def test_legacy_storage_refuses_what_a_device_cannot(method: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{method}: Not available for NPU storage$"):
        getattr(torch.npu.FloatStorage, method)(b"", 0, 0)


def test_class_dtype_warns_as_torch_does() -> None:
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        torch.storage._always_warn_typed_storage_removal = True
        try:
            assert torch.npu.FloatStorage.dtype == torch.float32
        finally:
            torch.storage._always_warn_typed_storage_removal = False


def test_storage_grows_shrinks_and_is_copied() -> None:
    x = torch.arange(4.0).npu()
    storage = x.untyped_storage()
    twin = copy.deepcopy(storage)
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(32)
    x.set_(storage, 0, (8,), (1,))
    assert x.fill_(3).sum().item() == 24
    assert twin.device.type == "npu" and torch.tensor([], device="npu").set_(twin).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert storage.clone().tolist() == storage.tolist()


def test_handles_open_the_same_memory() -> None:
    x = torch.arange(8.0).npu()
    handle = x.untyped_storage()._share_npu_()
    assert handle[0] == 0 and handle[2:4] == (32, 0)
    x[0] = 5.0
    opened = torch.UntypedStorage._new_shared_npu(*handle)
    torch.UntypedStorage._release_ipc_counter_npu(handle[4], handle[5], device=handle[0])
    assert torch.tensor([], device="npu").set_(opened).tolist() == [5, 1, 2, 3, 4, 5, 6, 7]
    assert opened.data_ptr() == x.data_ptr()  # this process has it already
    empty = torch.UntypedStorage(0, device="npu:1")
    assert torch.UntypedStorage._new_shared_npu(*empty._share_npu_()).device == torch.device("npu:1")


@pytest.mark.parametrize("handle", [b"", b"garbage:1:2:3", b"softnpu-ipc:1", b"softnpu-ipc:0:0:0", 7])
def test_what_is_no_handle_is_refused(handle: object) -> None:
    with pytest.raises(RuntimeError, match=r"_new_shared_npu: .* cannot be opened(?s:.*)ERR00008 PTA"):
        torch.UntypedStorage._new_shared_npu(0, handle, 32, 0)


def test_handles_are_refused_where_they_cannot_be() -> None:
    with pytest.raises(RuntimeError, match="only available on NPU, this storage is on cpu"):
        torch.UntypedStorage(4)._share_npu_()
    with pytest.raises(RuntimeError, match="offset 4 cannot be"):
        torch.UntypedStorage._new_shared_npu(0, b"", 32, 4)
    x = torch.arange(8.0).npu()
    device, handle, *rest = x.untyped_storage()._share_npu_()
    del x
    with pytest.raises(RuntimeError, match="whose storage still lives"):
        torch.UntypedStorage._new_shared_npu(device, handle, *rest)


def test_share_memory_moves_the_storage_under_all_its_tensors() -> None:
    x = torch.arange(4.0).npu()
    part, before = x[1:], x.data_ptr()
    assert x.share_memory_() is x and x.is_shared()
    moved = x.data_ptr()
    assert moved != before and part.data_ptr() == moved + 4
    part.add_(1)
    assert x.share_memory_().data_ptr() == moved and x.tolist() == [0.0, 2.0, 3.0, 4.0]
    assert torch.empty(0, device="npu").share_memory_().numel() == 0
    model = torch.nn.Linear(2, 2).npu().share_memory()
    assert model(torch.ones(1, 2).npu()).shape == (1, 2)


def test_shared_memory_does_not_grow() -> None:
    x = torch.zeros(2, device="npu").share_memory_()
    for grow in (lambda: x.resize_(16), lambda: torch.add(torch.ones(8).npu(), 1, out=x)):
        with pytest.raises(RuntimeError, match="not resizable"), warnings.catch_warnings(action="ignore"):
            grow()
    assert x.untyped_storage().nbytes() == 8


def test_pinned_storage() -> None:
    x = torch.ones(3)
    assert not x.is_pinned()
    assert x.pin_memory().is_pinned() and x.untyped_storage().pin_memory().is_pinned()
    with pytest.raises(RuntimeError, match="pin"):
        x.npu().pin_memory()
