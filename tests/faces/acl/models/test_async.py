"""acl.mdl: runs on streams: order, late failures, what is checked when submitting."""

from __future__ import annotations

import numpy as np
import pytest

import acl
from tests.faces.acl.models.support import INVALID, Memory, Net, dataset, device, floats, load
from tests.support import Hold, message, ok

ID, PARAM, STALE = 145003, 145000, 107000


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


@pytest.fixture
def stream() -> int:
    handle: int = ok(acl.rt.create_stream())
    return handle


def synchronize(stream: int) -> int:
    code: int = acl.rt.synchronize_stream_with_timeout(stream, 20000)
    return code


def test_a_run_on_a_stream(stream: int) -> None:
    net = Net("relu")
    x = floats(4)
    net.inputs[0].put(x)
    assert acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream) == 0
    assert synchronize(stream) == 0
    np.testing.assert_array_equal(net.output(), np.maximum(x, 0))


def test_the_default_stream_runs_a_model() -> None:
    net = Net("relu")
    x = floats(4)
    net.inputs[0].put(x)
    ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, 0))
    ok(acl.rt.synchronize_device())
    np.testing.assert_array_equal(net.output(), np.maximum(x, 0))


def test_the_order_of_a_stream_is_kept(stream: int) -> None:
    """Copy in, run, copy out, five times over the same buffers, all submitted before the first begins."""
    net = Net("wide")
    arrays = [floats(50) for _ in range(5)]
    sources, results = [device(array) for array in arrays], [Memory(200) for _ in arrays]
    with Hold(stream):
        for source, result in zip(sources, results, strict=True):
            ok(acl.rt.memcpy_async(net.inputs[0].address, 200, source.address, 200, 3, stream))
            ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
            ok(acl.rt.memcpy_async(result.address, 200, net.outputs[0].address, 200, 3, stream))
        assert ok(acl.rt.stream_query(stream)) == 1  # not complete
    ok(synchronize(stream))
    for x, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result.get(np.float32, 50), -x)


def test_one_model_after_another(stream: int) -> None:
    """The output of a model is the input of the next."""
    x = floats(4)
    first, middle, last = device(x), Memory(16), Memory(16)
    twice, relu = load("twice"), load("relu")
    spare = Memory(16)
    with Hold(stream):
        ok(acl.mdl.execute_async(twice, dataset(first), dataset(middle, spare), stream))
        ok(acl.mdl.execute_async(relu, dataset(middle), dataset(last), stream))
    ok(synchronize(stream))
    np.testing.assert_array_equal(last.get(np.float32, 4), np.maximum(-x, 0))


def test_addresses_are_those_of_the_submission(stream: int) -> None:
    """A buffer that gets other memory after the call does not redirect the run; also where outputs are copied."""
    for name, wanted in (("relu", lambda x: np.maximum(x, 0)), ("twice", lambda x: -x)):
        net = Net(name)
        x = floats(4)
        net.inputs[0].put(x)
        elsewhere = Memory(16)
        elsewhere.put(np.full(4, 7, np.float32))
        with Hold(stream):
            ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
            ok(acl.update_data_buffer(net.outputs[0].buffer, elsewhere.address, 16))
        ok(synchronize(stream))
        np.testing.assert_array_equal(net.output(), wanted(x))
        assert (elsewhere.get(np.float32, 4) == 7).all()


def test_events_around_a_run(stream: int) -> None:
    other = ok(acl.rt.create_stream())
    net = Net("relu")
    x = floats(4)
    event = ok(acl.rt.create_event())
    net.inputs[0].put(x)
    result = Memory(16)
    with Hold(stream):
        ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
        ok(acl.rt.record_event(event, stream))
        ok(acl.rt.stream_wait_event(other, event))
        ok(acl.rt.memcpy_async(result.address, 16, net.outputs[0].address, 16, 3, other))
    ok(synchronize(other))
    np.testing.assert_array_equal(result.get(np.float32, 4), np.maximum(x, 0))


def test_a_failure_appears_when_synchronising(stream: int) -> None:
    net = Net("pick")
    net.inputs[0].put(floats(3))
    net.inputs[1].put(np.array([0, 5], np.int32))
    ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
    assert synchronize(stream) != 0
    assert "failed while running" in message()
    assert synchronize(stream) == 0  # told once
    x = floats(3)
    net.inputs[0].put(x)
    net.inputs[1].put(np.array([1, 1], np.int32))
    ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
    ok(synchronize(stream))
    np.testing.assert_array_equal(net.output(), x[[1, 1]])


def test_what_is_checked_when_submitting(stream: int) -> None:
    net = Net("relu")
    call = acl.mdl.execute_async
    assert call(99, net.input_dataset, net.output_dataset, stream) == ID
    assert call(net.id, 0, net.output_dataset, stream) == INVALID
    assert call(net.id, net.input_dataset, 0, stream) == INVALID
    assert call(net.id, dataset(), net.output_dataset, stream) == PARAM
    assert call(net.id, net.input_dataset, dataset(*net.outputs, *net.outputs), stream) == PARAM
    assert call(net.id, dataset(acl.create_data_buffer(0, 16)), net.output_dataset, stream) == INVALID
    wide = Net("wide")
    assert call(wide.id, dataset(Memory(100)), wide.output_dataset, stream) in (PARAM, 500002)
    net.inputs[0].free()
    assert call(net.id, net.input_dataset, net.output_dataset, stream) != 0
    assert synchronize(stream) == 0  # nothing of that was queued


def test_only_a_synchronous_run_allocates(stream: int) -> None:
    net = Net("relu")
    assert acl.mdl.execute_async(net.id, net.input_dataset, dataset(acl.create_data_buffer(0, 0)), stream) == INVALID
    assert "acl.mdl.execute" in message()


def test_destroyed_and_foreign_streams(stream: int) -> None:
    net = Net("relu")
    ok(acl.rt.destroy_stream(stream))
    assert acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream) != 0
    old = ok(acl.rt.get_context())
    context = ok(acl.rt.create_context(0))
    foreign = ok(acl.rt.create_stream())
    ok(acl.rt.set_context(old))
    assert acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, foreign) == 107003
    ok(acl.rt.destroy_context(context))


def test_unload_before_the_queue_is_done(stream: int) -> None:
    """The run is told that its model is gone; nothing crashes and the stream goes on."""
    net = Net("relu")
    with Hold(stream):
        ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
        ok(acl.mdl.unload(net.id))
    assert synchronize(stream) in (0, ID)
    other = Net("relu")
    x = floats(4)
    other.inputs[0].put(x)
    ok(acl.mdl.execute_async(other.id, other.input_dataset, other.output_dataset, stream))
    ok(synchronize(stream))
    np.testing.assert_array_equal(other.output(), np.maximum(x, 0))


def test_abort_drops_runs_that_wait(stream: int) -> None:
    net = Net("relu")
    net.outputs[0].put(np.full(4, 7, np.float32))
    net.inputs[0].put(floats(4))
    with Hold(stream):
        ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
        ok(acl.rt.stream_abort(stream))
    synchronize(stream)
    assert (net.output() == 7).all()
