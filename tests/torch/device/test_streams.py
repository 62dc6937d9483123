"""torch.npu: streams and events."""

from __future__ import annotations

import ctypes
import re
import threading
import time

import pytest
import torch
import torch_npu

npu = torch.npu


@pytest.fixture(autouse=True)
def _default_stream():
    yield
    for index in (1, 0):
        npu.set_stream(npu.default_stream(index))


def test_stream_is_a_torch_stream():
    stream = npu.Stream(device="npu:1", priority=-1)
    assert isinstance(stream, torch.Stream)
    assert (stream.device, stream.device_index, stream.priority) == (torch.device("npu:1"), 1, -1)
    same = torch.Stream(stream_id=stream.stream_id, device_index=1, device_type=stream.device_type)
    assert stream == same
    assert stream != npu.Stream("npu:1")
    assert stream != "stream"
    assert hash(stream) == hash(npu.Stream(stream_id=stream.stream_id, device_index=1, device_type=stream.device_type))
    assert npu.Stream.priority_range() == (0, -1)
    assert repr(stream) == f"<torch_npu.npu.Stream device=npu:1 npu_stream={stream.npu_stream:#x}>"
    assert isinstance(stream._as_parameter_, ctypes.c_void_p)
    assert stream._as_parameter_.value == stream.npu_stream


def test_streams_of_equal_number_differ_by_device():
    assert npu.default_stream(0) != npu.default_stream(1)
    assert npu.default_stream(0).npu_stream != npu.default_stream(1).npu_stream


def test_pool_of_streams_goes_round():
    handles = [npu.Stream().npu_stream for _ in range(33)]
    assert len(set(handles[:32])) == 32
    assert handles[32] == handles[0]


def test_current_stream():
    assert npu.current_stream() == npu.default_stream()
    stream = npu.Stream()
    with npu.stream(stream):
        assert npu.current_stream() == stream == torch.accelerator.current_stream()
        with npu.stream(None):
            assert npu.current_stream() == stream
    assert npu.current_stream() == npu.default_stream()
    npu.set_stream(None)
    npu.set_stream(stream)
    assert npu.current_stream() == stream


def test_stream_of_another_device():
    stream = npu.Stream(1)
    with npu.stream(stream):
        assert npu.current_device() == 1
        assert npu.current_stream() == stream
        assert npu.current_stream(0) == npu.default_stream(0)
    assert npu.current_device() == 0
    assert npu.current_stream(1) == npu.default_stream(1)


def test_current_stream_belongs_to_a_thread():
    seen = []
    with npu.stream(npu.Stream()):
        thread = threading.Thread(target=lambda: seen.append(npu.current_stream()))
        thread.start()
        thread.join()
    assert seen == [npu.default_stream()]


def test_work_on_streams_has_the_usual_result():
    stream = npu.Stream()
    x = torch.arange(6.0, device="npu")
    with npu.stream(stream):
        stream.wait_stream(npu.default_stream())
        y = x * 2
    y.record_stream(npu.current_stream())
    npu.current_stream().wait_stream(stream)
    assert stream.query()
    stream.synchronize()
    assert torch.equal(y.cpu(), torch.arange(6.0) * 2)


def test_kinds_of_streams_are_told_apart():
    launch = npu.SyncLaunchStream(priority=-1)
    assert launch.priority == -1
    with npu.stream(launch):
        assert type(npu.current_stream()) is npu.SyncLaunchStream
        assert npu.current_stream() == launch
    launch.set_data_preprocess_stream(True)
    assert launch.is_data_preprocess_stream


def test_external_stream():
    stream = npu.ExternalStream(0xABC0, device="npu:0")
    assert stream.npu_stream == 0xABC0
    assert stream == npu.ExternalStream(0xABC0)
    assert stream != npu.ExternalStream(0xABD0)
    with npu.stream(stream):
        assert type(npu.current_stream()) is npu.ExternalStream
        assert npu.current_stream().npu_stream == 0xABC0
    event = npu.Event()
    for refused in (
        stream.synchronize,
        stream.query,
        stream.record_event,
        lambda: stream.wait_event(event),
        lambda: stream.wait_stream(npu.default_stream()),
        lambda: event.record(stream),
        lambda: event.wait(stream),
    ):
        with pytest.raises(RuntimeError, match=r"ExternalStream does not support .*0xabc0"):
            refused()
    x = torch.ones(3, device="npu")
    with pytest.raises(RuntimeError, match="ExternalStream does not support record_stream"):
        x.record_stream(stream)
    with pytest.raises(RuntimeError, match="ExternalStream does not support erase_stream"):
        torch_npu.erase_stream(x, stream)
    with (
        pytest.raises(RuntimeError, match="ExternalStream does not support capture"),
        npu.graph(npu.NPUGraph(), stream=stream),
    ):
        pass
    assert npu.current_stream() == npu.default_stream()


def test_record_and_erase_stream():
    x = torch.ones(3, device="npu")
    side = npu.Stream()
    x.record_stream(side)
    assert torch_npu.erase_stream(x, side) is None
    torch_npu.erase_stream(x, side)  # once more does no harm
    for wrong in ((torch.ones(3), side), (3, side), (x, 5)):
        with pytest.raises((RuntimeError, TypeError), match=r"should be(?s:.*)ERR0000[12]"):
            torch_npu.erase_stream(*wrong)


def test_streams_are_interchangeable_with_torchs():
    ours, theirs = npu.Stream(), torch.Stream("npu:0")
    assert ours == torch.Stream(stream_id=ours.stream_id, device_index=0, device_type=ours.device_type)
    assert (
        len({ours, npu.Stream(stream_id=ours.stream_id, device_index=0, device_type=ours.device_type), npu.Stream()})
        == 2
    )
    assert ours != 3
    with npu.stream(theirs):
        assert npu.current_stream().stream_id == theirs.stream_id
        x = torch.ones(3, device="npu") * 2
    ours.wait_stream(theirs)
    event = torch.Event("npu")
    event.record(ours)
    ours.wait_event(event)
    theirs.wait_event(ours.record_event())
    with ours:
        assert torch.accelerator.current_stream() == ours
    assert npu.StreamContext(None).__enter__() is None
    assert npu.Stream.priority_range() == (0, -1)
    assert x.sum().item() == 6


def test_event_life():
    event = npu.Event()
    assert isinstance(event, torch.Event)
    assert repr(event) == "<torch_npu.npu.Event uninitialized>"
    assert event.query()
    event.record()
    assert re.fullmatch(r"<torch_npu.npu.Event 0x[0-9a-f]+>", repr(event))
    assert event._as_parameter_.value == event.npu_event != 0
    event.wait(npu.Stream())
    event.synchronize()
    assert type(npu.Stream().record_event()) is npu.Event


def test_elapsed_time():
    first, second = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    first.record()
    time.sleep(0.02)
    npu.Stream().record_event(second)
    assert 20 <= first.elapsed_time(second) < 10_000
    assert second.elapsed_time(first) == -first.elapsed_time(second)
    assert second.recorded_time() - first.recorded_time() == pytest.approx(first.elapsed_time(second) * 1000, abs=2)


def test_events_of_torch_work_with_our_streams():
    first, stream = npu.Event(enable_timing=True), npu.Stream()
    first.record(torch.Stream("npu"))
    second = torch.Event("npu", enable_timing=True)
    assert stream.record_event(second) is second
    stream.wait_event(second)
    assert first.elapsed_time(second) >= 0
    torch.Stream("npu").wait_stream(stream)


def test_elapsed_time_needs_timing_and_recording():
    timed = npu.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="must be recorded"):
        timed.elapsed_time(npu.Event(enable_timing=True))
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        timed.elapsed_time(npu.Event())


def test_event_between_processes():
    event = npu.Event(interprocess=True)
    handle = event.ipc_handle()
    assert len(handle) == 64
    assert npu.Event.from_ipc_handle("npu:1", handle).query()
    with pytest.raises(RuntimeError, match="no handle"):
        npu.Event.from_ipc_handle(0, b"x" * 64)
    with pytest.raises(RuntimeError, match="interprocess=True"):
        npu.Event(enable_timing=True, interprocess=True).ipc_handle()


def test_external_event():
    event = npu.ExternalEvent()
    event.wait()
    event.record()
    event.reset()
    assert repr(event).startswith("<torch_npu.npu.ExternalEvent 0x")


def test_an_event_belongs_to_the_device_of_its_first_record():
    event = npu.Event()
    event.record(npu.Stream(device=1))
    event.record(npu.Stream(device=1))
    with pytest.raises(RuntimeError, match="Event device index 1 does not match recording stream's device index 0"):
        event.record(npu.Stream(device=0))
