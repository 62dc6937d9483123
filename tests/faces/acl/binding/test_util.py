"""acl.util: addresses of Python objects and views of memory (threads: test_threads.py)."""

from __future__ import annotations

import ctypes
import gc
import mmap
import warnings
from typing import Any

import numpy
import pytest

import acl
from tests.support import ok

HOSTILE = [0, 1, 8, 0xDEADBEEF, (1 << 47) - 8, 1 << 47, 1 << 63, (1 << 64) - 1]
NUMBERS = {
    0: "bool", 1: "int8", 2: "uint8", 3: "int16", 4: "uint16", 5: "int32", 6: "uint32", 7: "int64", 8: "uint64",
    9: "longlong", 10: "ulonglong", 11: "float32", 12: "float64", 23: "float16",
}  # fmt: skip


def address(array: numpy.ndarray) -> int:
    return int(array.ctypes.data)


def quiet_ptr(array: Any) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(acl.util.numpy_to_ptr(array))


# ---- arrays to pointers ----------------------------------------------------------------------------------------------


def test_numpy_to_ptr_is_the_address_and_a_warning_at_the_callers_line(fresh: None) -> None:
    array = numpy.arange(10)
    with pytest.warns(Warning) as seen:
        ptr = acl.util.numpy_to_ptr(array)
    assert type(ptr) is int and ptr == address(array)
    assert [warning.filename for warning in seen] == [__file__]
    assert "deprecated" in str(seen[0].message)


def test_an_array_with_gaps_is_a_second_warning(fresh: None) -> None:
    array = numpy.arange(20)[::2]
    with pytest.warns(Warning) as seen:
        assert acl.util.numpy_to_ptr(array) == address(array)
    assert len(seen) == 2
    assert "not contiguous" in str(seen[1].message)
    assert seen[1].filename == __file__
    with pytest.warns(Warning) as seen:
        acl.util.numpy_to_ptr(numpy.zeros((3, 4), order="F"))
    assert len(seen) == 2


def test_warnings_that_the_program_made_errors_are_raised(fresh: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match="deprecated"):
            acl.util.numpy_to_ptr(numpy.zeros(3))


@pytest.mark.parametrize(
    "array",
    [
        numpy.zeros(()),
        numpy.zeros(0),
        numpy.zeros((0, 5)),
        numpy.arange(24, dtype="f2").reshape(2, 3, 4),
        numpy.array(["a", "b"]),
        numpy.zeros(3, "c16"),
        numpy.zeros(3, [("a", "i4"), ("b", "f8")]),
        numpy.ma.masked_array([1, 2, 3]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_every_kind_of_array_has_an_address(fresh: None, array: numpy.ndarray) -> None:
    assert quiet_ptr(array) == address(array)
    ptr, same = acl.util.numpy_contiguous_to_ptr(array)
    assert ptr == address(array) and same is array


def test_a_contiguous_array_is_given_back_itself(fresh: None) -> None:
    array = numpy.arange(12).reshape(3, 4)
    for part in (array, array[1:], array[1]):
        ptr, same = acl.util.numpy_contiguous_to_ptr(part)
        assert same is part and ptr == address(part)


@pytest.mark.parametrize("cut", [numpy.s_[:, ::2], numpy.s_[::-1], numpy.s_[:, 1:3]])
def test_an_array_with_gaps_is_copied(fresh: None, cut: Any) -> None:
    array = numpy.arange(24, dtype=numpy.int32).reshape(4, 6)[cut]
    ptr, copy = acl.util.numpy_contiguous_to_ptr(array)
    assert copy is not array and ptr == address(copy) != address(array)
    assert ctypes.string_at(ptr, copy.nbytes) == array.tobytes()
    fortran = numpy.asfortranarray(numpy.arange(6).reshape(2, 3))
    ptr, copy = acl.util.numpy_contiguous_to_ptr(fortran)
    assert ctypes.string_at(ptr, copy.nbytes) == fortran.tobytes()


@pytest.mark.parametrize("wrong", [None, 5, b"abc", [1, 2], "text", memoryview(b"abc"), numpy.int32(5)])
def test_what_is_no_array_is_a_value_error(fresh: None, wrong: Any) -> None:
    for call in (acl.util.numpy_to_ptr, acl.util.numpy_contiguous_to_ptr):
        with pytest.raises(ValueError, match=r"^needs an ndarray as argument$"):
            call(wrong)


def test_a_dead_array_leaves_nothing_behind(runtime: None) -> None:
    ptr = ok(acl.rt.malloc(1 << 20, 0))
    for _ in range(50):
        array = numpy.full(1 << 20, 7, numpy.uint8)
        ok(acl.rt.memcpy(ptr, 1 << 20, quiet_ptr(array), 1 << 20, 1))
        del array
    gc.collect()
    assert acl.util.ptr_to_bytes(ptr, 4) == b"\7\7\7\7"


# ---- pointers to arrays ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", ["host", "device"])
def test_every_type_number_is_a_writable_view(runtime: None, number: int, place: str) -> None:
    dtype = numpy.dtype(NUMBERS[number])
    expected = (numpy.arange(24) % 2 if number == 0 else numpy.arange(24)).astype(dtype).reshape(2, 3, 4)
    ptr = ok(acl.rt.malloc_host(expected.nbytes) if place == "host" else acl.rt.malloc(expected.nbytes, 0))
    ctypes.memmove(ptr, expected.tobytes(), expected.nbytes)
    view = acl.util.ptr_to_numpy(ptr, (2, 3, 4), number)
    assert view.dtype == dtype and view.shape == (2, 3, 4)
    assert numpy.array_equal(view, expected)
    assert address(view) == ptr and view.flags.writeable and not view.flags.owndata
    view[1, 2, 3] = 0
    assert acl.util.ptr_to_bytes(ptr + expected.nbytes - dtype.itemsize, dtype.itemsize) == bytes(dtype.itemsize)
    ctypes.memset(ptr, 0, expected.nbytes)
    assert not view.any()


def test_the_view_lives_on_when_the_memory_is_freed(runtime: None) -> None:
    host, device = ok(acl.rt.malloc_host(4000)), ok(acl.rt.malloc(40 << 20, 0))
    small = acl.util.ptr_to_numpy(host, (1000,), 5)
    large = acl.util.ptr_to_numpy(device, (40 << 20,), 2)
    small[:] = range(1000)
    large[:] = 9
    ok(acl.rt.free_host(host))
    ok(acl.rt.free(device))
    assert small.tolist() == list(range(1000))  # nothing else was allocated since
    assert int(large[-1]) in (0, 9)
    ok(acl.rt.reset_device(0))
    ok(acl.finalize())
    assert small.sum() >= 0 and large.sum() >= 0
    small[:] = 1
    large[:] = 1


def test_a_view_of_another_object_is_that_object(fresh: None) -> None:
    array, data = numpy.arange(10, dtype=numpy.int32), bytes(40)
    view = acl.util.ptr_to_numpy(quiet_ptr(array), (10,), 5)
    view[3] = 77
    assert array[3] == 77
    acl.util.ptr_to_numpy(acl.util.bytes_to_ptr(data), (40,), 2)[:] = 5
    assert data == b"\5" * 40
    buffer = ctypes.create_string_buffer(40)
    acl.util.ptr_to_numpy(ctypes.addressof(buffer), (40,), 2)[:] = 6
    assert buffer.raw == b"\6" * 40


def test_a_view_of_memory_that_cannot_be_written_is_not_writable(fresh: None) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ)
    ptr = numpy.frombuffer(memory, numpy.uint8).ctypes.data
    view = acl.util.ptr_to_numpy(int(ptr), (100,), 2)
    assert not view.any()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (0,), (5, 0), (numpy.int64(3), True)])
def test_odd_shapes_are_taken_as_they_are(runtime: None, shape: tuple[int, ...]) -> None:
    ptr = ok(acl.rt.malloc(100, 0))
    assert acl.util.ptr_to_numpy(ptr, shape, 2).shape == tuple(int(dim) for dim in shape)


@pytest.mark.parametrize(
    "shape",
    [
        (-1,),
        (2, -2),
        (1.5,),
        ("3",),
        (None,),
        ((2,),),
        (1,) * 100,
        (0, 1 << 70),
        (1 << 62, 4),
        (1 << 63,),
        (2**31, 2**33),
    ],
    ids=str,
)
def test_shapes_that_no_array_can_have(runtime: None, shape: Any) -> None:
    ptr = ok(acl.rt.malloc(1000, 0))
    with pytest.raises(ValueError):
        acl.util.ptr_to_numpy(ptr, shape, 2)


@pytest.mark.parametrize("shape", [[2], 5, None, "2", {2}])
def test_a_shape_that_is_no_tuple_is_a_type_error(runtime: None, shape: Any) -> None:
    with pytest.raises(TypeError, match="ptr_to_numpy args parse failed"):
        acl.util.ptr_to_numpy(ok(acl.rt.malloc(1000, 0)), shape, 2)


@pytest.mark.parametrize("number", [-1, 17, 18, 19, 20, 21, 22, 24, 1000])
def test_type_numbers_without_plain_values(runtime: None, number: int) -> None:
    with pytest.raises(ValueError, match=str(number)):
        acl.util.ptr_to_numpy(ok(acl.rt.malloc(1000, 0)), (1,), number)


def test_a_view_larger_than_the_memory_is_refused(runtime: None) -> None:
    ptr = ok(acl.rt.malloc(1000, 0))
    with pytest.raises(ValueError, match="1000-byte device allocation"):
        acl.util.ptr_to_numpy(ptr, (1200,), 2)
    with pytest.raises(ValueError, match="1000-byte device allocation"):
        acl.util.ptr_to_numpy(ptr + 500, (100,), 12)


# ---- bytes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 10, 4096, 1 << 20])
def test_bytes_there_and_back(fresh: None, size: int) -> None:
    data = bytes(numpy.random.default_rng(size).integers(0, 256, size, dtype=numpy.uint8))
    ptr = acl.util.bytes_to_ptr(data)
    assert type(ptr) is int
    assert ctypes.string_at(ptr, size) == data
    copy = acl.util.ptr_to_bytes(ptr, size)
    assert copy == data
    assert size < 2 or copy is not data


def test_what_is_written_through_the_pointer_is_in_the_object(fresh: None) -> None:
    data = bytes(100)
    ctypes.memset(acl.util.bytes_to_ptr(data) + 50, 7, 50)
    assert data == bytes(50) + b"\7" * 50


def test_a_bytes_object_of_a_derived_class(fresh: None) -> None:
    class Named(bytes):
        name = "x"

    data = Named(b"content of it")
    assert ctypes.string_at(acl.util.bytes_to_ptr(data), 13) == b"content of it"


@pytest.mark.parametrize("wrong", [None, 5, "text", bytearray(b"abc"), memoryview(b"abc"), numpy.zeros(3)])
def test_what_is_no_bytes_object_is_a_value_error(fresh: None, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^needs an byte as argument$"):
        acl.util.bytes_to_ptr(wrong)


@pytest.mark.parametrize("place", ["host", "device"])
def test_ptr_to_bytes_is_a_copy_of_any_memory(runtime: None, place: str) -> None:
    ptr = ok(acl.rt.malloc_host(1000) if place == "host" else acl.rt.malloc(1000, 0))
    ctypes.memset(ptr, 3, 1000)
    copy = acl.util.ptr_to_bytes(ptr, 1000)
    ctypes.memset(ptr, 4, 1000)
    assert copy == b"\3" * 1000
    assert acl.util.ptr_to_bytes(ptr + 990, 10) == b"\4" * 10
    assert acl.util.ptr_to_bytes(ptr, 0) == b""


@pytest.mark.parametrize("ptr", HOSTILE)
def test_pointers_to_nothing_are_value_errors(runtime: None, ptr: int) -> None:
    for size in (1, 8, 1 << 20, 1 << 62, -1):
        with pytest.raises(ValueError):
            acl.util.ptr_to_bytes(ptr, size)
    for shape in ((1,), (1 << 20,), (1 << 31, 1 << 31)):
        with pytest.raises(ValueError):
            acl.util.ptr_to_numpy(ptr, shape, 12)


@pytest.mark.parametrize("size", [1 << 40, 1 << 62, (1 << 64) - 1])
def test_absurd_sizes_of_sound_pointers_are_value_errors(runtime: None, size: int) -> None:
    data = b"x" * 100
    for ptr in (ok(acl.rt.malloc(100, 0)), ok(acl.rt.malloc_host(100)), acl.util.bytes_to_ptr(data)):
        with pytest.raises(ValueError):
            acl.util.ptr_to_bytes(ptr, size)


def test_the_names_can_be_asked_for() -> None:
    names = dir(acl.util)
    for name in ("bytes_to_ptr", "ptr_to_bytes", "numpy_to_ptr", "numpy_contiguous_to_ptr", "ptr_to_numpy"):
        assert name in names
    assert not hasattr(acl.util, "vector_to_ptr")


def test_a_round_trip_through_the_device(runtime: None) -> None:
    image = numpy.random.default_rng(1).normal(size=(3, 224, 224)).astype(numpy.float32)
    data = image.tobytes()
    device = ok(acl.rt.malloc(len(data), 2))
    ok(acl.rt.memcpy(device, len(data), acl.util.bytes_to_ptr(data), len(data), 1))
    back = bytes(len(data))
    ok(acl.rt.memcpy(acl.util.bytes_to_ptr(back), len(data), device, len(data), 2))
    assert numpy.array_equal(numpy.frombuffer(back, numpy.float32).reshape(image.shape), image)
    ok(acl.rt.free(device))
