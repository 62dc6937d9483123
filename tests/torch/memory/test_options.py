"""Options of the caching allocator (PYTORCH_NPU_ALLOC_CONF and its like): which there are, and what they do."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest
import torch

npu = torch.npu
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _plain():
    gc.collect()
    npu.empty_cache()
    yield
    npu.memory._set_allocator_settings("")
    npu.set_per_process_memory_fraction(1.0)
    npu.empty_cache()


def _bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device="npu")


def _reserved_for(size: int) -> int:
    before = npu.memory_reserved()
    with npu.stream(npu.Stream()):
        held = _bytes(size)
    after = npu.memory_reserved()
    del held
    npu.empty_cache()
    return after - before


def _allocated_for(size: int) -> int:
    before = npu.memory_allocated()
    held = _bytes(size)
    after = npu.memory_allocated()
    del held
    return after - before


def test_max_split_size():
    npu.memory._set_allocator_settings("max_split_size_mb:30")
    assert npu.memory_stats()["max_split_size"] == 30 * MIB
    before = npu.memory_allocated()
    _bytes(40 * MIB)
    reserved = npu.memory_reserved()
    small = _bytes(12 * MIB)  # may not cut the free 40 MiB
    assert npu.memory_reserved() == reserved + 12 * MIB
    large = _bytes(34 * MIB)  # may take them whole
    assert npu.memory_reserved() == reserved + 12 * MIB
    assert npu.memory_stats()["allocated_bytes.all.current"] == before + 52 * MIB
    stats = npu.memory_stats()
    assert (stats["oversize_allocations.current"], stats["oversize_segments.current"]) == (1, 1)
    assert stats["oversize_allocations.allocated"] == 2
    del large, small
    _bytes(300 * MIB)
    reserved = npu.memory_reserved()
    held = _bytes(40 * MIB)  # far too small for 300 MiB that cannot be cut; the 40 MiB are free
    assert npu.memory_reserved() == reserved
    del held
    npu.empty_cache()
    stats = npu.memory_stats()
    assert (stats["oversize_allocations.current"], stats["oversize_segments.current"]) == (0, 0)
    npu.memory._set_allocator_settings("")
    assert npu.memory_stats()["max_split_size"] == -1


def test_oversize_blocks_go_before_memory_is_out():
    npu.memory._set_allocator_settings("max_split_size_mb:30")
    others = npu.memory_reserved()
    npu.set_per_process_memory_fraction((others + 100 * MIB) / npu.get_device_properties().total_memory)
    _bytes(80 * MIB)
    _bytes(10 * MIB)
    retries = npu.memory_stats()["num_alloc_retries"]
    held = _bytes(50 * MIB)
    assert npu.memory_reserved() == others + 60 * MIB  # the 80 MiB went, the 10 MiB stayed
    assert npu.memory_stats()["num_alloc_retries"] == retries
    del held


def test_garbage_collection():
    npu.set_per_process_memory_fraction(200 * MIB / npu.get_device_properties().total_memory)
    npu.memory._set_allocator_settings("garbage_collection_threshold:0.5")
    first, second = _bytes(40 * MIB), _bytes(42 * MIB)
    del second
    del first
    held = _bytes(44 * MIB)  # above 100 MiB: what has been free longest goes
    sizes = sorted(one["total_size"] for one in npu.memory_snapshot() if one["total_size"] > 20 * MIB)
    assert sizes == [40 * MIB, 44 * MIB]
    del held


@pytest.mark.parametrize(
    ("setting", "size", "block"),
    [
        ("4", 1200, 1536),  # 512 * 4 is more than that: as without
        ("4", 5000, 5120),
        ("4", 9000, 10240),
        ("4", 5 * MIB + 1, 6 * MIB),
        ("4", 8 * MIB, 8 * MIB),
        ("[1:8,2:2,>:1]", 1_200_000, 1_179_648 + 131_072),
        ("[1:8,2:2,>:1]", 2 * MIB + 1, 3 * MIB),
        ("[1:8,2:2,>:1]", 5 * MIB + 1, 5 * MIB + 512),
    ],
)
def test_sizes_are_rounded_up_by_divisions(setting, size, block):
    npu.memory._set_allocator_settings(f"roundup_power2_divisions:{setting}")
    assert _allocated_for(size) == block


def test_sizes_of_segments():
    assert _reserved_for(3 * MIB) == 20 * MIB
    npu.memory._set_allocator_settings("large_segment_size_mb:30")
    assert [_reserved_for(size * MIB) for size in (1, 3, 9, 10, 21)] == [
        2 * MIB,
        30 * MIB,
        30 * MIB,
        10 * MIB,
        22 * MIB,
    ]
    npu.memory._set_allocator_settings("segment_size_mb:64")
    assert [_reserved_for(size * MIB) for size in (1, 3, 60, 65)] == [2 * MIB, 64 * MIB, 64 * MIB, 66 * MIB]


def test_addresses_are_aligned_as_asked():
    npu.memory._set_allocator_settings("base_addr_aligned_kb:16")
    held = []
    for number in range(4):
        with npu.stream(npu.Stream()):
            held.append(_bytes(1000 + number))
    assert [one.data_ptr() % 16384 for one in held] == [0] * 4


def test_expandable_segments_says_what_happens():
    with pytest.warns(UserWarning, match="expandable_segments:True has no effect"):
        npu.memory._set_allocator_settings("expandable_segments:True")
    npu.memory._set_allocator_settings("expandable_segments:False")
    held = _bytes(100)
    assert not npu.memory_snapshot()[0]["is_expandable"]
    del held


def test_options_without_effect_are_taken():
    npu.memory._set_allocator_settings(
        "page_size:1g, multi_stream_lazy_reclaim:True,pinned_use_background_threads:False,"
        "pin_memory_expandable_segments:True,pinned_mem_register:True"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_split_size_mb:20", "a whole number of at least 21"),
        ("max_split_size_mb:much", "a whole number of at least 21"),
        ("garbage_collection_threshold:1", "above 0 and below 1"),
        ("garbage_collection_threshold:x", "above 0 and below 1"),
        ("expandable_segments:yes", "True or False"),
        ("base_addr_aligned_kb:17", "from 0 to 16"),
        ("page_size:2m", "1g"),
        ("segment_size_mb:600", "from 20 to 512"),
        ("large_segment_size_mb:10", "at least 11"),
        ("roundup_power2_divisions:3", "a power of two"),
        ("roundup_power2_divisions:[256:3]", "a power of two"),
        ("roundup_power2_divisions:[256:2", "bracket"),
        ("max_split:30", "no option 'max_split:30'"),
        ("max_split_size_mb", "no option 'max_split_size_mb'"),
    ],
)
def test_what_is_refused(text, message):
    before = npu.memory_stats()["max_split_size"]
    with pytest.raises(ValueError, match=message) as caught:
        npu.memory._set_allocator_settings(text)
    assert "[ERROR]" in str(caught.value)
    assert npu.memory_stats()["max_split_size"] == before


def test_torch_own_door():
    torch._C._accelerator_setAllocatorSettings("max_split_size_mb:40,base_addr_aligned_kb:4")
    assert npu.memory_stats()["max_split_size"] == 40 * MIB


def _program(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import torch, torch_npu\nnpu = torch.npu\n" + code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", ["PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_options_come_from_the_environment(name):
    code = "torch.ones(1).npu(); torch.ones(3).pin_memory(); print(npu.memory_stats()['max_split_size'], npu.memory_reserved())"
    result = _program(code, **{name: "max_split_size_mb:50,segment_size_mb:30,base_addr_aligned_kb:16"})
    assert result.stdout.split() == [str(50 * MIB), str(2 * MIB)], result.stderr


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:50", "PYTORCH_ALLOC_CONF": "max_split_size_mb:60"},
            "are both set; unset one",
        ),
        ({"PYTORCH_NPU_ALLOC_CONF": "nonsense:1"}, "no option 'nonsense:1'"),
        ({"PYTORCH_NO_NPU_MEMORY_CACHING": "yes"}, "PYTORCH_NO_NPU_MEMORY_CACHING must be one of 0, 1"),
    ],
)
def test_wrong_environment_is_an_error_of_the_first_tensor(environment, message):
    code = """
print("imported")
for _ in range(2):
    try:
        torch.ones(1).npu()
    except ValueError as error:
        print("refused", error)
"""
    result = _program(code, **environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("imported\nrefused")
    assert result.stdout.count(message) == 2


def test_without_caching():
    code = """
from softnpu.runtime.process import process
x = torch.ones(1000, device="npu")
print(npu.memory_allocated(), npu.memory_reserved())
y = x + 1
del x
assert y.sum().item() == 2000
print(npu.memory_allocated(), npu.memory_reserved(), process().devices[0].allocations)
del y
print(npu.memory_allocated(), npu.memory_reserved(), process().devices[0].used)
"""
    result = _program(code, PYTORCH_NO_NPU_MEMORY_CACHING="1")
    assert result.stdout.split() == ["4096", "4096", "4096", "4096", "1", "0", "0", "0"], result.stderr
