"""torch.npu: figures of the allocator, snapshots, limits, pools, allocators of the program's own."""

from __future__ import annotations

import gc
import os
import pickle
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
    npu.memory._record_memory_history(None)
    npu.set_per_process_memory_fraction(1.0)
    npu.empty_cache()


def test_allocated_and_reserved():
    npu.reset_peak_memory_stats()
    before, reserved = npu.memory_allocated(), npu.memory_reserved()
    block = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    assert npu.memory_allocated() - before == 30 * MIB
    assert npu.memory_reserved() - reserved == 30 * MIB
    del block
    assert npu.memory_allocated() == before
    assert npu.memory_reserved() - reserved == 30 * MIB
    npu.empty_cache()
    assert npu.memory_reserved() == reserved
    assert npu.max_memory_allocated() - before == 30 * MIB == npu.max_memory_reserved() - reserved
    npu.reset_peak_memory_stats()
    assert npu.max_memory_allocated() == before


@pytest.mark.parametrize(
    ("size", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # what is left over is too small to cut off
        (13 * MIB + 512, 14 * MIB, 14 * MIB),
    ],
)
def test_rounding(size, block, segment):
    stream = npu.Stream()  # its blocks are its own, so nothing cached fits
    with npu.stream(stream):
        before, reserved = npu.memory_allocated(), npu.memory_reserved()
        held = torch.empty(size, dtype=torch.uint8, device="npu")
        assert npu.memory_allocated() - before == block
        assert npu.memory_reserved() - reserved == segment
        del held


def test_keys_of_the_statistics():
    arrays = ["allocation", "segment", "active", "inactive_split"]
    arrays += [f"{name}_bytes" for name in ("allocated", "reserved", "active", "inactive_split", "requested")]
    kinds = ["current", "peak", "allocated", "freed"]
    wanted = {f"{a}.{p}.{k}" for a in arrays for p in ("all", "small_pool", "large_pool") for k in kinds}
    wanted |= {f"{name}.{kind}" for name in ("oversize_allocations", "oversize_segments") for kind in kinds}
    wanted |= {"num_alloc_retries", "num_ooms", "num_oom_rejections", "num_sync_all_streams"}
    wanted |= {"num_device_alloc", "num_device_free", "max_split_size"}
    stats = npu.memory_stats()
    assert set(stats) == wanted
    assert list(stats) == sorted(stats)
    nested = npu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["peak"] == stats["allocated_bytes.all.peak"]


def test_pools_add_up():
    held = torch.empty(100, device="npu"), torch.empty(2 * MIB, device="npu")
    stats = npu.memory_stats()
    for name in ("allocation", "allocated_bytes", "requested_bytes", "reserved_bytes", "segment"):
        parts = stats[f"{name}.small_pool.current"], stats[f"{name}.large_pool.current"]
        assert sum(parts) == stats[f"{name}.all.current"]
        assert all(parts)
    del held


def test_accumulated():
    npu.reset_accumulated_memory_stats()
    for _ in range(3):
        torch.empty(1000, device="npu")
    stats = npu.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 3
    assert stats["allocated_bytes.all.allocated"] == 3 * 4096
    assert stats["requested_bytes.all.freed"] == 3 * 4000


def test_devices_are_counted_apart():
    before = npu.memory_allocated(0), npu.memory_allocated("npu:1")
    held = torch.empty(1000, device="npu:1")
    assert (npu.memory_allocated(0), npu.memory_allocated(1)) == (before[0], before[1] + 4096)
    del held


@pytest.mark.parametrize(
    ("old", "new"), [("memory_cached", "memory_reserved"), ("max_memory_cached", "max_memory_reserved")]
)
def test_old_names(old, new):
    with pytest.warns(FutureWarning, match=new):
        assert getattr(npu, old)() == getattr(npu, new)()


@pytest.mark.parametrize("name", ["reset_max_memory_allocated", "reset_max_memory_cached"])
def test_old_resets(name):
    torch.empty(MIB, device="npu")
    assert npu.max_memory_allocated() > npu.memory_allocated()
    with pytest.warns(FutureWarning, match="reset_peak_memory_stats"):
        getattr(npu, name)()
    assert npu.max_memory_allocated() == npu.memory_allocated()


def test_summary():
    held = torch.empty(MIB, device="npu")
    text, short = npu.memory_summary(), npu.memory_summary(0, abbreviated=True)
    assert {len(line) for line in text.rstrip("\n").split("\n")} == {77}
    assert "PyTorch NPU memory summary, device ID 0" in text
    assert "from large pool" in text
    assert "from large pool" not in short
    row = next(line for line in short.split("\n") if "Allocations" in line and "Oversize" not in line)
    assert int(row.split("|")[2]) == npu.memory_stats()["allocation.all.current"]
    del held


def test_fraction():
    with pytest.raises(TypeError, match="Invalid type for fraction argument, must be `float`"):
        npu.set_per_process_memory_fraction(1)
    for bad in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"Invalid fraction value: .*\. Allowed range: 0~1"):
            npu.set_per_process_memory_fraction(bad)
    total = npu.get_device_properties().total_memory
    npu.set_per_process_memory_fraction(64 * MIB / total)
    assert npu.get_per_process_memory_fraction() == 64 * MIB / total
    ooms = npu.memory_stats()["num_ooms"]
    with pytest.raises(
        torch.OutOfMemoryError, match=r"NPU out of memory\. Tried to allocate 80\.00 MiB \(NPU 0; .*64\.00 MiB allowed"
    ):
        torch.empty(80 * MIB, dtype=torch.uint8, device="npu")
    assert npu.memory_stats()["num_ooms"] == ooms + 1
    assert torch.ones(4, device="npu").sum().item() == 4
    npu.set_per_process_memory_fraction(1.0)
    torch.empty(80 * MIB, dtype=torch.uint8, device="npu")


def test_raw_blocks():
    before = npu.memory_allocated(1)
    address = npu.caching_allocator_alloc(5000, "npu:1", npu.Stream(1))
    assert npu.memory_allocated(1) - before == 5120
    npu.caching_allocator_delete(address)
    assert npu.memory_allocated(1) == before
    with pytest.raises(RuntimeError, match="is no block") as caught:
        npu.caching_allocator_delete(address)
    assert "ERR00004 PTA invalid pointer" in str(caught.value)
    with pytest.raises(TypeError, match="stream argument"):
        npu.caching_allocator_alloc(10, stream="default")


def test_snapshot_describes_every_byte():
    held = torch.empty(1000, device="npu"), torch.empty(3 * MIB, device="npu")
    segments = npu.memory_snapshot()
    assert sum(one["total_size"] for one in segments if one["device"] == 0) == npu.memory_reserved(0)
    assert sum(one["allocated_size"] for one in segments if one["device"] == 0) == npu.memory_allocated(0)
    home = next(one for one in segments if one["address"] <= held[1].data_ptr() < one["address"] + one["total_size"])
    assert (home["segment_type"], home["segment_pool_id"], home["is_expandable"]) == ("large", (0, 0), False)
    assert sum(block["size"] for block in home["blocks"]) == home["total_size"]
    block = next(one for one in home["blocks"] if one["address"] == held[1].data_ptr())
    assert (block["state"], block["requested_size"]) == ("active_allocated", 12 * MIB)


def test_history(tmp_path):
    npu.memory._record_memory_history()
    held = torch.empty(40 * MIB, dtype=torch.uint8, device="npu")
    address = held.data_ptr()
    segment = next(one for one in npu.memory_snapshot() if one["address"] == address)
    assert segment["frames"][0]["name"] == "test_history"
    del held
    npu.empty_cache()
    npu.memory._dump_snapshot(str(tmp_path / "memory.pickle"))
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    seen = [(one["action"], one["size"]) for one in snapshot["device_traces"][0] if one["addr"] == address]
    assert seen == [("segment_alloc", 40 * MIB), ("segment_free", 40 * MIB)]
    assert snapshot["device_traces"][0][-1]["action"] == "snapshot"
    assert len(snapshot["device_traces"]) == npu.device_count()
    npu.memory._record_memory_history(None)
    torch.empty(40 * MIB, dtype=torch.uint8, device="npu")
    assert npu.memory._snapshot()["device_traces"] == [[], []]


def test_history_keeps_the_last_entries():
    npu.memory._record_memory_history(max_entries=3, context=None)
    for _ in range(5):
        torch.empty(40 * MIB, dtype=torch.uint8, device="npu")
        npu.empty_cache()
    trace = npu.memory._snapshot()["device_traces"][0]
    assert [one["action"] for one in trace] == ["segment_alloc", "segment_free", "snapshot"]
    assert trace[0]["frames"] == []


@pytest.mark.parametrize("wrong", [{"enabled": "yes"}, {"context": "some"}, {"stacks": "c"}, {"max_entries": 0}])
def test_history_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        npu.memory._record_memory_history(**wrong)


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


def test_mem_pool_says_what_it_ignores():
    with pytest.warns(UserWarning, match="no_split"):
        npu.MemPool(no_split=True)


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
import ctypes, torch
npu = torch.npu
npu.change_current_allocator(npu.memory.NPUPluggableAllocator({library!r}, "my_alloc", "my_free"))
live = ctypes.CDLL({library!r}).my_live
assert npu.get_allocator_backend() == "pluggable" and live() == 0
x = torch.ones(1000, device="npu") * 2
assert x.sum().item() == 2000 and live() == 2 << 20
del x
npu.empty_cache()
assert live() == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=dict(os.environ))


def test_allocators_that_cannot_be(library):
    assert npu.get_allocator_backend() == "native"
    torch.ones(1, device="npu")
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        npu.change_current_allocator(npu.NPUPluggableAllocator(library, "my_alloc", "my_free"))
    with pytest.raises(RuntimeError, match="no_such"):
        npu.NPUPluggableAllocator(library, "no_such", "my_free")
    with pytest.raises(RuntimeError, match="nowhere"):
        npu.NPUPluggableAllocator("/nowhere.so", "my_alloc", "my_free")


def test_pinned_memory_is_not_counted_and_says_so():
    npu.host_empty_cache()
    with pytest.raises(NotImplementedError, match="not counted"):
        npu.host_memory_stats()
    assert torch.ones(3).pin_memory().is_pinned()
