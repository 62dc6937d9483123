"""The sanitizer: work on two streams that touches the same memory without waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch_npu  # noqa: F401
from torch_npu._watch.sanitizer import NPUSanitizerErrors, enable_npu_sanitizer, npu_sanitizer


@pytest.fixture(autouse=True)
def looking() -> Iterator[None]:
    enable_npu_sanitizer()
    yield
    npu_sanitizer.disable()


def test_a_race_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(1000, device="npu")
    with torch.npu.stream(torch.npu.Stream()), pytest.raises(NPUSanitizerErrors, match="detected 1 errors"):
        x.mul_(2)
    told = capsys.readouterr().err
    assert "NSAN detected a possible data race on tensor with data pointer" in told
    assert "aten::mul_" in told
    assert __file__ in told


@pytest.mark.parametrize("way", ["event", "stream", "synchronize stream", "synchronize event", "synchronize device"])
def test_waiting_is_enough(way: str) -> None:
    x = torch.ones(1000, device="npu")
    side, first = torch.npu.Stream(), torch.npu.current_stream()
    match way:
        case "event":
            side.wait_event(first.record_event())
        case "stream":
            side.wait_stream(first)
        case "synchronize stream":
            first.synchronize()
        case "synchronize event":
            first.record_event().synchronize()
        case _:
            torch.npu.synchronize()
    with torch.npu.stream(side):
        x.mul_(2)
    with pytest.raises(NPUSanitizerErrors):
        x.add(1)
    first.wait_stream(side)
    assert x.sum().item() == 2000


def test_reading_twice_is_no_race() -> None:
    x = torch.ones(10, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(torch.npu.Stream()):
        x.add(1)
    x.add(1)


def test_new_memory_at_an_old_address_is_new() -> None:
    side = torch.npu.Stream()
    x = torch.ones(100, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        x.add(1)
    address = x.data_ptr()
    del x
    y = torch.zeros(100, device="npu")
    assert y.data_ptr() == address
    y.add_(1)


def test_training_on_one_stream_is_clean() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4, device="npu")).pow(2).mean().backward()
        optimizer.step()


def test_the_environment_switches_it_on() -> None:
    program = """
import torch, torch_npu
x = torch.ones(3, device="npu")
with torch.npu.stream(torch.npu.Stream()):
    try:
        x.add_(1)
    except Exception as error:
        print(type(error).__name__)
"""
    environment = {**os.environ, "TORCH_NPU_SANITIZER": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "NPUSanitizerErrors\n", done.stderr
    npu_sanitizer.disable()
    assert not npu_sanitizer.enabled
