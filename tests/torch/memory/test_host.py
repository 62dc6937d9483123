"""Pinned host memory: who is pinned, what is kept for the next, the figures."""

from __future__ import annotations

import gc
import threading

import pytest
import torch

npu = torch.npu


@pytest.fixture(autouse=True)
def _clean():
    npu.init()
    gc.collect()
    npu.host_empty_cache()
    npu.reset_accumulated_host_memory_stats()
    npu.reset_peak_host_memory_stats()


def test_pinned_and_not():
    plain = torch.ones(1000)
    pinned = plain.pin_memory()
    assert not plain.is_pinned()
    assert pinned.is_pinned()
    assert pinned[500:].is_pinned()
    assert torch.equal(pinned, plain)
    assert pinned.pin_memory() is pinned
    assert torch.empty(10, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(3, device="npu").pin_memory()


def test_statistics_of_pinned_memory_have_the_keys_of_torch():
    stats = npu.host_memory_stats()
    kinds = {"current", "peak", "allocated", "freed"}
    wanted = {
        f"{name}.{kind}"
        for name in ("allocations", "allocated_bytes", "active_requests", "active_bytes")
        for kind in kinds
    }
    wanted |= {
        f"host_{name}_time.{kind}" for name in ("alloc", "free") for kind in ("total", "max", "min", "count", "avg")
    }
    assert set(stats) == wanted | {"num_host_alloc", "num_host_free"}
    assert list(stats) == sorted(stats)
    assert npu.host_memory_stats_as_nested_dict()["active_bytes"]["current"] == stats["active_bytes.current"]


def test_statistics_of_pinned_memory_count_blocks():
    assert npu.host_memory_stats()["active_bytes.current"] == 0
    first = torch.ones(1000).pin_memory()  # 4000 bytes: a block of 4096
    stats = npu.host_memory_stats()
    assert (stats["active_bytes.current"], stats["active_requests.current"], stats["num_host_alloc"]) == (4096, 1, 1)
    address = first.data_ptr()
    del first
    stats = npu.host_memory_stats()
    assert (stats["active_bytes.current"], stats["allocated_bytes.current"]) == (0, 4096)
    second = torch.ones(900).pin_memory()  # takes what is kept
    assert second.data_ptr() == address
    assert npu.host_memory_stats()["num_host_alloc"] == 1
    assert npu.host_memory_stats()["active_requests.allocated"] == 2
    del second
    npu.host_empty_cache()
    stats = npu.host_memory_stats()
    assert (stats["allocated_bytes.current"], stats["num_host_free"]) == (0, 1)
    assert (stats["allocated_bytes.peak"], stats["active_bytes.freed"]) == (4096, 8192)
    npu.reset_accumulated_host_memory_stats()
    npu.reset_peak_host_memory_stats()
    stats = npu.host_memory_stats()
    assert (stats["active_bytes.freed"], stats["allocated_bytes.peak"]) == (0, 0)


def test_memory_comes_back_after_a_copy():
    held = torch.ones(5000).pin_memory()
    there = held.to("npu", non_blocking=True)
    del held
    assert npu.host_memory_stats()["active_bytes.current"] == 0
    assert there.sum().item() == 5000


@pytest.mark.skipif(not hasattr(torch.accelerator.memory, "empty_host_cache"), reason="torch 2.11 has no such door")
def test_torch_own_door():
    del_me = torch.ones(1000).pin_memory()
    del del_me
    torch.accelerator.memory.empty_host_cache()
    assert npu.host_memory_stats()["allocated_bytes.current"] == 0


def test_threads_may_pin_at_once():
    def work() -> None:
        for size in range(1, 200):
            held = torch.full((size,), float(size)).pin_memory()
            assert held.is_pinned()
            assert held.sum().item() == size * size

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = npu.host_memory_stats()
    assert stats["active_requests.allocated"] == stats["active_requests.freed"] == 8 * 199


def test_the_peak_is_what_was_in_use_at_once():
    for size in (1000, 5000):  # blocks of 4096 and 32768 bytes, one after the other
        torch.ones(size).pin_memory()
    stats = npu.host_memory_stats()
    assert (stats["active_bytes.peak"], stats["active_requests.peak"], stats["active_bytes.current"]) == (32768, 1, 0)
