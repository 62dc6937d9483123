"""acl: tensor descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import acl
from softnpu.runtime.process import process
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("runtime")
FLOAT, FLOAT16, INT32 = 0, 1, 3
NCHW, NHWC, ND, NZ = 0, 1, 2, 29
# aclDataType → bytes per element, as table 12.1 has them; 8 for what is not in the list.
SIZES = {
    -1: 0, 0: 4, 1: 2, 2: 1, 3: 4, 4: 1, 6: 2, 7: 2, 8: 4, 9: 8, 10: 8, 11: 8, 12: 1, 13: 0, 16: 8, 17: 16, 27: 2,
    29: 1, 30: 1, 33: 4, 34: 1, 35: 1, 36: 1, 37: 1, 5: 8, 14: 8, 99: 8, -7: 8,
}  # fmt: skip
GETTERS: dict[str, tuple[Callable[[int], Any], Any]] = {
    "type": (acl.get_tensor_desc_type, -1),
    "format": (acl.get_tensor_desc_format, -1),
    "size": (acl.get_tensor_desc_size, 0),
    "element_count": (acl.get_tensor_desc_element_count, 0),
    "num_dims": (acl.get_tensor_desc_num_dims, 0),
    "dim": (lambda desc: acl.get_tensor_desc_dim(desc, 0), -1),
    "name": (acl.get_tensor_desc_name, ""),
    "address": (acl.get_tensor_desc_address, 0),
    "by_index": (lambda desc: acl.get_tensor_desc_by_index(desc, 0), 0),
}
SETTERS: dict[str, Callable[[int], int]] = {
    "storage_format": lambda desc: acl.set_tensor_storage_format(desc, NZ),
    "origin_format": lambda desc: acl.set_tensor_origin_format(desc, NZ),
    "shape": lambda desc: acl.set_tensor_shape(desc, [1]),
    "storage_shape": lambda desc: acl.set_tensor_storage_shape(desc, [1]),
    "origin_shape": lambda desc: acl.set_tensor_origin_shape(desc, [1]),
    "shape_range": lambda desc: acl.set_tensor_shape_range(desc, [[1, 2]]),
    "value_range": lambda desc: acl.set_tensor_value_range(desc, [[1, 2]]),
    "dynamic_input": lambda desc: acl.set_tensor_dynamic_input(desc, "x"),
    "const": lambda desc: acl.set_tensor_const(desc, acl.util.bytes_to_ptr(b"abcd"), 4),
    "place_ment": lambda desc: acl.set_tensor_place_ment(desc, 1),
}


def make(dims: list[int], data_type: int = FLOAT, layout: int = ND) -> int:
    desc: int = acl.create_tensor_desc(data_type, dims, layout)
    assert desc
    return desc


@pytest.mark.parametrize(("data_type", "size"), SIZES.items())
def test_elements_have_the_sizes_of_the_manual(data_type: int, size: int) -> None:
    assert acl.data_type_size(data_type) == size
    assert acl.get_tensor_desc_size(make([3], data_type)) == 3 * size


@pytest.mark.parametrize(
    ("dims", "count"),
    [
        ([], 1),
        ([5], 5),
        ([2, 3, 4], 24),
        ([1] * 128, 1),
        ([0, 5], 0),
        ([-1, 5], 0),
        ([7, -1, -1], 0),
        ([1 << 40, 8], 1 << 43),
    ],
)
def test_counts_are_products(dims: list[int], count: int) -> None:
    desc = make(dims, INT32)
    assert acl.get_tensor_desc_num_dims(desc) == len(dims)
    assert acl.get_tensor_desc_element_count(desc) == count
    assert acl.get_tensor_desc_size(desc) == 4 * count
    assert [acl.get_tensor_desc_dim(desc, index) for index in range(len(dims))] == dims
    assert [acl.get_tensor_desc_dim_v2(desc, index) for index in range(len(dims))] == [(dim, 0) for dim in dims]
    assert acl.get_tensor_desc_type(desc) == INT32
    assert acl.get_tensor_desc_format(desc) == ND
    assert acl.destroy_tensor_desc(desc) is None


def test_an_unknown_rank_has_no_size() -> None:
    desc = make([-2])
    assert acl.get_tensor_desc_num_dims(desc) == 0xFFFFFFFFFFFFFFFE
    assert acl.get_tensor_desc_element_count(desc) == 0
    assert acl.get_tensor_desc_size(desc) == 0
    assert acl.get_tensor_desc_dim(desc, 0) == -1
    assert acl.get_tensor_desc_dim_v2(desc, 0)[1] == 100000


def test_more_elements_than_can_be_counted_are_none() -> None:
    desc = make([1 << 40, 1 << 40])
    assert acl.get_tensor_desc_element_count(desc) == 0
    assert acl.get_tensor_desc_size(desc) == 0
    assert "64 bits" in message()
    assert acl.get_tensor_desc_size(make([1 << 62], FLOAT)) == 0
    assert acl.get_tensor_desc_element_count(make([1 << 62], FLOAT)) == 1 << 62


@pytest.mark.parametrize("dims", [[1] * 129, [-3], [2, -2], [-2, -2], [-(1 << 63)]])
def test_dims_that_no_tensor_has(dims: list[int]) -> None:
    assert acl.create_tensor_desc(FLOAT, dims, ND) == 0
    assert "dims" in message()


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        (None, "argument 1 is not list"),
        ((1, 2), "argument 1 is not list"),
        (5, "argument 1 is not list"),
        (["1"], "the list argument is not list of int"),
        ([1.0], "the list argument is not list of int"),
        ([None], "the list argument is not list of int"),
        ([1 << 63], "the list argument is not list of int"),
    ],
)
def test_dims_that_are_no_list_of_int(dims: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        acl.create_tensor_desc(FLOAT, dims, ND)
    with pytest.raises(TypeError, match=text):
        acl.set_tensor_shape(make([1]), dims)


def test_numpy_integers_are_dims() -> None:
    assert acl.get_tensor_desc_element_count(make([numpy.int64(3), numpy.uint8(4), True])) == 12


def test_the_list_may_be_changed_afterwards() -> None:
    dims = [2, 3]
    desc = make(dims)
    dims[0] = 100
    assert acl.get_tensor_desc_element_count(desc) == 6
    ok(acl.set_tensor_origin_shape(desc, dims))
    dims[0] = 7
    assert acl.get_tensor_desc_element_count(desc) == 300


@pytest.mark.parametrize("index", [2, 100, 1 << 60, -1])
def test_a_dim_that_is_not_there(index: int) -> None:
    desc = make([2, 3])
    assert acl.get_tensor_desc_dim(desc, index) == -1
    value, ret = acl.get_tensor_desc_dim_v2(desc, index)
    assert ret == 100000 and type(value) is int
    assert "2 dims" in message()


def test_the_storage_shape_does_not_change_the_size() -> None:
    desc = make([2, 3])
    for call in (acl.set_tensor_shape, acl.set_tensor_storage_shape):
        assert call(desc, [100, 100]) == 0
        assert acl.get_tensor_desc_size(desc) == 24
        assert acl.get_tensor_desc_num_dims(desc) == 2
    assert acl.set_tensor_origin_shape(desc, [4, 5, 6]) == 0
    assert acl.get_tensor_desc_size(desc) == 480
    assert acl.get_tensor_desc_num_dims(desc) == 3


def test_the_storage_format_is_not_the_format() -> None:
    desc = make([2, 3], layout=NCHW)
    for call in (acl.set_tensor_format, acl.set_tensor_storage_format):
        assert call(desc, NZ) == 0
        assert acl.get_tensor_desc_format(desc) == NCHW
    assert acl.set_tensor_origin_format(desc, NHWC) == 0
    assert acl.get_tensor_desc_format(desc) == NHWC


@pytest.mark.parametrize("call", ["set_tensor_shape", "set_tensor_storage_shape", "set_tensor_origin_shape"])
def test_a_shape_that_no_tensor_has_changes_nothing(call: str) -> None:
    desc = make([2, 3])
    assert getattr(acl, call)(desc, [1] * 129) == 300000
    assert getattr(acl, call)(desc, [2, -5]) == 100000
    assert acl.get_tensor_desc_size(desc) == 24


def test_ranges_of_dims_are_kept() -> None:
    desc = make([-1, 3, -1])
    assert acl.get_tensor_desc_dim_range(desc, 0, 2) == (None, 100000)
    assert acl.set_tensor_shape_range(desc, [[1, 8], [3, 3], [0, -1]]) == 0
    assert [acl.get_tensor_desc_dim_range(desc, index, 2) for index in range(3)] == [
        ([1, 8], 0),
        ([3, 3], 0),
        ([0, -1], 0),
    ]
    assert acl.get_tensor_desc_dim_range(desc, 1, 4096) == ([3, 3], 0)
    for count in (0, 1, 4097, 1 << 40, -1):
        assert acl.get_tensor_desc_dim_range(desc, 0, count) == (None, 100000)
    for index in (3, 1 << 60, -1):
        assert acl.get_tensor_desc_dim_range(desc, index, 2) == (None, 100000)


@pytest.mark.parametrize("ranges", [[[1, 2]], [[1, 2]] * 3, [[1, 2], [3]], [[1, 2], [3, 4, 5]], [[1, 2], [5, 4]], []])
def test_ranges_that_do_not_fit(ranges: list[list[int]]) -> None:
    desc = make([-1, -1])
    assert acl.set_tensor_shape_range(desc, ranges) == 100000
    assert acl.get_tensor_desc_dim_range(desc, 0, 2) == (None, 100000)


@pytest.mark.parametrize("ranges", [None, 5, [1, 2], [[1, "2"]], [(1, 2)], [None]])
def test_ranges_of_a_wrong_type(ranges: Any) -> None:
    for call in (acl.set_tensor_shape_range, acl.set_tensor_value_range):
        with pytest.raises(TypeError, match="list"):
            call(make([-1]), ranges)


def test_ranges_of_values_are_checked() -> None:
    desc = make([4])
    assert acl.set_tensor_value_range(desc, [[0, 255]]) == 0
    assert acl.set_tensor_value_range(desc, [[5, -1], [0, 0]]) == 0
    assert acl.set_tensor_value_range(desc, [[5, 4]]) == 100000
    assert acl.set_tensor_value_range(desc, [[5]]) == 100000


@pytest.mark.parametrize("name", ["x", "", "a name", "图像/输入:0", "n" * 10_000])
def test_any_name_is_kept(name: str) -> None:
    desc = make([1])
    assert acl.get_tensor_desc_name(desc) == ""
    assert acl.set_tensor_desc_name(desc, name) is None
    assert acl.get_tensor_desc_name(desc) == name


@pytest.mark.parametrize("name", [None, b"x", 5, "a\0b", "\ud800"])
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(TypeError, match="set_tensor_desc_name args parse failed"):
        acl.set_tensor_desc_name(make([1]), name)
    with pytest.raises(TypeError, match="set_tensor_dynamic_input args parse failed"):
        acl.set_tensor_dynamic_input(make([1]), name)


def test_a_description_can_be_a_dynamic_input() -> None:
    assert acl.set_tensor_dynamic_input(make([1]), "x") == 0


def test_no_address_and_no_list_unless_the_system_made_them() -> None:
    desc = make([1])
    assert acl.get_tensor_desc_address(desc) == 0
    assert acl.get_tensor_desc_by_index(desc, 1) == 0
    assert acl.get_tensor_desc_by_index(desc, -1) == 0


@pytest.mark.parametrize("place", ["bytes", "host", "device"])
def test_a_constant_is_copied_at_once(place: str) -> None:
    desc, data = make([4]), b"0123456789abcdef"
    ptr = acl.util.bytes_to_ptr(data)
    if place != "bytes":
        ptr = ok(acl.rt.malloc_host(16) if place == "host" else acl.rt.malloc(16, 0))
        ok(acl.rt.memcpy(ptr, 16, acl.util.bytes_to_ptr(data), 16, 4))
    assert acl.set_tensor_const(desc, ptr, 16) == 0
    if place != "bytes":
        ok(acl.rt.memset(ptr, 16, 0, 16))
        ok(acl.rt.free_host(ptr) if place == "host" else acl.rt.free(ptr))
    assert process().handles.get("tensor_desc", desc).constant == data


def test_constants_are_checked() -> None:
    desc, ptr = make([4]), ok(acl.rt.malloc(64, 0))
    assert acl.set_tensor_const(desc, 0, 16) == 100000
    assert acl.set_tensor_const(desc, ptr, 0) == 100000
    assert acl.set_tensor_const(desc, ptr, 5000) == 107000
    assert "64-byte device allocation" in message()
    assert acl.set_tensor_const(desc, 0xDEADBEEF, 8) == 107000
    assert acl.set_tensor_const(desc, ptr, -1) == 107000
    assert process().handles.get("tensor_desc", desc).constant is None


def test_placements_are_checked() -> None:
    desc = make([1])
    for kind in (0, 1, 2):
        assert acl.set_tensor_place_ment(desc, kind) == 0
    for kind in (-1, 3, 1000):
        assert acl.set_tensor_place_ment(desc, kind) == 100000


def test_conversion_of_formats_is_not_supported() -> None:
    value, ret = acl.trans_tensor_desc_format(make([1]), NZ)
    assert value == 0 and ret != 0


def test_names_that_do_not_exist() -> None:
    for name in ("set_compileopt", "cast_type", "set_tensor_placement"):
        assert not hasattr(acl, name)
        assert name not in dir(acl)


# ---- handles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("getter", GETTERS)
def test_getters_without_a_description(getter: str) -> None:
    call, nothing = GETTERS[getter]
    for handle in wrong_handles():
        assert call(handle) == nothing
    text = message()
    assert "tensor description" in text


@pytest.mark.parametrize("setter", SETTERS)
def test_setters_without_a_description(setter: str) -> None:
    null, *others = wrong_handles()
    assert SETTERS[setter](null) == 100000
    assert "tensor description handle is null" in message()
    for handle in others:
        assert SETTERS[setter](handle) == 107000
    assert SETTERS[setter](make([-1])) == 0


def test_the_one_setter_that_takes_null() -> None:
    null, *others = wrong_handles()
    assert acl.set_tensor_format(null, ND) == 0
    for handle in others:
        assert acl.set_tensor_format(handle, ND) == 107000


def test_pairs_without_a_description() -> None:
    null, *others = wrong_handles()
    assert acl.get_tensor_desc_dim_v2(null, 0)[1] == 100000
    assert acl.get_tensor_desc_dim_range(null, 0, 2) == (None, 100000)
    for handle in others:
        assert acl.get_tensor_desc_dim_v2(handle, 0)[1] == 107000
        assert acl.get_tensor_desc_dim_range(handle, 0, 2) == (None, 107000)


def test_destroying_what_is_none_is_said_but_raises_nothing() -> None:
    for handle in wrong_handles():
        assert acl.destroy_tensor_desc(handle) is None
        assert acl.set_tensor_desc_name(handle, "x") is None


def wrong_handles() -> list[int]:
    stale = make([1])
    acl.destroy_tensor_desc(stale)
    pointer: int = ok(acl.rt.malloc(10, 0))
    return [0, stale, acl.create_data_buffer(0, 0), 12345, pointer]


def test_descriptions_outlive_finalize() -> None:
    desc = make([2, 3])
    ok(acl.finalize())
    assert acl.get_tensor_desc_element_count(desc) == 6
    assert acl.destroy_tensor_desc(desc) is None
    assert acl.get_tensor_desc_element_count(desc) == 0


def test_many_descriptions_have_handles_of_their_own() -> None:
    handles = [make([number]) for number in range(1, 2000)]
    assert len(set(handles)) == len(handles)
    assert [acl.get_tensor_desc_element_count(one) for one in handles] == list(range(1, 2000))
    for one in handles:
        acl.destroy_tensor_desc(one)
    fresh = make([1])
    assert fresh not in handles
