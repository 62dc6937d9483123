"""acl.mdl: sizes of the next run: gears, ranges, outputs whose size the values decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import acl
from tests.faces.acl.models.support import (
    INVALID,
    SHAPE_INPUT,
    Memory,
    Net,
    convolved,
    dataset,
    device,
    floats,
    load,
    read,
)
from tests.support import message, ok

ID, NO_GEAR, LENGTH, ADDRESS = 145003, 145013, 145012, 145011
FLOAT32, INT64, ND = 0, 9, 2


@pytest.fixture(autouse=True)
def _engine(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOFTNPU_ENGINE", "onnxruntime")


def dims_of(desc: int) -> list[int]:
    return [ok(acl.get_tensor_desc_dim_v2(desc, i)) for i in range(acl.get_tensor_desc_num_dims(desc))]


def dims(*values: int) -> dict[str, Any]:
    return {"name": "", "dimCount": len(values), "dims": list(values)}


# ---- gears -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2, 4])
def test_the_batch_that_was_set_is_computed(batch: int) -> None:
    net = Net("batch")
    assert acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, net.index(), batch) == 0
    x = floats(batch, 3, 4, 4)
    net.outputs[0].put(np.full((4, 2, 4, 4), 7, np.float32))
    ok(net.execute(x))
    found = net.output(0, 4, 2, 4, 4)
    np.testing.assert_allclose(found[:batch], convolved(x), rtol=1e-4, atol=1e-5)
    assert (found[batch:] == 7).all()
    assert ok(acl.mdl.get_cur_output_dims(net.desc, 0))["dims"] == [batch, 2, 4, 4]
    assert acl.mdl.get_dataset_tensor_desc(net.output_dataset, 0) == 0


def test_a_setting_stays_in_its_dataset() -> None:
    net = Net("batch")
    second = dataset(Memory(768), Memory(4))
    ok(acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, 1, 1))
    ok(acl.mdl.set_dynamic_batch_size(net.id, second, 1, 4))
    x = floats(1, 3, 4, 4)
    net.outputs[0].put(np.full((4, 2, 4, 4), 7, np.float32))
    for _ in range(2):
        ok(net.execute(x))
    found = net.output(0, 4, 2, 4, 4)
    np.testing.assert_allclose(found[:1], convolved(x), rtol=1e-4, atol=1e-5)
    assert (found[1:] == 7).all()


def test_the_setting_is_in_the_dataset_and_not_in_the_shape_memory() -> None:
    net = Net("batch")
    ok(acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, 1, 2))
    net.inputs[1].put(np.array([4], np.int32))
    x = floats(2, 3, 4, 4)
    net.outputs[0].put(np.full((4, 2, 4, 4), 7, np.float32))
    ok(net.execute(x))
    found = net.output(0, 4, 2, 4, 4)
    np.testing.assert_allclose(found[:2], convolved(x), rtol=1e-4, atol=1e-5)
    assert (found[2:] == 7).all()


def test_the_size_may_change_with_every_run() -> None:
    net = Net("batch")
    for batch in (4, 1, 2, 1, 4):
        x = floats(batch, 3, 4, 4)
        ok(acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, 1, batch))
        ok(net.execute(x))
        np.testing.assert_allclose(net.output(0, batch, 2, 4, 4), convolved(x), rtol=1e-4, atol=1e-5)


def test_without_a_setting_the_shape_memory_decides() -> None:
    net = Net("batch")
    x = floats(4, 3, 4, 4)
    net.inputs[1].put(np.array([2], np.int32))
    net.outputs[0].put(np.full((4, 2, 4, 4), 7, np.float32))
    ok(net.execute(x))
    found = net.output(0, 4, 2, 4, 4)
    np.testing.assert_allclose(found[:2], convolved(x[:2]), rtol=1e-4, atol=1e-5)
    assert (found[2:] == 7).all()


def test_without_any_sensible_shape_the_largest_gear_runs() -> None:
    net = Net("batch")
    x = floats(4, 3, 4, 4)
    net.inputs[1].put(np.array([1234], np.int32))
    ok(net.execute(x))
    np.testing.assert_allclose(net.output(0, 4, 2, 4, 4), convolved(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [(4, 6), (8, 8), (6, 4)])
def test_the_resolution_that_was_set_is_computed(size: tuple[int, int]) -> None:
    net = Net("hw")
    assert acl.mdl.set_dynamic_hw_size(net.id, net.input_dataset, net.index(), *size) == 0
    x = floats(1, 3, *size)
    ok(net.execute(x))
    np.testing.assert_allclose(net.output(0, 1, 2, *size), convolved(x), rtol=1e-4, atol=1e-5)
    assert ok(acl.mdl.get_cur_output_dims(net.desc, 0))["dims"] == [1, 2, *size]


@pytest.mark.parametrize(("n", "m"), [(2, 3), (4, 5)])
def test_the_dims_that_were_set_are_computed(n: int, m: int) -> None:
    net = Net("dims")
    assert acl.mdl.set_input_dynamic_dims(net.id, net.input_dataset, net.index(), dims(n, m, m)) == 0
    x, y = floats(n, m), floats(m)
    ok(net.execute(x, y))
    np.testing.assert_allclose(net.output(0, n, m), x + y, rtol=1e-6)
    np.testing.assert_allclose(net.output(1, n), x.sum(1), rtol=1e-5, atol=1e-6)
    assert ok(acl.mdl.get_cur_output_dims(net.desc, 1))["dims"] == [n]


def test_a_buffer_for_the_gear_of_the_run_is_enough() -> None:
    net = Net("batch")
    x = floats(1, 3, 4, 4)
    shape, made = Memory(4), Memory(128)
    given = dataset(device(x), shape)
    ok(acl.mdl.set_dynamic_batch_size(net.id, given, 1, 1))
    ok(acl.mdl.execute(net.id, given, dataset(made)))
    np.testing.assert_allclose(made.get(np.float32, 1, 2, 4, 4), convolved(x), rtol=1e-4, atol=1e-5)


CALLS: dict[str, tuple[str, Any]] = {
    "batch": ("set_dynamic_batch_size", lambda *values: values),
    "hw": ("set_dynamic_hw_size", lambda *values: values),
    "dims": ("set_input_dynamic_dims", lambda *values: (dims(*values),)),
}
RIGHT = {"batch": (2,), "hw": (8, 8), "dims": (2, 3, 3)}


@pytest.mark.parametrize(
    ("name", "values"), [("batch", (3,)), ("hw", (8, 6)), ("hw", (6, 6)), ("dims", (2, 3, 5)), ("dims", (4, 3, 3))]
)
def test_a_size_that_is_no_gear_is_refused(name: str, values: tuple[int, ...]) -> None:
    net = Net(name)
    word, pack = CALLS[name]
    assert getattr(acl.mdl, word)(net.id, net.input_dataset, net.index(), *pack(*values)) == NO_GEAR
    assert "gears" in message()
    ok(getattr(acl.mdl, word)(net.id, net.input_dataset, net.index(), *pack(*RIGHT[name])))


@pytest.mark.parametrize("name", CALLS)
def test_sizes_are_set_only_where_they_belong(name: str) -> None:
    net = Net(name)
    word, pack = CALLS[name]
    call, values = getattr(acl.mdl, word), pack(*RIGHT[name])
    index = net.index()
    assert call(99, net.input_dataset, index, *values) == ID
    assert call(net.id, 0, index, *values) == INVALID
    assert call(net.id, net.input_dataset, 0, *values) == INVALID  # not the shape input
    assert SHAPE_INPUT in message()
    assert call(net.id, net.input_dataset, 50, *values) == INVALID
    assert call(net.id, dataset(net.inputs[0]), index, *values) == INVALID
    others = net.inputs[:index]
    null = dataset(*others, acl.create_data_buffer(0, 16))
    assert call(net.id, null, index, *values) in (INVALID, ADDRESS)
    short = dataset(*others, Memory(4 * len(RIGHT[name]) - 1, room=64))
    assert call(net.id, short, index, *values) == LENGTH


@pytest.mark.parametrize("values", [(0,), (0, 8), (8, 0)])
def test_a_size_of_zero(values: tuple[int, ...]) -> None:
    name = "batch" if len(values) == 1 else "hw"
    net = Net(name)
    assert getattr(acl.mdl, CALLS[name][0])(net.id, net.input_dataset, net.index(), *values) == INVALID


@pytest.mark.parametrize("name", ["batch", "hw", "dims", "relu"])
@pytest.mark.parametrize("kind", CALLS)
def test_a_setting_of_another_kind(name: str, kind: str) -> None:
    if name == kind:
        return
    net = Net(name)
    word, pack = CALLS[kind]
    index = net.index() if name != "relu" else 0
    assert getattr(acl.mdl, word)(net.id, net.input_dataset, index, *pack(*RIGHT[kind])) in (INVALID, NO_GEAR)
    assert "--dynamic_" in message()


@pytest.mark.parametrize(
    "value", [{}, {"dimCount": 3}, {"dims": [2, 3, 3]}, {"dimCount": "3", "dims": [2]}, {"dimCount": 1, "dims": ["2"]}]
)
def test_a_dictionary_of_the_wrong_form(value: dict[str, Any]) -> None:
    net = Net("dims")
    with pytest.raises((ValueError, TypeError, KeyError)):
        acl.mdl.set_input_dynamic_dims(net.id, net.input_dataset, net.index(), value)


def test_a_wrong_dim_count() -> None:
    net = Net("dims")
    wrong = {"name": "", "dimCount": 2, "dims": [2, 3, 3]}
    assert acl.mdl.set_input_dynamic_dims(net.id, net.input_dataset, net.index(), wrong) == INVALID


def test_a_gear_that_its_buffer_cannot_hold() -> None:
    net = Net("batch")
    given = dataset(Memory(192), Memory(4))
    ok(acl.mdl.set_dynamic_batch_size(net.id, given, 1, 4))
    assert acl.mdl.execute(net.id, given, net.output_dataset) != 0
    assert "768 bytes" in message()


def test_gears_on_a_stream() -> None:
    """The size is the one at the time of the call."""
    net = Net("batch")
    stream = ok(acl.rt.create_stream())
    x = floats(2, 3, 4, 4)
    net.inputs[0].put(x)
    net.outputs[0].put(np.full((4, 2, 4, 4), 7, np.float32))
    ok(acl.mdl.set_dynamic_batch_size(net.id, net.input_dataset, 1, 2))
    ok(acl.mdl.execute_async(net.id, net.input_dataset, net.output_dataset, stream))
    ok(acl.rt.synchronize_stream(stream))
    found = net.output(0, 4, 2, 4, 4)
    np.testing.assert_allclose(found[:2], convolved(x), rtol=1e-4, atol=1e-5)
    assert (found[2:] == 7).all()


# ---- ranges ----------------------------------------------------------------------------------------------------------


def ranged(n: int, m: int, room: int = 4096) -> tuple[Any, Any, int, int, list[Memory]]:
    """Arrays, and datasets with large buffers and descriptions of these sizes."""
    x, y = floats(n, m), floats(m)
    inputs, outputs = [Memory(room, x), Memory(room, y)], [Memory(room), Memory(room)]
    given, made = dataset(*inputs), dataset(*outputs)
    for index, array in enumerate((x, y)):
        desc = acl.create_tensor_desc(FLOAT32, list(array.shape), ND)
        ok(acl.mdl.set_dataset_tensor_desc(given, desc, index))
    return x, y, given, made, outputs


@pytest.mark.parametrize(("n", "m"), [(1, 2), (3, 5), (4, 6)])
def test_any_size_within_the_range_is_computed(n: int, m: int) -> None:
    x, y, given, made, outputs = ranged(n, m)
    ok(acl.mdl.execute(load("range"), given, made))
    np.testing.assert_allclose(outputs[0].get(np.float32, n, m), x + y, rtol=1e-6)
    np.testing.assert_allclose(outputs[1].get(np.float32, n), x.sum(1), rtol=1e-5, atol=1e-6)
    descs = [acl.mdl.get_dataset_tensor_desc(made, index) for index in (0, 1)]
    assert [dims_of(one) for one in descs] == [[n, m], [n]]
    assert [acl.get_tensor_desc_type(one) for one in descs] == [FLOAT32, FLOAT32]
    assert [acl.get_tensor_desc_size(one) for one in descs] == [4 * n * m, 4 * n]


def test_a_range_model_again_and_again() -> None:
    number = load("range")
    for n, m in ((1, 2), (4, 6), (1, 2), (2, 2)):
        x, y, given, made, outputs = ranged(n, m)
        for _ in range(2):
            ok(acl.mdl.execute(number, given, made))
        np.testing.assert_allclose(outputs[0].get(np.float32, n, m), x + y, rtol=1e-6)
        assert dims_of(acl.mdl.get_dataset_tensor_desc(made, 0)) == [n, m]


def test_range_outputs_allocated_by_the_runtime() -> None:
    number = load("range")
    x, y, given, _, _ = ranged(3, 4)
    buffers = [acl.create_data_buffer(0, 0) for _ in range(2)]
    made = dataset(*buffers)
    for _ in range(2):
        ok(acl.mdl.execute(number, given, made))
        assert [acl.get_data_buffer_size_v2(one) for one in buffers] == [48, 12]
        np.testing.assert_allclose(read(acl.get_data_buffer_addr(buffers[0]), np.float32, 3, 4), x + y, rtol=1e-6)
        for one in buffers:
            ok(acl.rt.free(acl.get_data_buffer_addr(one)))
            ok(acl.update_data_buffer(one, 0, 0))


@pytest.mark.parametrize(("n", "m"), [(5, 3), (0, 3), (2, 7), (2, 1)])
def test_outside_of_the_range(n: int, m: int) -> None:
    _, _, given, made, _ = ranged(n, m)
    assert acl.mdl.execute(load("range"), given, made) == INVALID
    assert "outside" in message()


def test_a_range_needs_a_description() -> None:
    _, _, given, made, _ = ranged(2, 3)
    number = load("range")
    ok(acl.mdl.set_dataset_tensor_desc(given, 0, 0))
    assert acl.mdl.execute(number, given, made) == INVALID
    assert "set_dataset_tensor_desc" in message()


def test_a_description_of_another_rank() -> None:
    _, _, given, made, _ = ranged(2, 3)
    ok(acl.mdl.set_dataset_tensor_desc(given, acl.create_tensor_desc(FLOAT32, [6], ND), 0))
    assert acl.mdl.execute(load("range"), given, made) == INVALID


def test_the_number_of_buffers_of_a_range_model() -> None:
    number = load("range")
    x, y, given, made, outputs = ranged(2, 3)
    ok(acl.mdl.add_dataset_buffer(given, Memory(64).buffer))
    ok(acl.mdl.execute(number, given, made))  # more are ignored
    np.testing.assert_allclose(outputs[0].get(np.float32, 2, 3), x + y, rtol=1e-6)
    assert acl.mdl.execute(number, dataset(Memory(64)), made) == INVALID
    assert acl.mdl.execute(number, given, dataset(Memory(64))) == INVALID


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_a_short_buffer_of_a_range_model(side: str) -> None:
    _, _, given, made, _ = ranged(4, 6)
    changed = dataset(Memory(95), Memory(95))
    if side == "inputs":
        for index, shape in enumerate(([4, 6], [6])):
            ok(acl.mdl.set_dataset_tensor_desc(changed, acl.create_tensor_desc(FLOAT32, shape, ND), index))
        given = changed
    else:
        made = changed
    assert acl.mdl.execute(load("range"), given, made) != 0
    assert "96 bytes" in message()


@pytest.mark.parametrize("n", [1, 7, 300])
def test_an_unbounded_dim_takes_any_size(n: int) -> None:
    x = floats(n, 3)
    given, made = dataset(device(x)), Memory(4096)
    ok(acl.mdl.set_dataset_tensor_desc(given, acl.create_tensor_desc(FLOAT32, [n, 3], ND), 0))
    ok(acl.mdl.execute(load("unbounded"), given, dataset(made)))
    np.testing.assert_array_equal(made.get(np.float32, n, 3), -x)


def test_a_range_model_on_a_stream() -> None:
    stream = ok(acl.rt.create_stream())
    x, y, given, made, outputs = ranged(3, 5)
    ok(acl.mdl.execute_async(load("range"), given, made, stream))
    ok(acl.rt.synchronize_stream(stream))
    np.testing.assert_allclose(outputs[0].get(np.float32, 3, 5), x + y, rtol=1e-6)
    assert dims_of(acl.mdl.get_dataset_tensor_desc(made, 0)) == [3, 5]


# ---- sizes that the values decide ------------------------------------------------------------------------------------


def picture(count: int) -> Any:
    x = np.zeros((3, 4), np.float32)
    x.reshape(-1)[np.random.default_rng(count).permutation(12)[:count]] = 5
    return x


@pytest.mark.parametrize("count", [0, 1, 6, 12])
def test_values_decide_the_shape(count: int) -> None:
    number = load("found")
    x = picture(count)
    where, negative = Memory(512), Memory(48)
    made = dataset(where, negative)
    ok(acl.mdl.execute(number, dataset(device(x)), made))
    assert dims_of(acl.mdl.get_dataset_tensor_desc(made, 0)) == [2, count]
    assert acl.get_tensor_desc_type(acl.mdl.get_dataset_tensor_desc(made, 0)) == INT64
    np.testing.assert_array_equal(where.get(np.int64, 2, count), np.array(np.nonzero(x)))
    np.testing.assert_array_equal(negative.get(np.float32, 3, 4), -x)


def test_the_shape_changes_between_runs_with_the_same_buffers() -> None:
    number = load("found")
    given, where, negative = Memory(48), Memory(512), Memory(48)
    inputs, made = dataset(given), dataset(where, negative)
    for count in (12, 0, 3, 12, 1):
        given.put(picture(count))
        ok(acl.mdl.execute(number, inputs, made))
        assert dims_of(acl.mdl.get_dataset_tensor_desc(made, 0)) == [2, count]
        np.testing.assert_array_equal(where.get(np.int64, 2, count), np.array(np.nonzero(picture(count))))


def test_open_outputs_allocated_by_the_runtime() -> None:
    number = load("found")
    buffers = [acl.create_data_buffer(0, 0) for _ in range(2)]
    made = dataset(*buffers)
    for count in (3, 12, 5):
        ok(acl.mdl.execute(number, dataset(device(picture(count))), made))
        assert acl.get_data_buffer_size_v2(buffers[0]) == 16 * count
        found = read(acl.get_data_buffer_addr(buffers[0]), np.int64, 2, count)
        np.testing.assert_array_equal(found, np.array(np.nonzero(picture(count))))
        for one in buffers:
            ok(acl.rt.free(acl.get_data_buffer_addr(one)))
            ok(acl.update_data_buffer(one, 0, 0))


def test_another_buffer_over_the_same_memory() -> None:
    """What a run copies goes to the memory of this run, not to where the buffer of an earlier run points by now."""
    number = load("found")
    given, where, elsewhere, negative = device(picture(2)), Memory(512), Memory(512), Memory(48)
    ok(acl.mdl.execute(number, dataset(given), dataset(where, negative)))
    ok(acl.update_data_buffer(where.buffer, elsewhere.address, 512))
    where.put(np.zeros(8, np.int64))
    second = acl.create_data_buffer(where.address, 512)
    ok(acl.mdl.execute(number, dataset(given), dataset(second, negative)))
    np.testing.assert_array_equal(where.get(np.int64, 2, 2), np.array(np.nonzero(picture(2))))


def test_an_open_output_that_does_not_fit() -> None:
    number = load("found")
    made = dataset(Memory(100), Memory(48))
    assert acl.mdl.execute(number, dataset(device(picture(12))), made) != 0
    assert "192 bytes" in message()
    ok(acl.mdl.execute(number, dataset(device(picture(6))), made))


def test_freed_memory_of_an_open_output() -> None:
    number = load("found")
    where = Memory(512)
    given, made = dataset(device(picture(4))), dataset(where, Memory(48))
    ok(acl.mdl.execute(number, given, made))
    where.free()
    assert acl.mdl.execute(number, given, made) != 0
    assert "freed" in message()
