"""Storages of the device: moving, legacy classes, sharing handles, resizing."""

from __future__ import annotations

import copy

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


def test_handles_carry_a_copy_of_the_values() -> None:
    x = torch.arange(8.0).npu()
    handle = x.untyped_storage()._share_npu_()
    assert handle[0] == 0 and handle[2] == 32
    x.zero_()
    opened = torch.UntypedStorage._new_shared_npu(*handle)
    torch.UntypedStorage._release_ipc_counter_npu(handle[4], handle[5], device=handle[0])
    assert torch.tensor([], device="npu").set_(opened).tolist() == list(range(8))
    with pytest.raises(RuntimeError, match="only available on NPU, this storage is on cpu"):
        torch.UntypedStorage(4)._share_npu_()
    with pytest.raises(RuntimeError, match="offset 4 cannot be"):
        torch.UntypedStorage._new_shared_npu(0, (b"", b""), 32, 4)


def test_share_memory_is_allowed_and_keeps_the_tensor() -> None:
    x = torch.ones(2).npu()
    assert x.share_memory_() is x and x.is_shared()


def test_pinned_storage() -> None:
    x = torch.ones(3)
    assert not x.is_pinned()
    assert x.pin_memory().is_pinned() and x.untyped_storage().pin_memory().is_pinned()
    with pytest.raises(RuntimeError, match="pin"):
        x.npu().pin_memory()
