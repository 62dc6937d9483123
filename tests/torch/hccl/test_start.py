"""How jobs begin: the ways to start ranks, options, the names in torch.distributed, and what goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch_npu
from torch import nn
from torch_npu.distributed import run

from tests.torch.hccl.programs import launch

SPAWNED = str(launch.HERE / "spawned.py")
SHORT = timedelta(seconds=1)


def told(*command: str) -> list[str]:
    """What the ranks of a program said, in their order; nothing was written to standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", *command],
        env=launch.environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return sorted(line for line in done.stdout.splitlines() if line.startswith("TOLD"))


@pytest.mark.parametrize(
    ("backend", "config", "more"),
    [
        ("none", "cpu:gloo,npu:hccl", " [2.0, 2.0]"),
        pytest.param("both", "cpu:gloo,npu:hccl", " [2.0, 2.0]", marks=pytest.mark.slow),
        pytest.param("hccl", "npu:hccl", "", marks=pytest.mark.slow),
    ],
)
def test_spawned_ranks_over_tcp(backend: str, config: str, more: str) -> None:
    lines = told(SPAWNED, backend, f"tcp://127.0.0.1:{launch.free_port()}")
    assert [line.split()[1] for line in lines] == ["0", "1"]
    for rank, line in enumerate(lines):
        assert config in line and line.endswith(f" {rank} [3.0, 3.0, 3.0]{more}"), line


@pytest.mark.parametrize(
    "module", ["torch_npu.distributed.run", pytest.param("torch.distributed.run", marks=pytest.mark.slow)]
)
def test_torchrun_starts_the_ranks(module: str) -> None:
    backend = ("--rdzv_backend", "parallel") if "npu" in module else ()
    port = f"--master_port={launch.free_port()}"
    lines = told("-m", module, "--nproc_per_node=2", "--master_addr=127.0.0.1", port, *backend, SPAWNED, "torchrun")
    assert [line.split()[1] for line in lines] == ["0", "1"] and all("[3.0, 3.0, 3.0]" in line for line in lines)


def test_arguments_of_torch_npu_run() -> None:
    given = ["--rdzv-backend=parallel", "train.py", "--rdzv-backend=parallel"]
    assert run._arguments(given) == ["--rdzv-backend=static", "train.py", "--rdzv-backend=parallel"]
    assert run._arguments(["--rdzv_backend", "c10d", "train.py"]) == ["--rdzv_backend", "c10d", "train.py"]


@pytest.fixture
def group() -> Iterator[dist.ProcessGroup]:
    options = dist.ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_buffer_size": 300, "group_name": "mine"}
    options.op_timeout = timedelta(seconds=50)
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1, pg_options=options)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_options_and_names(group: dist.ProcessGroup) -> None:
    backend = group._get_backend(torch.device("npu"))
    assert type(backend) is dist.ProcessGroupHCCL is torch_npu._C._distributed_c10d.ProcessGroupHCCL
    assert sys.modules["torch_npu._C._distributed_c10d"] is torch_npu._C._distributed_c10d
    assert dist.get_backend() == "hccl" and dist.is_hccl_available() and backend.name() == "hccl"
    assert backend.get_hccl_comm_name(0) == "mine" and isinstance(backend.get_hccl_comm(0), int)
    backend._set_hccl_comm_name("other")
    assert backend.get_hccl_comm_name(0, init_comm=False) == "other"
    assert backend.options.op_timeout == timedelta(seconds=50)
    assert backend.options.hccl_config["hccl_buffer_size"] == 300
    backend.set_watchdog_status(1)
    assert backend.get_coll_stream_id() == torch.npu.current_stream().stream_id
    backend.resume_hccl_comm()
    x = torch.ones(2).npu()
    dist.all_reduce(x)
    assert x.tolist() == [1, 1] and backend._get_sequence_number_for_group() == 1


def test_options_that_there_are_not() -> None:
    options = dist.ProcessGroupHCCL.Options(is_high_priority_stream=True)
    assert options.is_high_priority_stream and options.op_timeout == timedelta(seconds=1800)
    with pytest.raises(ValueError, match=r"no key 'buffer'.*hccl_buffer_size"):
        options.hccl_config = {"buffer": 3}
    with pytest.raises(TypeError, match=r"hccl_config\['hccl_buffer_size'\] must be a whole number"):
        options.hccl_config = {"hccl_buffer_size": "much"}
    with pytest.raises(TypeError, match=r"must be ProcessGroupHCCL\.Options, not dict"):
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1, pg_options={})
    assert not dist.is_initialized()


def test_a_group_by_its_class() -> None:
    for last in (timedelta(seconds=5), dist.ProcessGroupHCCL.Options()):
        alone = torch_npu._C._distributed_c10d.ProcessGroupHCCL(dist.HashStore(), 0, 1, last)
        x = torch.full((2,), 3.0).npu()
        alone.allreduce([x]).wait()
        alone.broadcast([x]).wait()
        assert x.tolist() == [3, 3]


def test_lccl_is_a_backend() -> None:
    dist.init_process_group("lccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        dist.all_reduce(torch.ones(2).npu())
        assert dist.get_backend() == "lccl"
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("url", "rank", "words", "code"),
    [
        ("tcp://no-such-host.invalid:29500", 1, "host not found.", "ERR02001 DIST"),
        ("tcp://127.0.0.1:1", 1, "connect() timed out.", "ERR02011 DIST"),
    ],
)
def test_peers_that_are_not_found(url: str, rank: int, words: str, code: str) -> None:
    with pytest.raises(dist.DistError) as raised:
        dist.init_process_group("hccl", init_method=url, rank=rank, world_size=2, timeout=SHORT)
    text = str(raised.value)
    assert text.startswith(words) and "MASTER_ADDR" in text and code in text, text


def test_a_world_without_peers() -> None:
    port = launch.free_port()
    with pytest.raises(dist.DistError) as raised:
        dist.init_process_group("hccl", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=2, timeout=SHORT)
    assert "fewer processes than WORLD_SIZE" in str(raised.value) and "ERR02011" in str(raised.value)
    assert not dist.is_initialized()


def test_a_peer_that_finds_the_store_only() -> None:
    store = dist.TCPStore("127.0.0.1", launch.free_port(), is_master=True, wait_for_workers=False)
    with pytest.raises(
        RuntimeError, match=r"HCCL: rank 0 of 2 cannot connect to the other ranks within 0:00:01"
    ) as raised:
        dist.ProcessGroupHCCL(store, 0, 2, SHORT)
    assert "ERR02200 DIST call hccl api failed" in str(raised.value)
    assert not list(Path("/dev/shm").glob("softnpu-hccl-*")) or os.environ.get("PYTEST_XDIST_WORKER")


def test_data_parallel_is_refused_with_advice() -> None:
    for devices in (None, [0], [0, 1]):
        with pytest.raises(RuntimeError, match=r"use torch\.nn\.parallel\.DistributedDataParallel") as raised:
            nn.DataParallel(nn.Linear(2, 2).npu(), device_ids=devices)
        assert "ERR02007 DIST feature not supported" in str(raised.value)


def test_timeouts_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HCCL_EXEC_TIMEOUT must be a number"):
        dist.ProcessGroupHCCL(dist.HashStore(), 0, 1, SHORT)
    monkeypatch.setenv("HCCL_EXEC_TIMEOUT", "100")
    monkeypatch.setenv("HCCL_IF_IP", "127.0.0.1")
    x = torch.ones(2).npu()
    dist.ProcessGroupHCCL(dist.HashStore(), 0, 1, SHORT).allreduce([x]).wait()
    assert x.tolist() == [1, 1]


@pytest.mark.slow
def test_debugging_of_torch_wraps_the_group() -> None:
    results = launch.checked("training.py", 2, TORCH_DISTRIBUTED_DEBUG="DETAIL")
    for name in launch.names("training.py"):
        launch.passed(results, name, 2)


@pytest.mark.slow
def test_tests_of_several_processes() -> None:
    done = subprocess.run(
        [sys.executable, str(launch.HERE / "torch_tests.py"), "-v"],
        env=launch.environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and "OK (skipped=1)" in done.stderr, done.stderr
    assert "skipped 'with_comms needs a process group backend" in done.stderr
