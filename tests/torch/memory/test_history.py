"""torch.npu.memory: history block by block, snapshots for torch's viewer, snapshots when memory is out."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import xml.etree.ElementTree as xml

import pytest
import torch
from torch.cuda import _memory_viz

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


def _of(address: int) -> list[tuple[str, int]]:
    trace = npu.memory._snapshot()["device_traces"][0]
    return [(one["action"], one["size"]) for one in trace if one.get("addr") == address]


def test_life_of_a_block(tmp_path):
    npu.memory._record_memory_history()
    held = torch.empty(40 * MIB - 100, dtype=torch.uint8, device="npu")
    address = held.data_ptr()
    segment = next(one for one in npu.memory_snapshot() if one["address"] == address)
    assert segment["frames"][0]["name"] == segment["blocks"][0]["frames"][0]["name"] == "test_life_of_a_block"
    assert segment["frames"][0]["filename"] == __file__
    del held
    npu.empty_cache()
    npu.memory._dump_snapshot(str(tmp_path / "memory.pickle"))
    assert os.listdir(tmp_path) == ["memory.pickle"]
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    trace = snapshot["device_traces"][0]
    mine = [one for one in trace if one.get("addr") == address]
    asked, whole = 40 * MIB - 100, 40 * MIB
    assert [(one["action"], one["size"]) for one in mine] == [
        ("segment_alloc", whole),
        ("alloc", asked),
        ("free_requested", asked),
        ("free_completed", asked),
        ("segment_free", whole),
    ]
    assert mine[2]["frames"][0]["name"] == "test_life_of_a_block"
    assert [one["time_us"] for one in trace] == sorted(one["time_us"] for one in trace)
    assert {one["stream"] for one in mine} == {0}
    assert trace[-1]["action"] == "snapshot"
    assert len(snapshot["device_traces"]) == npu.device_count()
    npu.memory._record_memory_history(None)
    torch.empty(40 * MIB, dtype=torch.uint8, device="npu")
    assert npu.memory._snapshot()["device_traces"] == [[], []]


@pytest.mark.parametrize(
    ("context", "state", "alloc", "free"),
    [(None, 0, 0, 0), ("state", 1, 0, 0), ("alloc", 1, 1, 0), ("all", 1, 1, 1)],
)
def test_which_entries_have_stacks(context, state, alloc, free):
    npu.memory._record_memory_history(context=context)
    held = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    address = held.data_ptr()
    blocks = [block for one in npu.memory_snapshot() for block in one["blocks"]]
    block = next(one for one in blocks if one["address"] == address)
    del held
    trace = npu.memory._snapshot()["device_traces"][0]
    results = {one["action"]: bool(one["frames"]) for one in trace if one.get("addr") == address}
    assert (bool(block["frames"]), results["alloc"], results["free_requested"]) == (
        bool(state),
        bool(alloc),
        bool(free),
    )


def test_state_alone_has_no_history():
    npu.memory._record_memory_history("state")
    held = torch.empty(30 * MIB, dtype=torch.uint8, device="npu")
    blocks = [block for one in npu.memory_snapshot() for block in one["blocks"]]
    assert next(one for one in blocks if one["address"] == held.data_ptr())["frames"]
    assert npu.memory._snapshot()["device_traces"] == [[], []]
    del held


def test_only_the_last_entries_are_kept():
    npu.memory._record_memory_history(max_entries=3, context=None)
    for _ in range(5):
        torch.empty(40 * MIB, dtype=torch.uint8, device="npu")
        npu.empty_cache()
    trace = npu.memory._snapshot()["device_traces"][0]
    assert [one["action"] for one in trace] == ["free_completed", "segment_free", "snapshot"]
    assert trace[0]["frames"] == []


def test_history_of_threads_and_the_backward_pass():
    npu.memory._record_memory_history()
    leaf = torch.ones(100_000, device="npu", requires_grad=True)
    (leaf * 3).sum().backward()
    assert ("alloc", 400_000) in _of(leaf.grad.data_ptr())


def test_out_of_memory_is_in_the_history():
    npu.memory._record_memory_history()
    total = npu.get_device_properties().total_memory
    npu.set_per_process_memory_fraction(64 * MIB / total)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(80 * MIB, dtype=torch.uint8, device="npu")
    entry = next(one for one in npu.memory._snapshot()["device_traces"][0] if one["action"] == "oom")
    assert entry["size"] == 80 * MIB
    assert 0 < entry["device_free"] <= total
    assert entry["frames"][0]["name"] == "test_out_of_memory_is_in_the_history"


@pytest.mark.parametrize("wrong", [{"enabled": "yes"}, {"context": "some"}, {"stacks": "c"}, {"max_entries": 0}])
def test_wrong_arguments_of_the_history_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        npu.memory._record_memory_history(**wrong)


def test_torch_can_show_it():
    npu.memory._record_memory_history()
    held = [torch.empty(3 * MIB, dtype=torch.uint8, device="npu") for _ in range(3)]
    del held[0]
    snapshot = npu.memory._snapshot()
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()
    assert "<html" in _memory_viz.segment_plot(snapshot).lower()
    assert "20.0MiB" in _memory_viz.segsum(snapshot)
    assert "alloc" in _memory_viz.trace(snapshot)


def test_pictures_of_memory_are_svg(tmp_path):
    npu.memory._record_memory_history()
    held = torch.empty(3 * MIB, dtype=torch.uint8, device="npu")
    for save in (npu.memory._save_segment_usage, npu.memory._save_memory_usage):
        save(str(tmp_path / "p.svg"))
        root = xml.parse(tmp_path / "p.svg").getroot()
        names = [one.text for one in root.iter("{http://www.w3.org/2000/svg}title")]
        assert names[0] == f"all: {npu.memory_reserved(0) + npu.memory_reserved(1)} bytes"
        assert any(name.startswith("active_allocated: 3145728") for name in names) or npu.memory_allocated() > 3 * MIB
        assert any("test_pictures_of_memory_are_svg" in name for name in names)
    del held


PROGRAM = """
import torch, torch_npu
npu = torch.npu
npu.set_per_process_memory_fraction((64 << 20) / npu.get_device_properties().total_memory)
held = torch.ones(1000, device="npu")
try:
    torch.empty(80 << 20, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError:
    print(held.sum().item())
"""


@pytest.mark.parametrize("wish", ["0", "1", "2"])
def test_snapshot_when_memory_is_out(tmp_path, wish):
    environment = dict(os.environ, OOM_SNAPSHOT_ENABLE=wish, OOM_SNAPSHOT_PATH=str(tmp_path / "new"))
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "1000.0"
    if wish == "0":
        assert not (tmp_path / "new").exists()
        return
    (file,) = (tmp_path / "new").iterdir()
    assert file.name.startswith("oom_snapshot_")
    assert file.suffix == ".pickle"
    assert str(file) in result.stderr
    snapshot = pickle.loads(file.read_bytes())
    assert snapshot["segments"][0]["allocated_size"] == 4096
    actions = [one["action"] for one in snapshot["device_traces"][0]]
    assert actions == (["segment_alloc", "alloc", "oom", "snapshot"] if wish == "1" else [])


def test_a_place_that_cannot_be_written_does_not_hide_the_error():
    environment = dict(os.environ, OOM_SNAPSHOT_ENABLE="1", OOM_SNAPSHOT_PATH="/proc/nowhere")
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "1000.0"
    assert "could not be written" in result.stderr
