"""acl.mdl: synchronous runs: numbers, counts and sizes of buffers, memory that is gone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnxruntime
import pytest

import acl
from softnpu.base.dtypes import numpy_name
from softnpu.cli import atc
from tests.faces.acl.models.support import (
    INVALID,
    WEIGHT,
    Memory,
    Net,
    convolved,
    dataset,
    device,
    floats,
    load,
    proto,
    read,
)
from tests.support import Hold, in_thread, message, ok

ID, PARAM, STALE, INTERNAL, NO_CONTEXT, TIMEOUT = 145003, 145000, 107000, 500002, 107002, 507046
TOLERANCE = 64


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


# ---- numbers ---------------------------------------------------------------------------------------------------------


def test_results_are_those_of_numpy() -> None:
    net = Net("two")
    for _ in range(3):
        a, b = floats(2, 3), floats(3)
        total, product = net.run(a, b)
        np.testing.assert_allclose(total, a + b, rtol=1e-6)
        np.testing.assert_allclose(product, a @ WEIGHT, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["conv", "softmax", "fused"])
def test_results_are_those_of_onnxruntime(name: str) -> None:
    net = Net(name)
    x = floats(*ok(acl.mdl.get_input_dims(net.desc, 0))["dims"])
    session = onnxruntime.InferenceSession(proto(name).SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = net.run(x)
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_a_convolution_by_its_formula() -> None:
    x = floats(1, 3, 6, 6)
    np.testing.assert_allclose(Net("conv").run(x)[0], convolved(x), rtol=1e-4, atol=1e-5)


def test_every_type_passes_unchanged() -> None:
    net = Net("types")
    count = len(net.inputs)
    random = np.random.default_rng(2)
    given = []
    for index in range(count):
        dtype = np.dtype(numpy_name(acl.mdl.get_input_data_type(net.desc, index)))
        raw = random.integers(0, 2 if dtype.kind == "b" else 100, 3 * dtype.itemsize).astype(np.uint8)
        given.append(raw.view(dtype))
    for found, wanted in zip(net.run(*given), given, strict=True):
        assert found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()


def test_one_tensor_as_two_outputs() -> None:
    x = floats(4)
    first, second = Net("twice").run(x)
    np.testing.assert_array_equal(first, -x)
    np.testing.assert_array_equal(second, -x)


def test_inputs_stay_as_they_are() -> None:
    net = Net("two")
    a, b = floats(2, 3), floats(3)
    net.run(a, b)
    np.testing.assert_array_equal(net.inputs[0].get(np.float32, 2, 3), a)


def test_host_memory_is_taken() -> None:
    x = floats(4)
    y = np.zeros(4, np.float32)
    pointers = [int(one.__array_interface__["data"][0]) for one in (x, y)]
    given, made = (dataset(acl.create_data_buffer(one, 16)) for one in pointers)
    ok(acl.mdl.execute(load("relu"), given, made))
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_a_buffer_at_an_offset() -> None:
    room = Memory(64)
    x = floats(4)
    part = acl.create_data_buffer(room.address + 20, 16)
    room.put(np.concatenate([np.full(5, 9, np.float32), x]))
    made = Memory(16)
    ok(acl.mdl.execute(load("relu"), dataset(part), dataset(made)))
    np.testing.assert_array_equal(made.get(np.float32, 4), np.maximum(x, 0))


# ---- counts and sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 2), (3, 2), (0, 2), (2, 1), (2, 3), (2, 0), (1, 3)])
def test_the_number_of_buffers(inputs: int, outputs: int) -> None:
    number = load("two")
    given, made = (dataset(*[Memory(64) for _ in range(count)]) for count in (inputs, outputs))
    assert acl.mdl.execute(number, given, made) == PARAM
    assert "dataset has" in message()


def test_a_buffer_that_moved_to_the_other_side() -> None:
    """The same buffers in another order of datasets are another call, also after a run that was right."""
    number = load("two")
    memories = [Memory(64) for _ in range(4)]
    ok(acl.mdl.execute(number, dataset(*memories[:2]), dataset(*memories[2:])))
    assert acl.mdl.execute(number, dataset(*memories[:1]), dataset(*memories[1:])) == PARAM


def test_buffers_may_be_larger_than_the_tensors() -> None:
    x = floats(50)
    given, made = Memory(1000, x), Memory(5000)
    made.put(np.full(1250, 7, np.float32))
    ok(acl.mdl.execute(load("wide"), dataset(given), dataset(made)))
    found = made.get(np.float32, 1250)
    np.testing.assert_array_equal(found[:50], -x)
    assert (found[50:] == 7).all()


@pytest.mark.parametrize("missing", [1, 4, 63, TOLERANCE])
def test_a_little_too_short(missing: int) -> None:
    """64 bytes less than needed are accepted; nothing is written behind the output, and what is missing is not read."""
    x = floats(50)
    given, made = Memory(200 - missing, x, room=256), Memory(200 - missing, room=256)
    guard = np.full(256, 0xAB, np.uint8)
    made.put(guard)
    ok(acl.mdl.execute(load("wide"), dataset(given), dataset(made)))
    raw = made.get(np.uint8, 256)
    valid = 200 - missing
    assert raw[:valid].tobytes() == (-x).tobytes()[:valid]
    assert (raw[valid:] == 0xAB).all()


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("missing", [TOLERANCE + 1, 100, 200])
def test_buffers_that_are_far_too_short_are_refused(side: str, missing: int) -> None:
    sizes = {"input": 200, "output": 200}
    sizes[side] -= missing
    memories = [Memory(size, room=256) for size in sizes.values()]
    code = acl.mdl.execute(load("wide"), dataset(memories[0]), dataset(memories[1]))
    assert code in (PARAM, INTERNAL)
    assert f"{side} 0" in message()


def test_a_buffer_that_claims_more_than_its_memory() -> None:
    small = Memory(200, room=8192)
    lying = acl.create_data_buffer(ok(acl.rt.malloc(16, 0)), 200)
    number = load("wide")
    assert acl.mdl.execute(number, dataset(lying), dataset(small)) != 0
    assert acl.mdl.execute(number, dataset(small), dataset(lying)) != 0


# ---- null, freed, unknown --------------------------------------------------------------------------------------------


def test_unknown_models_and_datasets() -> None:
    net = Net("two")
    assert acl.mdl.execute(net.id + 1, net.input_dataset, net.output_dataset) == ID
    assert acl.mdl.execute(net.id, 0, net.output_dataset) == INVALID
    assert acl.mdl.execute(net.id, net.input_dataset, 0) == INVALID
    ok(acl.mdl.destroy_dataset(net.output_dataset))
    assert acl.mdl.execute(net.id, net.input_dataset, net.output_dataset) == STALE


def test_null_and_destroyed_buffers() -> None:
    net = Net("relu")
    null = dataset(acl.create_data_buffer(0, 16))
    assert acl.mdl.execute(net.id, null, net.output_dataset) == INVALID
    assert "input 0 (x) has no memory" in message()
    assert acl.mdl.execute(net.id, net.input_dataset, null) == INVALID
    empty = dataset(acl.create_data_buffer(0, 0))
    assert acl.mdl.execute(net.id, empty, net.output_dataset) == INVALID
    ok(acl.destroy_data_buffer(net.inputs[0].buffer))
    assert net.execute() == STALE


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_memory_that_was_freed_between_runs(side: str) -> None:
    net = Net("relu")
    net.run(floats(4))
    net.run(floats(4))
    (memory,) = getattr(net, side)
    memory.free()
    assert net.execute() != 0
    assert "freed" in message()
    replacement = Memory(16)
    ok(acl.update_data_buffer(memory.buffer, replacement.address, 16))
    ok(net.execute())


def test_buffers_may_point_elsewhere_before_every_run() -> None:
    net = Net("relu")
    rooms = [Memory(16) for _ in range(3)]
    for turn in range(9):
        x = floats(4)
        room = rooms[turn % 3]
        ok(acl.update_data_buffer(net.outputs[0].buffer, room.address, 16))
        ok(net.execute(x))
        np.testing.assert_array_equal(room.get(np.float32, 4), np.maximum(x, 0))


def test_more_buffers_than_plans_are_kept() -> None:
    net = Net("relu")
    for _ in range(150):
        x = floats(4)
        given, made = device(x), Memory(16)
        ok(acl.mdl.execute(net.id, dataset(given), dataset(made)))
        np.testing.assert_array_equal(made.get(np.float32, 4), np.maximum(x, 0))


# ---- outputs that the runtime allocates ------------------------------------------------------------------------------


def test_outputs_allocated_by_the_runtime() -> None:
    net = Net("two")
    buffers = [acl.create_data_buffer(0, 0) for _ in range(2)]
    made = dataset(*buffers)
    seen = set()
    for _ in range(3):
        a, b = floats(2, 3), floats(3)
        for memory, array in zip(net.inputs, (a, b), strict=True):
            memory.put(array)
        ok(acl.mdl.execute(net.id, net.input_dataset, made))
        addresses = [acl.get_data_buffer_addr(one) for one in buffers]
        assert [acl.get_data_buffer_size_v2(one) for one in buffers] == [24, 32]
        np.testing.assert_allclose(read(addresses[0], np.float32, 2, 3), a + b, rtol=1e-6)
        np.testing.assert_allclose(read(addresses[1], np.float32, 2, 4), a @ WEIGHT, rtol=1e-5, atol=1e-6)
        seen.update(addresses)
        for buffer in buffers:
            ok(acl.rt.free(acl.get_data_buffer_addr(buffer)))
            ok(acl.update_data_buffer(buffer, 0, 0))
    assert 0 not in seen


def test_allocated_outputs_are_kept_for_the_next_run() -> None:
    net = Net("relu")
    buffer = acl.create_data_buffer(0, 0)
    made = dataset(buffer)
    net.inputs[0].put(floats(4))
    ok(acl.mdl.execute(net.id, net.input_dataset, made))
    address = acl.get_data_buffer_addr(buffer)
    x = floats(4)
    net.inputs[0].put(x)
    ok(acl.mdl.execute(net.id, net.input_dataset, made))
    assert acl.get_data_buffer_addr(buffer) == address
    np.testing.assert_array_equal(read(address, np.float32, 4), np.maximum(x, 0))


# ---- failures while running, descriptions, threads -------------------------------------------------------------------


def test_a_run_that_fails() -> None:
    net = Net("pick")
    assert net.execute(floats(3), np.array([0, 7], np.int32)) != 0
    assert "failed while running" in message()
    x = floats(3)
    (found,) = net.run(x, np.array([2, 0], np.int32))
    np.testing.assert_array_equal(found, x[[2, 0]])


def test_fixed_models_leave_no_description() -> None:
    net = Net("relu")
    net.run(floats(4))
    assert acl.mdl.get_dataset_tensor_desc(net.output_dataset, 0) == 0


def test_an_attached_description_is_filled() -> None:
    net = Net("relu")
    attached = acl.create_tensor_desc(9, [1, 1], 0)
    ok(acl.mdl.set_dataset_tensor_desc(net.output_dataset, attached, 0))
    net.run(floats(4))
    found = acl.mdl.get_dataset_tensor_desc(net.output_dataset, 0)
    assert acl.get_tensor_desc_type(found) == 0
    assert [ok(acl.get_tensor_desc_dim_v2(found, i)) for i in range(acl.get_tensor_desc_num_dims(found))] == [4]


def test_a_thread_without_a_context() -> None:
    net = Net("relu")
    assert in_thread(net.execute) == NO_CONTEXT


def test_status_check_sets_the_overflow_status(tmp_path: Any) -> None:
    source = tmp_path / "m.onnx"
    source.write_bytes(proto("wide").SerializeToString())
    words = [f"--model={source}", "--framework=5", f"--output={tmp_path / 'm'}", "--soc_version=Ascend310P3"]
    assert atc.main([*words, "--status_check=1"]) == 0
    number = ok(acl.mdl.load_from_file(str(tmp_path / "m.om")))
    given, made, status = Memory(200), Memory(200), Memory(64)
    stream = ok(acl.rt.create_stream())

    def overflow() -> int:
        ok(acl.rt.get_overflow_status(status.address, 64, stream))
        ok(acl.rt.synchronize_stream(stream))
        return int(status.get(np.int32, 1)[0])

    given.put(floats(50))
    ok(acl.mdl.execute(number, dataset(given), dataset(made)))
    assert overflow() == 0
    given.put(np.full(50, np.inf, np.float32))
    ok(acl.mdl.execute(number, dataset(given), dataset(made)))
    assert overflow() != 0


# ---- execute_v2 ------------------------------------------------------------------------------------------------------


def exec_config() -> int:
    handle: int = acl.mdl.create_exec_config_handle()
    assert type(handle) is int and handle > 0
    return handle


@pytest.mark.parametrize("timeout", [None, -1, 0, 5000])
def test_execute_v2_takes_its_configuration(timeout: int | None) -> None:
    net = Net("two")
    handle = exec_config()
    if timeout is not None:
        ok(acl.mdl.set_exec_config_opt(handle, 0, timeout))
        ok(acl.mdl.set_exec_config_opt(handle, 1, timeout))
    stream = ok(acl.rt.create_stream())
    a, b = floats(2, 3), floats(3)
    for memory, array in zip(net.inputs, (a, b), strict=True):
        memory.put(array)
    assert acl.mdl.execute_v2(net.id, net.input_dataset, net.output_dataset, stream, handle) == 0
    np.testing.assert_allclose(net.output(0), a + b, rtol=1e-6)
    assert acl.mdl.destroy_exec_config_handle(handle) == 0


def test_execute_v2_times_out() -> None:
    net = Net("relu")
    handle = exec_config()
    ok(acl.mdl.set_exec_config_opt(handle, 0, 30))
    stream = ok(acl.rt.create_stream())
    with Hold(stream):
        assert acl.mdl.execute_v2(net.id, net.input_dataset, net.output_dataset, stream, handle) == TIMEOUT
    ok(acl.rt.synchronize_stream(stream))
    ok(acl.mdl.execute_v2(net.id, net.input_dataset, net.output_dataset, stream, handle))


def test_execute_v2_refuses_what_execute_refuses() -> None:
    net, handle = Net("relu"), exec_config()
    assert acl.mdl.execute_v2(99, net.input_dataset, net.output_dataset, 0, handle) == ID
    assert acl.mdl.execute_v2(net.id, 0, net.output_dataset, 0, handle) == INVALID
    assert acl.mdl.execute_v2(net.id, net.input_dataset, net.output_dataset, 0, 0) == INVALID
    assert acl.mdl.execute_v2(net.id, dataset(), net.output_dataset, 0, handle) == PARAM
    ok(acl.mdl.execute_v2(net.id, net.input_dataset, net.output_dataset, 0, handle))


@pytest.mark.parametrize(("attr", "value"), [(4, 0), (7, 0), (-1, 0), (0, -2), (1, -5)])
def test_exec_config_values_out_of_range(attr: int, value: int) -> None:
    assert acl.mdl.set_exec_config_opt(exec_config(), attr, value) == INVALID


@pytest.mark.parametrize("value", ["5", 1.5, None, b"1"])
def test_exec_config_values_of_the_wrong_type(value: Any) -> None:
    with pytest.raises(TypeError, match="set_exec_config_opt"):
        acl.mdl.set_exec_config_opt(exec_config(), 0, value)


def test_configuration_handles_end_once() -> None:
    handle = exec_config()
    ok(acl.mdl.set_exec_config_opt(handle, 2, Memory(64).address))
    ok(acl.mdl.set_exec_config_opt(handle, 3, 64))
    assert acl.mdl.destroy_exec_config_handle(handle) == 0
    assert acl.mdl.destroy_exec_config_handle(handle) == STALE
    assert acl.mdl.destroy_exec_config_handle(0) == INVALID
    assert acl.mdl.set_exec_config_opt(0, 0, 5) == INVALID


def test_one_dataset_in_many_threads() -> None:
    """Runs with the same buffers wait for each other; every one of them is whole."""
    net = Net("wide")
    x = floats(50)
    net.inputs[0].put(x)
    context = ok(acl.rt.get_context())
    codes: list[int] = []

    def work() -> None:
        ok(acl.rt.set_context(context))
        codes.extend(acl.mdl.execute(net.id, net.input_dataset, net.output_dataset) for _ in range(40))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert codes == [0] * 160
    np.testing.assert_array_equal(net.output(0), -x)
