"""The handle table: what is live, what is stale, what was never a handle."""

from __future__ import annotations

import threading

import pytest

from softnpu.base.errors import NpuError
from softnpu.base.handles import HandleTable, kind_of, words

INVALID_PARAM, BAD_VALUE = 100000, 107000


@pytest.fixture
def table() -> HandleTable:
    return HandleTable()


def refused(table: HandleTable, kind: str, handle: int) -> NpuError:
    with pytest.raises(NpuError) as caught:
        table.get(kind, handle)
    with pytest.raises(NpuError) as again:
        table.remove(kind, handle)
    assert caught.value.code == again.value.code and caught.value.text == again.value.text
    assert caught.value.remedy
    return caught.value


def test_there_and_back(table: HandleTable) -> None:
    resource = object()
    handle = table.add("stream", resource)
    assert type(handle) is int and 0 < handle < 2**64
    assert table.get("stream", handle) is resource
    assert table.peek("stream", handle) is resource
    assert len(table) == 1
    assert table.remove("stream", handle) is resource
    assert table.peek("stream", handle) is None and len(table) == 0


def test_handles_differ_and_are_never_used_twice(table: HandleTable) -> None:
    seen = set()
    for _ in range(1000):
        handle = table.add("event", None)
        seen.add(handle)
        table.discard(handle)
    assert len(seen) == 1000


def test_a_handle_is_no_address(table: HandleTable) -> None:
    """User-space addresses end below 2^47, so a handle given as a pointer is noticed."""
    assert table.add("stream", None) >= 2**47


def test_a_null_handle_is_refused_by_its_kind(table: HandleTable) -> None:
    error = refused(table, "tensor_desc", 0)
    assert error.code == INVALID_PARAM and "null" in error.text and "tensor description" in error.text


def test_a_destroyed_handle_is_refused(table: HandleTable) -> None:
    handle = table.add("stream", None)
    table.remove("stream", handle)
    error = refused(table, "stream", handle)
    assert error.code == BAD_VALUE and "destroyed" in error.text and hex(handle) in error.text


@pytest.mark.parametrize("value", [1, 0x7F0012345678, 2**64 - 1, 2**63])
def test_never_a_handle(table: HandleTable, value: int) -> None:
    table.add("stream", None)
    error = refused(table, "stream", value)
    assert error.code == BAD_VALUE and "no stream handle" in error.text
    assert kind_of(value) is None


def test_wrong_kind(table: HandleTable) -> None:
    handle = table.add("data_buffer", "thing")
    error = refused(table, "stream", handle)
    assert error.code == BAD_VALUE and "data buffer handle" in error.text
    assert table.get("data_buffer", handle) == "thing", "a refused removal leaves it there"
    assert kind_of(handle) == "data_buffer"


def test_beyond_64_bits(table: HandleTable) -> None:
    assert kind_of(table.add("stream", None) + 2**64) is None


def test_discard_twice(table: HandleTable) -> None:
    handle = table.add("event", None)
    table.discard(handle)
    table.discard(handle)
    table.discard(12345)
    assert len(table) == 0


def test_live_handles_are_listed_by_kind(table: HandleTable) -> None:
    event, stream = table.add("event", "a"), table.add("stream", "b")
    assert table.live() == [(event, "event", "a"), (stream, "stream", "b")]
    assert table.live("stream") == [(stream, "stream", "b")]
    for handle, _, _ in table.live():
        table.discard(handle)
    assert table.live() == []


def test_kinds_have_words_for_messages() -> None:
    assert words("tensor_desc") == "tensor description"
    assert words("op_attr") == "op attr"


def test_tables_are_apart(table: HandleTable) -> None:
    handle = table.add("stream", 1)
    assert HandleTable().peek("stream", handle) is None


def test_many_threads(table: HandleTable) -> None:
    handles: list[list[int]] = [[] for _ in range(4)]
    gate = threading.Barrier(4)

    def work(mine: list[int]) -> None:
        gate.wait(20)
        for _ in range(1000):
            mine.append(table.add("event", threading.get_ident()))
        for handle in mine[:500]:
            assert table.remove("event", handle) == threading.get_ident()

    threads = [threading.Thread(target=work, args=(mine,)) for mine in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len({handle for mine in handles for handle in mine}) == 4000
    assert len(table) == 2000


def test_one_of_many_threads_removes(table: HandleTable) -> None:
    for _ in range(100):
        handle = table.add("event", 1)
        gate = threading.Barrier(3)
        codes: list[int] = []

        def work(handle: int = handle, gate: threading.Barrier = gate, codes: list[int] = codes) -> None:
            gate.wait(20)
            try:
                codes.append(table.remove("event", handle) - 1)
            except NpuError as error:
                codes.append(error.code)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(codes) == [0, BAD_VALUE, BAD_VALUE]
