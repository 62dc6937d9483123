"""torch.npu: memory pools, and allocators of the program's own."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys

import pytest
import torch

npu = torch.npu
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _clean():
    gc.collect()
    npu.empty_cache()
    yield
    npu.set_per_process_memory_fraction(1.0)
    npu.empty_cache()


def test_mem_pool_has_its_own_segments():
    pool = npu.MemPool()
    assert pool.use_count() == 1
    assert pool.snapshot() == []
    with npu.use_mem_pool(pool):
        assert pool.use_count() == 2
        assert npu.current_stream() == npu.default_stream()
        held = torch.ones(1000, device="npu", requires_grad=True)
        with npu.stream(npu.Stream()):
            other = torch.ones(1000, device="npu")
        assert npu.current_stream() == npu.default_stream()
    outside = torch.ones(1000, device="npu")
    assert pool.use_count() == 1
    segments = pool.snapshot()
    assert len(segments) == 2
    assert {one["segment_pool_id"] for one in segments} == {pool.id}

    def inside(tensor: torch.Tensor) -> bool:
        return any(one["address"] <= tensor.data_ptr() < one["address"] + one["total_size"] for one in segments)

    assert [inside(one) for one in (held, other, outside)] == [True, True, False]
    del held, other
    npu.empty_cache()
    assert pool.snapshot() == []


def test_mem_pool_on_another_device_and_after_an_error():
    pool = npu.MemPool()
    with pytest.raises(KeyError), npu.use_mem_pool(pool, "npu:1"):
        assert npu.current_device() == 0
        held = torch.empty(10, device="npu:1"), torch.empty(10, device="npu:0")
        raise KeyError
    assert [one["device"] for one in pool.snapshot()] == [1]
    after = torch.empty(10, device="npu:1")
    assert len(pool.snapshot()) == 1
    assert pool.snapshot()[0]["allocated_size"] == 512
    del held, after


def test_mem_pool_without_splitting():
    pool = npu.MemPool(no_split=True)
    with npu.use_mem_pool(pool):
        held = [torch.empty(1000, device="npu") for _ in range(2)]
    assert [(one["total_size"], len(one["blocks"])) for one in pool.snapshot()] == [(2 * MIB, 1)] * 2
    del held


def test_mem_pool_lends_its_memory_before_others_fail():
    total = npu.get_device_properties().total_memory
    size = 40 * MIB
    for lends in (False, True):
        npu.empty_cache()
        pool = npu.MemPool(use_on_oom=lends)
        with npu.use_mem_pool(pool):
            keeper = torch.empty(size, dtype=torch.uint8, device="npu")
            small = torch.empty(2 * MIB, dtype=torch.uint8, device="npu")  # its segment has 18 MiB left
        npu.set_per_process_memory_fraction((npu.memory_reserved() + MIB) / total)
        if lends:
            lent = torch.zeros(10 * MIB, dtype=torch.uint8, device="npu")
            home = pool.snapshot()
            assert any(one["address"] <= lent.data_ptr() < one["address"] + one["total_size"] for one in home)
            del lent
        else:
            with pytest.raises(torch.OutOfMemoryError):
                torch.zeros(10 * MIB, dtype=torch.uint8, device="npu")
        npu.set_per_process_memory_fraction(1.0)
        del keeper, small


def test_memory_of_a_pool_goes_with_it():
    pool = npu.MemPool()
    with npu.use_mem_pool(pool):
        torch.empty(1000, device="npu")
    reserved = npu.memory_reserved()
    del pool
    gc.collect()
    assert npu.memory_reserved() == reserved - 2 * MIB


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("allocator")
    (folder / "a.c").write_text("""
#include <stdlib.h>
#include <sys/types.h>
static long live, calls;
void* my_alloc(ssize_t size, int device, void* stream) { live += size; ++calls; return aligned_alloc(64, size); }
void my_free(void* pointer, ssize_t size, int device, void* stream) { live -= size; free(pointer); }
long my_live(void) { return live; }
""")
    path = str(folder / "liba.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, str(folder / "a.c")], check=True)
    return path


def test_pool_with_a_library(library):
    import ctypes

    live = ctypes.CDLL(library).my_live
    live.restype = ctypes.c_long
    pool = npu.MemPool(npu.NPUPluggableAllocator(library, "my_alloc", "my_free").allocator())
    with npu.use_mem_pool(pool):
        held = torch.full((1000,), 3.0, device="npu")
    outside = torch.ones(MIB, device="npu")
    assert live() == 2 * MIB
    assert held.sum().item() == 3000
    del held, outside
    npu.empty_cache()
    assert live() == 0


def test_library_for_everything(library):
    program = f"""
import ctypes, torch, torch_npu
npu = torch.npu
npu.change_current_allocator(npu.memory.NPUPluggableAllocator({library!r}, "my_alloc", "my_free"))
live = ctypes.CDLL({library!r}).my_live
assert npu.get_allocator_backend() == "pluggable" and live() == 0
x = torch.ones(1000, device="npu") * 2
assert x.sum().item() == 2000 and live() == 4096  # in steps of 512 bytes
y = torch.empty(3 << 20, dtype=torch.uint8, device="npu")
assert live() == 4096 + (3 << 20)
del x, y
assert live() == 0  # nothing is kept
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=dict(os.environ))


def test_allocators_that_cannot_be(library):
    assert npu.get_allocator_backend() == "native"
    torch.ones(1, device="npu")
    npu.empty_cache()
    npu.reset_accumulated_memory_stats()
    npu.reset_peak_memory_stats()
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        npu.change_current_allocator(npu.NPUPluggableAllocator(library, "my_alloc", "my_free"))
    with pytest.raises(RuntimeError, match="no_such"):
        npu.NPUPluggableAllocator(library, "no_such", "my_free")
    with pytest.raises(RuntimeError, match="nowhere"):
        npu.NPUPluggableAllocator("/nowhere.so", "my_alloc", "my_free")
