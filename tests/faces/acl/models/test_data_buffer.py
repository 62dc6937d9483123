"""acl: data buffers, which hold an address and a size and own neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import acl
from tests.support import message, ok

pytestmark = pytest.mark.usefixtures("runtime")
READERS: tuple[Callable[[int], int], ...] = (
    acl.get_data_buffer_addr,
    acl.get_data_buffer_size,
    acl.get_data_buffer_size_v2,
)


def test_a_buffer_tells_what_it_was_given() -> None:
    ptr = ok(acl.rt.malloc(1000, 0))
    buffer = acl.create_data_buffer(ptr, 1000)
    assert type(buffer) is int and buffer > 0
    assert acl.get_data_buffer_addr(buffer) == ptr
    assert acl.get_data_buffer_size(buffer) == acl.get_data_buffer_size_v2(buffer) == 1000
    assert acl.destroy_data_buffer(buffer) == 0
    ok(acl.rt.memset(ptr, 1000, 0, 1000))  # the memory is not the buffer's
    ok(acl.rt.free(ptr))


def test_nothing_may_be_in_a_buffer() -> None:
    buffer = acl.create_data_buffer(0, 0)
    assert buffer
    assert [read(buffer) for read in READERS] == [0, 0, 0]
    ok(acl.destroy_data_buffer(buffer))


@pytest.mark.parametrize("size", [(1 << 32) - 1, 1 << 32, (1 << 32) + 5, (1 << 64) - 1, -1])
def test_the_old_size_is_cut_to_32_bits(size: int) -> None:
    buffer = acl.create_data_buffer(0x1000, size)
    assert acl.get_data_buffer_size_v2(buffer) == size % (1 << 64)
    assert acl.get_data_buffer_size(buffer) == size % (1 << 32)


def test_update_replaces_both() -> None:
    buffer = acl.create_data_buffer(0x1000, 10)
    assert acl.update_data_buffer(buffer, 0x2000, 20) == 0
    assert acl.get_data_buffer_addr(buffer) == 0x2000
    assert acl.get_data_buffer_size_v2(buffer) == 20
    assert acl.update_data_buffer(buffer, 0, 0) == 0
    assert acl.get_data_buffer_addr(buffer) == 0


def test_two_buffers_of_one_memory_are_two() -> None:
    first, second = acl.create_data_buffer(0x1000, 10), acl.create_data_buffer(0x1000, 10)
    assert first != second
    ok(acl.destroy_data_buffer(first))
    assert acl.get_data_buffer_addr(second) == 0x1000


def test_a_null_buffer_is_refused() -> None:
    assert [read(0) for read in READERS] == [0, 0, 0]
    assert acl.destroy_data_buffer(0) == 100000
    assert acl.update_data_buffer(0, 1, 1) == 100000
    assert "data buffer handle is null" in message()


@pytest.mark.parametrize("make", ["stale", "dataset", "stream", "number", "pointer"])
def test_what_is_no_buffer(make: str) -> None:
    stale = acl.create_data_buffer(0x1000, 10)
    ok(acl.destroy_data_buffer(stale))
    wrong: dict[str, Any] = {
        "stale": stale,
        "dataset": acl.mdl.create_dataset(),
        "stream": ok(acl.rt.create_stream()),
        "number": 12345,
        "pointer": ok(acl.rt.malloc(10, 0)),
    }
    handle = wrong[make]
    assert [read(handle) for read in READERS] == [0, 0, 0]
    assert acl.update_data_buffer(handle, 1, 1) == 107000
    assert acl.destroy_data_buffer(handle) == 107000
    assert "data buffer" in message()


def test_buffers_may_be_destroyed_after_finalize() -> None:
    buffer = acl.create_data_buffer(0x1000, 10)
    ok(acl.finalize())
    assert acl.get_data_buffer_addr(buffer) == 0x1000
    assert acl.destroy_data_buffer(buffer) == 0
    assert acl.destroy_data_buffer(buffer) == 107000


@pytest.mark.parametrize("wrong", [(None, 1), (1, 1.5), ("a", 1), (1,), (1, 2, 3), ()])
def test_wrong_arguments_are_type_errors(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"acl\.create_data_buffer args parse failed"):
        acl.create_data_buffer(*wrong)
