"""acl.mdl: datasets, the ordered buffers of a model."""

from __future__ import annotations

from typing import Any

import pytest

import acl
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("runtime")
ND = 2


def buffer(number: int) -> int:
    return int(acl.create_data_buffer(0x1000 * number, number))


def dataset(count: int = 3) -> tuple[int, list[int]]:
    handle = acl.mdl.create_dataset()
    buffers = [buffer(number) for number in range(1, count + 1)]
    for single_buffer in buffers:
        assert acl.mdl.add_dataset_buffer(handle, single_buffer) == (handle, 0)
    return handle, buffers


def description(*dims: int) -> int:
    return int(acl.create_tensor_desc(0, list(dims), ND))


def test_buffers_come_back_in_their_order() -> None:
    handle, buffers = dataset(5)
    assert acl.mdl.get_dataset_num_buffers(handle) == 5
    assert [acl.mdl.get_dataset_buffer(handle, index) for index in range(5)] == buffers
    assert [acl.get_data_buffer_size_v2(single_buffer) for single_buffer in buffers] == [1, 2, 3, 4, 5]


def test_a_new_dataset_is_empty() -> None:
    handle = acl.mdl.create_dataset()
    assert type(handle) is int and handle > 0
    assert acl.mdl.get_dataset_num_buffers(handle) == 0
    assert acl.mdl.get_dataset_buffer(handle, 0) == 0
    assert acl.mdl.get_dataset_tensor_desc(handle, 0) == 0
    ok(acl.mdl.destroy_dataset(handle))


@pytest.mark.parametrize("index", [3, 4, 1 << 40, -1, -3])
def test_an_index_out_of_range(index: int) -> None:
    handle, _ = dataset(3)
    assert acl.mdl.get_dataset_buffer(handle, index) == 0
    assert acl.mdl.get_dataset_tensor_desc(handle, index) == 0
    desc = description(1)
    assert acl.mdl.set_dataset_tensor_desc(handle, desc, index) == (0, 100000)
    assert "dataset of 3 buffers" in message()
    assert acl.get_tensor_desc_type(desc) == 0


def test_destroying_a_dataset_leaves_its_buffers() -> None:
    handle, buffers = dataset(3)
    assert acl.mdl.destroy_dataset(handle) == 0
    assert [acl.get_data_buffer_size_v2(single_buffer) for single_buffer in buffers] == [1, 2, 3]
    assert acl.mdl.destroy_dataset(handle) == 107000
    assert acl.mdl.get_dataset_num_buffers(handle) == 0
    for single_buffer in buffers:
        ok(acl.destroy_data_buffer(single_buffer))


def test_descriptions_are_copied_and_go_with_the_dataset() -> None:
    handle, _ = dataset(3)
    desc = description(2, 3)
    assert acl.mdl.set_dataset_tensor_desc(handle, desc, 1) == (handle, 0)
    attached = acl.mdl.get_dataset_tensor_desc(handle, 1)
    assert attached not in (0, desc)
    ok(acl.set_tensor_origin_shape(desc, [9]))
    acl.destroy_tensor_desc(desc)
    assert acl.get_tensor_desc_element_count(attached) == 6
    assert acl.mdl.get_dataset_tensor_desc(handle, 0) == acl.mdl.get_dataset_tensor_desc(handle, 2) == 0
    ok(acl.mdl.destroy_dataset(handle))
    assert acl.get_tensor_desc_element_count(attached) == 0
    assert "destroyed already" in message()


def test_a_copied_description_carries_everything() -> None:
    handle, _ = dataset(1)
    desc = acl.create_tensor_desc(1, [-1, 3], 0)
    acl.set_tensor_desc_name(desc, "input")
    ok(acl.set_tensor_shape_range(desc, [[1, 8], [3, 3]]))
    ok(acl.mdl.set_dataset_tensor_desc(handle, desc, 0))
    ok(acl.set_tensor_shape_range(desc, [[2, 9], [4, 4]]))
    attached = acl.mdl.get_dataset_tensor_desc(handle, 0)
    assert acl.get_tensor_desc_name(attached) == "input"
    assert acl.get_tensor_desc_type(attached) == 1
    assert acl.get_tensor_desc_format(attached) == 0
    assert acl.get_tensor_desc_dim_range(attached, 0, 2) == ([1, 8], 0)


def test_a_description_is_replaced_and_removed() -> None:
    handle, _ = dataset(1)
    ok(acl.mdl.set_dataset_tensor_desc(handle, description(2), 0))
    first = acl.mdl.get_dataset_tensor_desc(handle, 0)
    ok(acl.mdl.set_dataset_tensor_desc(handle, description(3), 0))
    second = acl.mdl.get_dataset_tensor_desc(handle, 0)
    assert acl.get_tensor_desc_element_count(second) == 3
    assert acl.get_tensor_desc_element_count(first) == 0
    assert acl.mdl.set_dataset_tensor_desc(handle, 0, 0) == (handle, 0)
    assert acl.mdl.get_dataset_tensor_desc(handle, 0) == 0
    assert acl.get_tensor_desc_element_count(second) == 0
    assert acl.mdl.set_dataset_tensor_desc(handle, 0, 0) == (handle, 0)


def test_setting_the_attached_description_again_keeps_it() -> None:
    handle, _ = dataset(1)
    ok(acl.mdl.set_dataset_tensor_desc(handle, description(7), 0))
    ok(acl.mdl.set_dataset_tensor_desc(handle, acl.mdl.get_dataset_tensor_desc(handle, 0), 0))
    assert acl.get_tensor_desc_element_count(acl.mdl.get_dataset_tensor_desc(handle, 0)) == 7


def test_null_handles_are_refused() -> None:
    single_buffer = buffer(1)
    assert acl.mdl.destroy_dataset(0) == 100000
    assert acl.mdl.add_dataset_buffer(0, single_buffer) == (0, 100000)
    assert acl.mdl.add_dataset_buffer(acl.mdl.create_dataset(), 0) == (0, 100000)
    assert acl.mdl.get_dataset_num_buffers(0) == 0
    assert acl.mdl.get_dataset_buffer(0, 0) == 0
    assert acl.mdl.set_dataset_tensor_desc(0, description(1), 0) == (0, 100000)
    assert acl.mdl.get_dataset_tensor_desc(0, 0) == 0


@pytest.mark.parametrize("make", ["stale", "data buffer", "stream", "number"])
def test_what_is_no_dataset(make: str) -> None:
    stale, _ = dataset(1)
    ok(acl.mdl.destroy_dataset(stale))
    wrong: dict[str, Any] = {
        "stale": stale, "data buffer": buffer(1), "stream": ok(acl.rt.create_stream()), "number": 999,
    }  # fmt: skip
    handle = wrong[make]
    assert acl.mdl.destroy_dataset(handle) == 107000
    assert acl.mdl.add_dataset_buffer(handle, buffer(2)) == (0, 107000)
    assert acl.mdl.get_dataset_num_buffers(handle) == 0
    assert acl.mdl.get_dataset_buffer(handle, 0) == 0
    assert acl.mdl.set_dataset_tensor_desc(handle, description(1), 0) == (0, 107000)
    assert acl.mdl.get_dataset_tensor_desc(handle, 0) == 0
    assert "dataset" in message()


def test_what_is_no_buffer_or_description_is_not_taken() -> None:
    handle, _ = dataset(1)
    stale = buffer(1)
    ok(acl.destroy_data_buffer(stale))
    gone = description(1)
    acl.destroy_tensor_desc(gone)
    for wrong in (stale, handle, 5, description(1)):
        assert acl.mdl.add_dataset_buffer(handle, wrong) == (0, 107000)
    for wrong in (gone, handle, 5, buffer(1)):
        assert acl.mdl.set_dataset_tensor_desc(handle, wrong, 0) == (0, 107000)
    assert acl.mdl.get_dataset_num_buffers(handle) == 1
    assert acl.mdl.get_dataset_tensor_desc(handle, 0) == 0


def test_datasets_may_be_destroyed_after_finalize() -> None:
    handle, buffers = dataset(1)
    ok(acl.finalize())
    assert acl.mdl.get_dataset_num_buffers(handle) == 1
    assert acl.mdl.destroy_dataset(handle) == 0
    assert acl.destroy_data_buffer(buffers[0]) == 0
