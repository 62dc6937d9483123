"""torch.npu: figures of the allocator, snapshots, limits, streams that share blocks."""

from __future__ import annotations

import gc

import pytest
import torch
import torch_npu

from softnpu.runtime.process import process

npu = torch.npu
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _clean():
    gc.collect()
    npu.empty_cache()
    yield
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
def test_blocks_and_segments_are_rounded_as_in_torch(size, block, segment):
    npu.empty_cache()
    taken = {one["stream"] for one in npu.memory_snapshot()}
    stream = next(one for one in (npu.Stream() for _ in range(32)) if one.stream_id not in taken)  # nothing cached fits
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


def test_accumulated_figures_count_every_allocation():
    npu.reset_accumulated_memory_stats()
    for _ in range(3):
        torch.empty(1000, device="npu")
    stats = npu.memory_stats()
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 3
    assert stats["allocated_bytes.all.allocated"] == 3 * 4096
    assert stats["requested_bytes.all.freed"] == 3 * 4000


def test_a_block_waits_for_the_streams_that_use_it():
    stream, other = npu.Stream(), npu.Stream()
    with npu.stream(stream):
        held = torch.empty(1000, device="npu")
        again = torch.empty(1000, device="npu")
    address = held.data_ptr()

    def state() -> str:
        blocks = [block for one in npu.memory_snapshot() for block in one["blocks"]]
        return next(one["state"] for one in blocks if one["address"] <= address < one["address"] + one["size"])

    before = npu.memory_stats()
    held.record_stream(stream)  # its own: nothing to wait for
    held.record_stream(other)
    assert state() == "active_allocated"
    del held
    stats = npu.memory_stats()
    assert state() == "active_pending_free"
    assert stats["allocated_bytes.all.current"] == before["allocated_bytes.all.current"] - 4096
    assert stats["active_bytes.all.current"] == before["active_bytes.all.current"]
    torch.empty(1, device="npu")  # an allocation looks whether streams are done
    assert npu.memory_stats()["active_bytes.all.current"] == before["active_bytes.all.current"] - 4096
    assert state() == "inactive"
    address = again.data_ptr()
    again.record_stream(other)
    torch_npu._C._erase_stream(again, other.stream_id)
    del again
    assert state() == "inactive"


def test_streams_do_not_share_blocks():
    stream = npu.Stream()
    with npu.stream(stream):
        first = torch.empty(5000, device="npu").data_ptr()
        assert torch.empty(5000, device="npu").data_ptr() == first
    held = [torch.empty(5000, device="npu") for _ in range(3)]
    assert first not in [one.data_ptr() for one in held]


def test_device_of_a_pointer():
    held = torch.ones(1000, device="npu:1")
    assert torch_npu._C._device_of(held.data_ptr()) == 1
    assert torch_npu._C._device_of(held[500:].data_ptr()) == 1
    assert torch_npu._C._device_of(torch.ones(1, device="npu:0").data_ptr()) == 0
    with pytest.raises(RuntimeError, match=r"lies in the memory of no npu device[\s\S]*ERR00004"):
        torch_npu._C._device_of(torch.ones(1000).data_ptr())


def test_device_of_memory_that_pyacl_made():
    owner = process()
    address = owner.memory.allocate(owner.devices[1], 5000, 0)
    assert torch_npu._C._device_of(address + 4000) == 1
    owner.memory.free(address, ("device",), "device memory")
    with pytest.raises(RuntimeError, match="no npu device"):
        torch_npu._C._device_of(address)


def test_torch_accelerator():
    held = torch.ones(5000, device="npu")
    accelerator = torch.accelerator
    assert accelerator.memory_allocated() == npu.memory_allocated()
    assert accelerator.memory_reserved() == npu.memory_reserved()
    assert accelerator.memory_stats()["active.all.current"] == npu.memory_stats()["active.all.current"]
    free, total = accelerator.get_memory_info()
    assert total == npu.get_device_properties().total_memory
    assert 0 < free <= total
    del held
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    accelerator.empty_cache()
    assert npu.memory_reserved() == sum(one["total_size"] for one in npu.memory_snapshot() if one["device"] == 0)


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


def test_the_summary_is_a_table():
    held = torch.empty(MIB, device="npu")
    text, short = npu.memory_summary(), npu.memory_summary(0, abbreviated=True)
    assert {len(line) for line in text.rstrip("\n").split("\n")} == {77}
    assert "PyTorch NPU memory summary, device ID 0" in text
    assert "from large pool" in text
    assert "from large pool" not in short
    row = next(line for line in short.split("\n") if "Allocations" in line and "Oversize" not in line)
    assert int(row.split("|")[2]) == npu.memory_stats()["allocation.all.current"]
    del held


def test_the_fraction_limits_memory_and_is_checked():
    with pytest.raises(TypeError, match="Invalid type for fraction argument, must be `float`"):
        npu.set_per_process_memory_fraction(1)
    for bad in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"Invalid fraction value: .*\. Allowed range: 0~1"):
            npu.set_per_process_memory_fraction(bad)
    total = npu.get_device_properties().total_memory
    npu.set_per_process_memory_fraction(64 * MIB / total)
    assert npu.get_per_process_memory_fraction() == 64 * MIB / total
    ooms = npu.memory_stats()["num_ooms"]
    size = r"[\d.]+ (bytes|[KMG]iB)"
    text = (
        rf"NPU out of memory\. Tried to allocate 80\.00 MiB \(NPU 0; {size} total capacity; {size} already allocated; "
        rf"{size} current active; {size} free; 64\.00 MiB allowed; {size} reserved in total by PyTorch\)\.If reserved memory is "
        r">> allocated memory try setting max_split_size_mb to avoid fragmentation\.\n\[ERROR\] .* ERR00006 PTA memory error$"
    )
    retries = npu.memory_stats()["num_alloc_retries"]
    with pytest.raises(torch.OutOfMemoryError, match=text):
        torch.empty(80 * MIB, dtype=torch.uint8, device="npu")
    stats = npu.memory_stats()
    assert (stats["num_ooms"], stats["num_alloc_retries"]) == (ooms + 1, retries + 1)
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
    with pytest.raises(RuntimeError, match="is no block"):
        npu.caching_allocator_delete(torch.ones(10, device="npu").data_ptr() + 512)
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
